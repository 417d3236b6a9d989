"""Exported models and single images, on one thread: each lane as a ratio to a named peer of the same interleaved run.

- ONNX against the same network in torch, for 16 images and for one
- `embed` against a plain loop of view and network (target: at least 0.95 of its throughput)
- `embed` of one image with and without `exact`, against the bare network (target: at most 1.3 times)
- a gallery that was searched before against the first search
- exact search in an index against the bare matrix product of queries and gallery (target: at most 1.2 times)
- CPU seconds of commands with an ONNX model (target: below 1 s), and of a search in the index of a run (target: below
  `import torch` + 1 s)
"""

from __future__ import annotations

from harness import one_thread  # noqa: F401  # isort: skip

import argparse
import itertools
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import torch
from harness.interleaved import Sample, between, clocks, interleave, ratio, typical
from PIL import Image
from startup import PASS, TORCH, seconds

from levelfield.data.views.basic import TestView
from levelfield.embedder import Embedder, Head, Model, Trunk, backbones, save_model
from levelfield.shipping.description import describe, write_description
from levelfield.shipping.formats import FORMATS, PlainNetwork, noise
from levelfield.shipping.index.exact import FLOAT, Stored, nearest
from levelfield.shipping.index.index import build_index
from levelfield.shipping.onnx_model import OnnxModel, load_onnx, unit
from levelfield.shipping.onnx_network import Network
from levelfield.shipping.searching import remembered

RESULTS = Path(__file__).parent / "results" / "ship.json"
TAPS = ["blocks.3", "blocks.4", "blocks.5"]  # of the study `demo`
SIDE, DIM, MANY = 64, 128, 64
QUERIES, GALLERY, NEAREST = 1000, 100_000, 10  # of the search in an index
REPEATS = {1: 16, 16: 2, MANY: 1, QUERIES: 1}  # calls in a slice, by number of images
SEARCH, PRODUCT = "search in an index, 1,000 queries", "matrix product, 1,000 queries"


@dataclass(frozen=True)
class Contest:
    """A lane, its peer, and the largest ratio of their times that is good; None: for information."""

    lane: str
    peer: str
    most: float | None = None


CONTESTS = [
    Contest("ONNX, 16 images", "network, 16 images"),
    Contest("ONNX, 1 image", "network, 1 image"),
    Contest("embed, 64 images", "view and network, 64 images", 1 / 0.95),
    Contest("ONNX embed, 64 images", "view and network, 64 images"),
    Contest("embed(exact=False), 1 image", "network, 1 image", 1.3),
    Contest("embed(exact=False), 1 image", "view and network, 1 image", 1.3),
    Contest("embed, 1 image", "network, 1 image"),
    Contest("gallery of 64, again", "gallery of 64, first", 0.2),
    Contest(SEARCH, PRODUCT, 1.2),
]


def made_model() -> Model:
    """The network of the study `demo`, with random weights."""
    trunk = Trunk(
        backbones.create("tf_efficientnet_lite0", weights="random"), cut="frozen", taps=TAPS, pooling="grid", image=SIDE
    )
    view = TestView(image=SIDE, mean=(0.5,) * 3, std=(0.5,) * 3)
    return Model(Embedder(trunk, Head(trunk.width, DIM)), view, {}, "benchmark")


def exported(model: Model, folder: Path) -> OnnxModel:
    """The model as an ONNX file, opened for one thread."""
    FORMATS["onnx"].write(folder, PlainNetwork(model), model.view, folder, False)
    settings = {"weights": "float32", "codes": "float32", "dim": model.dim}
    write_description(folder, describe("model.onnx", **settings, view=model.view.description, about={}))
    found = load_onnx(folder / "model.onnx")
    object.__setattr__(found, "network", Network(found.path.read_bytes(), found.path, threads=1))
    return found


def photos(folder: Path) -> list[Path]:
    """Small images, as the demo has them."""
    folder.mkdir()
    draw = np.random.default_rng(0)
    paths = [folder / f"{number}.png" for number in range(MANY)]
    for path in paths:
        Image.fromarray(draw.integers(0, 256, size=(72, 72, 3), dtype=np.uint8)).save(path)
    return paths


def lane(work: Callable[[], object], images: int) -> Callable[[], Sample]:
    """A slice of several calls; the time of one."""

    def run() -> Sample:
        before = clocks()
        for _ in range(REPEATS[images]):
            work()
        return between(before, clocks(), REPEATS[images])

    return run


