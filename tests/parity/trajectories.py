"""Whole training steps of the papers' released programs, repeated by the study files of the papers.

A case says how its study is scaled down (classes, batch, epochs of two batches); all else comes from the study. Weights
and images follow the rules of the case (`rule`, `images`), random choices of a miner are inputs.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from golden_set import Case, Outputs
from torch import Tensor, nn

from levelfield.batching import Batching
from levelfield.embedder.networks.bninception import renamed
from levelfield.progress import SILENT
from levelfield.studies.planning.plan import plan
from levelfield.studies.runs.inputs import RunInputs
from levelfield.studies.runs.setup import Setup, set_up
from levelfield.studies.specification.yaml_file import read_study
from levelfield.training import Pace, train
from levelfield.training.feed import Feed, PlannedBatch


class Piece(NamedTuple):
    """A part of one of our tensors; side by side, pieces are a tensor of the release."""

    tensor: Tensor
    of: Callable[[Tensor], Tensor] = lambda tensor: tensor


@dataclass(frozen=True)
class Row:
    """The row of a study that a case repeats, and the names of the release's optimiser groups and terms here."""

    study: str
    label: str
    groups: tuple[str, ...]
    terms: Mapping[str, str] = field(default_factory=dict)
    on: str | None = None
    settings: tuple[str, ...] = ()  # of the case, beside those of its scale
    unit: bool = False  # whether the release normalises the rows


_HIST = Row(
    "lim2022/table4",
    "HIST",
    ("trunk", "head", "means", "hgnn"),
    {"distribution": "distribution", "classification": "classification"},
)
_DRML_TERMS = {"repre_loss": "final", "recon_loss": "reconstruction"}
ROWS = {
    "hist-resnet50-cub": _HIST,
    "hist-resnet50-sop": Row("lim2022/table11", "HIST", _HIST.groups, _HIST.terms, on="sop"),
    "proxy-anchor-resnet50-cub": Row("kim2020/cub", "Proxy Anchor", ("trunk", "head", "proxies"), unit=True),
    "message-passing-resnet50-cub": Row(
        "seidenschwarz2021/table1",
        "MPN",
        ("trunk",),
        {"auxiliary": "auxiliary", "messages": "messages"},
        settings=("methods.MPN.dropout=0",),
        unit=True,
    ),
    "drml-proxy-anchor-bninception-cub": Row(
        "zheng2021/table3", "DRML-PA", ("trunk", "head", "branch_proxies", "proxies"), _DRML_TERMS
    ),
    **{
        f"revisiting-{name}": Row("roth2020/table4", label, ("trunk", *own), unit=True)
        for name, label, own in (
            ("multisimilarity", "Multisimilarity", ()),
            ("margin-distance", "Margin (D, beta=1.2)", ("beta",)),
            ("margin-rho", "R-Margin (D, beta=1.2)", ("beta",)),
            ("proxynca", "ProxyNCA", ("proxies",)),
            ("arcface", "ArcFace", ("proxies",)),
        )
    },
}
# What a case calls its own parameters, if it is not our name; a gain is a weight.
OWN = {
    "theta1.weight": "theta1_weight",
    "theta1.bias": "theta1_bias",
    "theta2.weight": "theta2_weight",
    "theta2.bias": "theta2_bias",
    "bn1.weight": "bn_weight",
    "bn1.bias": "bn_bias",
    "class_vectors": "proxies",
    "aux.weight": "aux_weight",
    "aux.bias": "aux_bias",
    "neck.weight": "head_scale",
    "classifier.weight": "head_weight",
}


