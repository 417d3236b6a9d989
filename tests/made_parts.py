"""One user-defined part of each kind, and a function that creates it by name."""

from __future__ import annotations

from pathlib import Path

BY_KIND = {
    "objective": "Loss",
    "miner": "Miner",
    "batching": "Batches",
    "metric": "hits",
    "dataset": "dataset",
    "protocol": "protocol",
    "corruption": "corruption",
    "figure": "figure",
    "backbone": "backbone",
    "method": "TwoPasses",
}
CODE = '''
from pathlib import Path

import numpy as np
import torch

from levelfield.batching import Batching
from levelfield.data import Catalog, Fold
from levelfield.methods import Method
from levelfield.miners import BaseMiner

(Path.cwd() / "canary").touch()


class Loss(torch.nn.Module):
    def forward(self, embeddings, labels):
        return embeddings.square().mean()


class Miner(BaseMiner):
    def mine(self, geometry, labels, generator):
        return torch.tensor([[0, 1, 2]])


class Batches(Batching):
    def _plan(self, stream, memory):
        return stream.integers(len(self.labels), size=(self.batches, self.batch_size))


def hits(groups, *, k=None, form=None):
    """Whether there is anything to find."""
    return (groups.count > 0).astype(float)


def dataset():
    return Catalog("eight", (Path("x"),) * 8, np.repeat(np.arange(4), 2), tuple("abcd"))


def protocol(catalog, *, validation=0.0):
    half = len(catalog) // 2
    return [Fold("halves", np.arange(half), np.arange(0), np.arange(half, len(catalog)))]


def corruption(image, stream, /, *, by=1):
    return image // 2 + by


def figure(rows, metric, path):
    path.write_text(metric)
    return path


class TwoPasses(Method):
    """Two passes."""

    def __init__(self, **settings):
        super().__init__(Loss(), **settings)


def backbone():
    return torch.nn.Conv2d(3, 8, 4, stride=4)
'''
PLUGIN = """
from levelfield import batching, data, evaluation, methods, miners, objectives
from levelfield.data import corruptions, protocols
from levelfield.embedder import backbones
from levelfield.reports import figures

objectives.register("theirs", objectives.ObjectiveFacts(paper="theirs", formula="|x|^2"))(Loss)
miners.register("theirs", miners.MinerFacts(paper="theirs", rule="the first three"))(Miner)
batching.register("theirs", "any images")(Batches)
evaluation.register("theirs", evaluation.MetricFacts("retrieval", "whether there is anything to find"))(hits)
data.register("theirs", data.DatasetFacts("eight images"))(dataset)
protocols.register("theirs", "halves")(protocol)
corruptions.register("theirs")(corruption)
figures.register("theirs", "nothing")(figure)
backbones.register("theirs")(backbone)
methods.register("their_method")(TwoPasses)  # an objective is a method, too
"""


def works(kind: str, name: str, folder: Path) -> bool:
    """Whether a part of that name can be created and used."""
    import numpy as np
    import torch

    from levelfield import batching, data, evaluate, methods, miners, objectives
    from levelfield.data import corruptions, protocols
    from levelfield.embedder import Trunk, backbones
    from levelfield.reports import figures

    rows, labels = torch.eye(4), torch.tensor([0, 0, 1, 1])
    if kind == "objective":
        return float(objectives.create(name)(rows, labels)) == 0.25
    if kind == "miner":
        loss = objectives.create("triplet", miner=name)
        return miners.create(name)(rows, labels).tolist() == [[0, 1, 2]] and float(loss(rows, labels)) > 0
    if kind == "batching":
        return batching.create(name, [0, 0, 1, 1], batch_size=2).plan(0).shape == (2, 2)
    if kind == "metric":
        return dict(evaluate(rows, labels, metrics=[name])) == {name: 1.0}
    if kind == "dataset":
        return len(data.create(name)) == 8
    if kind == "protocol":
        catalog = data.Catalog("eight", (Path("x"),) * 8, np.repeat(np.arange(4), 2), tuple("abcd"))
        return protocols.create(name, catalog)[0].test.tolist() == [4, 5, 6, 7] and protocols.fold_count(name) == 1
    if kind == "corruption":
        corruption = corruptions.create(name, by=3)
        return int(corruption(np.full((2, 2, 3), 10, np.uint8), corruptions.stream(name, "a")).max()) == 8
    if kind == "figure":
        return figures.create(name)([], "recall@1", folder / "drawn.png").read_text() == "recall@1"
    if kind == "method":
        name = name.replace("theirs", "their_method")
        return type(methods.create(name, num_classes=2, dim=4)).__name__ == "TwoPasses"
    backbone = backbones.create(name, weights="random")
    (features,) = Trunk(backbone, cut="frozen", image=8).below(torch.zeros(1, 3, 8, 8))
    return features.shape == (1, 8)


def pretend_installed(folder: Path, name: str, module: str) -> None:
    """The files of an installed package whose entry point is `module`."""
    facts = folder / f"{name}-1.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(f"[levelfield]\n{name} = {module}\n")