def lanes(model: Model, onnx: OnnxModel, paths: list[Path], folder: Path) -> dict[str, Callable[[], Sample]]:
    network = PlainNetwork(model)
    pictures = [Image.open(path).convert("RGB") for path in paths]
    for picture in pictures:
        picture.load()
    tensors = {count: noise(model.view, count) for count in (1, 16)}
    numbers = itertools.count()

    def plain_loop(count: int) -> None:
        with torch.no_grad():
            for first in range(0, count, 16):
                network(torch.stack([model.view(each) for each in pictures[first : min(first + 16, count)]]))

    def bare(count: int) -> None:
        with torch.no_grad():
            network(tensors[count])

    remembered(model, paths, cache=folder / "known")
    rows = unit(np.random.default_rng(0).normal(size=(GALLERY, DIM)).astype(np.float32))
    queries, stored = rows[:: GALLERY // QUERIES].copy(), Stored(rows, DIM, FLOAT)
    return {
        PRODUCT: lane(lambda: queries @ rows.T, QUERIES),
        SEARCH: lane(lambda: nearest(stored, queries, NEAREST), QUERIES),
        "network, 16 images": lane(lambda: bare(16), 16),
        "ONNX, 16 images": lane(lambda: onnx.rows(tensors[16].numpy()), 16),
        "network, 1 image": lane(lambda: bare(1), 1),
        "ONNX, 1 image": lane(lambda: onnx.rows(tensors[1].numpy()), 1),
        "view and network, 1 image": lane(lambda: plain_loop(1), 1),
        "embed(exact=False), 1 image": lane(lambda: model.embed(pictures[0], exact=False), 1),
        "embed, 1 image": lane(lambda: model.embed(pictures[0]), 1),
        "view and network, 64 images": lane(lambda: plain_loop(MANY), MANY),
        "embed, 64 images": lane(lambda: model.embed(pictures), MANY),
        "ONNX embed, 64 images": lane(lambda: onnx.embed(pictures), MANY),
        "gallery of 64, first": lane(lambda: remembered(model, paths, cache=folder / f"new{next(numbers)}"), MANY),
        "gallery of 64, again": lane(lambda: remembered(model, paths, cache=folder / "known"), MANY),
    }


def commands(folder: Path, rounds: int) -> dict[str, float]:
    """Median CPU seconds of processes."""
    file, gallery = str(folder / "model.onnx"), str(folder / "photos")
    use = ["-m", "levelfield", "search", file, "--gallery", gallery, f"{gallery}/0.png"]
    for name in ("run", "model.onnx"):
        build_index(folder / name, [gallery], folder / f"index of {name}")
    words = {
        PASS: ["-c", "pass"],
        TORCH: ["-c", "import torch"],
        "load and embed, ONNX": ["-c", f"import levelfield; levelfield.load({file!r}).embed({gallery + '/0.png'!r})"],
        "search again, ONNX": use,
        "search an index, ONNX": ["-m", "levelfield", "search", "index of model.onnx", f"{gallery}/0.png"],
        "search an index": ["-m", "levelfield", "search", "index of run", f"{gallery}/0.png"],
    }
    found = interleave({name: (lambda each=each: seconds(each, folder)) for name, each in words.items()}, rounds)
    return {name: median(one.cpu for one in samples) for name, samples in found.items()}


def clock_of(lane: str) -> str:
    """The CPU time of this process, or the wall time of an ONNX network, which another process computes."""
    return "wall" if "ONNX" in lane else "cpu"


def table(samples: dict[str, list[Sample]], started: dict[str, float]) -> list[str]:
    """A line for each contest, and one for each process.

    >>> one, two = [Sample(1.0, 1.0)], [Sample(2.0, 2.0)]
    >>> names = {name for each in CONTESTS for name in (each.lane, each.peer)}
    >>> lines = table({name: two if name.startswith("ONNX, 16") else one for name in names}, {"load, ONNX": 0.5})
    >>> print(lines[1], lines[-1], sep="\\n")
    ONNX, 16 images                    2.000 s     2.00 x network, 16 images
    load, ONNX                         0.50 CPU s  below 1 s: good
    """
    lines = [f"{'lane':<34} {'CPU time':<11} ratio to its peer (CPU time, of ONNX wall time; median over the rounds)"]
    for each in CONTESTS:
        clock = clock_of(each.lane)
        times = ratio(samples[each.lane], samples[each.peer], clock=clock)
        said = (
            "" if each.most is None else f" (at most {each.most:.2f}: {'good' if times <= each.most else 'TOO SLOW'})"
        )
        cost = f"{typical(samples[each.lane], clock=clock):.3f} s"
        lines.append(f"{each.lane:<34} {cost:<11} {times:.2f} x {each.peer}{said}")
    for name, cpu in started.items():
        verdict = f"below 1 s: {'good' if cpu < 1 else 'TOO SLOW'}" if "ONNX" in name else ""
        if name == "search an index":
            most = started[TORCH] + 1
            verdict = f"below {TORCH} + 1 s = {most:.2f} s: {'good' if cpu < most else 'TOO SLOW'}"
        lines.append(f"{name:<34} {f'{cpu:.2f} CPU s':<11} {verdict}".rstrip())
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FILE")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        model, paths = made_model(), photos(folder / "photos")
        save_model(folder / "run", model.embedder, {**model.view.description, "method": "benchmark"})
        onnx = exported(model, folder)
        samples = interleave(lanes(model, onnx, paths, folder), chosen.rounds)
        started = commands(folder, max(3, chosen.rounds // 3))
    print(*table(samples, started), sep="\n")
    ratios = {
        f"{each.lane} / {each.peer}": ratio(samples[each.lane], samples[each.peer], clock=clock_of(each.lane))
        for each in CONTESTS
    }
    times = {name: typical(one, clock=clock_of(name)) for name, one in samples.items()}
    chosen.out.write_text(json.dumps({"ratios": ratios, "cpu_seconds": times, "processes": started}, indent=2) + "\n")


if __name__ == "__main__":
    main()