def rule(name: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """The first weights of the tensor `name`."""
    z = np.random.default_rng(zlib.crc32(name.encode()) + seed).standard_normal(shape)
    match name.rsplit(".", 1)[-1]:
        case "running_var":
            return np.exp(0.2 * z)
        case "running_mean" | "bias":
            return 0.1 * z
        case "gain":
            return (0.3 if ".bn3." in name else 1.0) * (1 + 0.1 * z)
        case "beta":
            return 0.3 + 0.05 * z
        case "log_vars":
            return 0.5 * z
    return z * np.sqrt(2 / (np.prod(shape[1:]) if len(shape) > 1 else shape[0]))


def images(count: int, seed: int, *, reverse: bool) -> Tensor:
    """`count` images; `reverse`: in the order of channels that our network reverses itself."""
    drawn = np.random.default_rng(seed)
    pixels = drawn.standard_normal((count, 3, 64, 64)) + 2 * drawn.standard_normal((count, 3, 1, 1))
    return torch.from_numpy(np.ascontiguousarray(pixels[:, ::-1] if reverse else pixels))


def pieces(name: str, setup: Setup, trunk: Mapping[str, Tensor]) -> list[Piece]:
    """Our tensors that make up the tensor `name` of a case. trunk: the tensors of our trunk by name."""
    owner, _, rest = name.replace("gain", "weight").partition(".")
    embedder, method = setup.embedder, setup.method
    if owner == "trunk":
        if embedder.trunk.backbone_name == "bninception":
            [rest] = renamed({rest: torch.empty(0)})
        elif rest.startswith(("conv1.", "bn1.")):
            rest = rest.replace("conv1.", "entrance.0.").replace("bn1.", "entrance.1.")
        return [Piece(trunk[f"pieces.{rest}"])]
    if owner == "head":
        linear = dict(embedder.head.named_parameters()).get(f"linear.{rest}")
        return _relation(rest, embedder.head) if linear is None else [Piece(linear)]
    if rest.startswith("branch_proxies"):
        return [Piece(method.branches[int(rest[-1])].proxies)]
    rest = OWN.get(rest, rest)
    if rest.startswith(("message", "input")):
        rest = f"network.{rest}".replace("network.message", "network.steps.")
    return [Piece(method.objective.get_parameter(rest))]


def _relation(name: str, head: nn.Module) -> list[Piece]:
    """Our head of DRML has all branches in one tensor, inputs first."""
    part, kind = name.rsplit(".", 1)
    if part == "score":
        return [Piece(head.score_weight, lambda x: x[None]) if kind == "weight" else Piece(head.score_bias)]
    if part == "integrator":
        if kind == "bias":
            return [Piece(head.integrator_bias)]
        size = len(head.integrator_weight)
        return [
            Piece(head.integrator_weight, lambda x, own=own: x[:, own].T) for own in (slice(size), slice(size, None))
        ]
    tensor, branch = getattr(head.parts[0], f"{part[:-1]}_{kind}"), int(part[-1])
    return [Piece(tensor, lambda x: x[branch].T if kind == "weight" else x[branch, 0])]


class Tensors:
    """The tensors of a run by the names of a case."""

    def __init__(self, case: Case, setup: Setup) -> None:
        trunk = setup.embedder.trunk.state_dict(keep_vars=True)
        self.pieces = {str(name): pieces(str(name), setup, trunk) for name in case.arrays["names"]}

    @torch.no_grad()
    def load(self, case: Case) -> None:
        """Set the first weights."""
        for name, parts in self.pieces.items():
            views = [part.of(part.tensor) for part in parts]
            shape = (*views[0].shape[:-1], sum(view.shape[-1] for view in views))
            first = case.arrays.get(f"given_{name}")
            values = rule(name, shape, int(case.arrays["weight_seed"])) if first is None else first
            for view, value in zip(
                views, torch.from_numpy(values).split([v.shape[-1] for v in views], -1), strict=True
            ):
                view.copy_(value)

    def values(self) -> dict[str, Tensor]:
        return {
            name: torch.cat([part.of(part.tensor.detach()) for part in parts], -1)  # a copy, also of one tensor
            for name, parts in self.pieces.items()
        }

    def gradient_norms(self) -> list[float]:
        """NaN without a gradient."""
        return [
            float(torch.stack([part.of(part.tensor.grad).norm() for part in parts]).norm())
            if parts[0].tensor.grad is not None
            else np.nan
            for parts in self.pieces.values()
        ]


class GradientRecorder:
    """Records the gradients just before the optimisers' step. `first_norm`: clips those of each group in step 0."""

    def __init__(self, setup: Setup, tensors: Tensors, first_norm: float | None) -> None:
        [optimiser] = setup.optimisers
        optimiser.register_step_pre_hook(self.record)
        self.tensors, self.first_norm = tensors, first_norm
        self.gradients: list[list[float]] = []
        self.rates: list[dict[str, float]] = []
        self.norms: list[dict[str, float]] = []

    def record(self, optimiser: torch.optim.Optimizer, *_: Any) -> None:
        groups = {group["name"]: group for group in optimiser.param_groups}
        largest = self.first_norm if self.first_norm is not None and not self.gradients else np.inf
        norms = {name: nn.utils.clip_grad_norm_(group["params"], largest) for name, group in groups.items()}
        self.norms.append({name: float(norm) for name, norm in norms.items()})
        self.gradients.append(self.tensors.gradient_norms())
        self.rates.append({name: group["lr"] for name, group in groups.items()})


class Branches:
    """Records the losses and the numbers of images of DRML's branches."""

    def __init__(self, method: Any) -> None:
        self.losses: list[list[float]] = []
        self.images: list[list[int]] = []
        self._branch_losses, method.branch_losses = method.branch_losses, self

    def __call__(self, steps: Any, labels: Tensor, generator: torch.Generator) -> list[Tensor]:
        losses: list[Tensor] = self._branch_losses(steps, labels, generator)
        self.losses.append([float(loss.detach()) for loss in losses])
        self.images.append(torch.bincount(steps.assignment, minlength=len(losses)).tolist())
        return losses


class InOrder(Batching):
    """One image after the other."""

    def _plan(self, stream: np.random.Generator, memory: np.ndarray | None) -> np.ndarray:
        return np.arange(len(self.labels)).reshape(-1, self.batch_size)


@dataclass
class Stored:
    """The images of a case; keeps the weights before each step."""

    case: Case
    tensors: Tensors
    reverse: bool
    before: Mapping[str, Tensor] | None = None
    changes: list[list[float]] = field(default_factory=list)

    def batches(self, plans: Iterator[PlannedBatch]) -> Iterator[Tensor]:
        for planned in plans:
            self.look()
            yield images(
                len(planned.positions), int(self.case.arrays["image_seeds"][planned.step]), reverse=self.reverse
            )

    def look(self) -> None:
        now = self.tensors.values()
        if self.before is not None:
            self.changes.append([float((now[name] - self.before[name]).norm()) for name in now])
        self.before = now


class Mined(nn.Module):
    """The triplets of a case instead of a miner's random ones."""

    def __init__(self, triplets: np.ndarray) -> None:
        super().__init__()
        self._next = iter(torch.from_numpy(triplets))

    def forward(self, *_: Any, **__: Any) -> Tensor:
        return next(self._next)


def prepared(case: Case, row: Row) -> tuple[Setup, Any]:
    """The run of the study's row at the scale of the case, with its first weights, in float64."""
    params, count = case.params, case.params["steps_taken"]
    scale = {"weights": "random", "image": 64, "train_view": "null", "test_view": "null", "batch": params["batch"]}
    scale |= {"steps": count, "batching": "null", "trunk_warmup": params.get("trunk_warmup", 0)}
    if "step_at" in params:
        scale["step_at"] = f"[{params['step_at'][0]}]"
    overrides = [f"conditions.{key}={value}" for key, value in scale.items()]
    overrides += [f"methods.{row.label}.batch=null", "seeds=1", *row.settings]
    study = read_study(row.study, overrides, on=row.on)
    spec = next(planned.spec for planned in plan(study) if planned.label == row.label)
    inputs = RunInputs(spec.data, spec.protocol, 0, spec.conditions, None, "cpu")
    vars(inputs).update(train_labels=np.arange(params["classes"]), fold=SimpleNamespace(train=None))
    setup = set_up(spec, inputs, "cpu", SILENT)
    setup.embedder.double()
    setup.method.double()
    return setup, spec.conditions


def imitate_double_statistics(trunk: nn.Module) -> None:
    """Message passing's release recomputes layer1-4 in the backward pass, which updates their statistics twice."""
    for name, module in trunk.named_modules():
        if isinstance(module, nn.BatchNorm2d) and ".layer" in name:
            module.momentum = 1 - (1 - 0.1) ** 2


def repeat(case: Case, folder: Path, *, imitate: bool = True) -> Outputs:
    """The arrays of a case, from our loop. `imitate`: with the bugs of the release, see docs/papers.md."""
    row = next(row for name, row in ROWS.items() if name in case.name)
    setup, conditions = prepared(case, row)
    if imitate and case.what == "message_passing":
        imitate_double_statistics(setup.embedder.trunk)
    branches = Branches(setup.method) if case.what == "drml" else None
    tensors = Tensors(case, setup)
    tensors.load(case)
    start = tensors.values()
    if "triplets" in case.arrays:
        setup.method.objective.miner = Mined(case.arrays["triplets"])
    reverse = setup.embedder.trunk.backbone_name == "bninception"
    source, rows = Stored(case, tensors, reverse), []
    hook = setup.embedder.register_forward_hook(lambda module, inputs, output: rows.append(output.detach()))
    recorded = GradientRecorder(setup, tensors, case.params.get("clip_first_step_per_module") if imitate else None)
    labels = case.arrays["labels"].ravel()
    feed = Feed(source, InOrder(labels, batch_size=case.params["batch"]), labels)
    train(
        setup.embedder, setup.method, feed, setup.optimisers, conditions,
        seed=0, folder=folder, pace=Pace(log_every=1),
    )  # fmt: skip
    hook.remove()
    source.look()
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    end = tensors.values()
    moved = {name: end[name] - start[name] for name in start}
    probe = images(6, int(case.arrays["probe_seed"]), reverse=reverse)
    shaped = (lambda x: nn.functional.normalize(x, dim=1)) if row.unit else (lambda x: x)
    answer: Outputs = {
        "loss": [line["loss"] for line in log],
        "embedding": torch.stack([shaped(x) for x in rows]).numpy(),
        "lrs": [[rates[name] for name in row.groups] for rates in recorded.rates],
        "grad_norm": recorded.gradients,
        "delta_norm": source.changes,
    }
    for part, name in row.terms.items():
        weight = getattr(setup.method, f"weight_{name}", 1.0)  # DRML: the release's parts are not weighted
        answer[f"part_{part}"] = [line["terms"][name] / weight for line in log]
    if branches is not None:
        answer |= {f"part_pa_loss_{k}": losses for k, losses in enumerate(zip(*branches.losses, strict=True), 1)}
        answer["images_per_branch"] = branches.images
        answer["module_norms_before_clipping"] = [[norms[name] for name in row.groups] for norms in recorded.norms]
    for when, state in (("start", start), ("final", end), ("moved", moved)):
        answer[f"{when}_norm"] = [float(x.norm()) for x in state.values()]
        answer[f"{when}_sum"] = [float(x.sum()) for x in state.values()]
    with torch.no_grad():
        answer["probe"] = shaped(setup.embedder.eval()(probe)).numpy()
        answer["probe_train"] = shaped(setup.embedder.train()(probe)).numpy()
    return answer
