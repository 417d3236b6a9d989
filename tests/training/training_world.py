"""A run in miniature: 6 classes of 5 rows or images, a small random network, a few steps."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from levelfield import batching, methods
from levelfield.distributed.ranks import ALONE, Ranks
from levelfield.embedder import Embedder, Trunk
from levelfield.embedder.head import Head, start_random
from levelfield.embedder.trunk import backbones
from levelfield.methods import Batch, Group, Method
from levelfield.progress import CallbackProgress
from levelfield.randomness import stream
from levelfield.studies.runs.run import execute
from levelfield.studies.runs.spec import RunSpec
from levelfield.studies.runs.training import Options, Task
from levelfield.studies.specification.choices import Data, MethodSpec, ProtocolChoice
from levelfield.training import Conditions, Observer, Pace, TrainingState, train
from levelfield.training.feed import Feed, StoredRows
from levelfield.training.optimisers import build, check_groups

CLASSES, EACH = 6, 5
LABELS = np.repeat(np.arange(CLASSES), EACH)
SMALL: dict[str, Any] = {"backbone": "mobilenetv3_small_050", "weights": "random", "image": 32, "dim": 8}
SMALL |= {"steps": 6, "batch": "3x2", "warmup": 0}


def conditions(**changes: Any) -> Conditions:
    return Conditions(**{**SMALL, **changes})


@functools.cache
def backbone() -> backbones.Backbone:
    return backbones.create(SMALL["backbone"], weights="random")


@functools.cache
def stored(cut: str) -> tuple[Tensor, ...]:
    """What lies below the cut for 30 images; those of a class look alike."""
    drawn = stream(0, "images")
    images = torch.randn(CLASSES, 1, 3, 64, 64, generator=drawn) + torch.randn(
        CLASSES, EACH, 3, 64, 64, generator=drawn
    )
    return Trunk(backbone(), cut=cut).below(images.flatten(0, 1))


class Stored:
    """Stored rows in memory, as a cache gives them."""

    def __init__(self, tensors: tuple[Tensor, ...]) -> None:
        self.tensors = tensors

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, indices: np.ndarray) -> tuple[Tensor, ...]:
        return tuple(part[torch.from_numpy(np.asarray(indices))] for part in self.tensors)


@dataclass
class Run:
    """The parts of a run, put together as a study does it, without photos."""

    conditions: Conditions
    method: Method
    embedder: Embedder
    optimisers: list[Optimizer]
    feed: Feed
    seed: int
    ranks: Ranks = ALONE

    def train(
        self,
        folder: Path,
        *,
        validate: Callable[[], float] | None = None,
        watch: Callable[[], dict[str, Any]] | None = None,
        after_step: Callable[[int, int], object] = lambda done, steps: None,
        tensorboard: Callable[[str, float, int], None] | None = None,
        **more: Any,
    ) -> TrainingState:
        folder.mkdir(parents=True, exist_ok=True)
        progress = CallbackProgress(lambda _, done, steps: after_step(done, steps) if done else None)
        return train(
            self.embedder,
            self.method,
            self.feed,
            self.optimisers,
            self.conditions,
            seed=self.seed,
            folder=folder,
            observer=Observer(validate, watch, progress, tensorboard),
            ranks=self.ranks,
            **{"pace": Pace(log_every=1), **more},
        )

    def weights(self) -> dict[str, Tensor]:
        return {name: value.clone() for name, value in self.embedder.state_dict().items()}

    def groups(self) -> dict[str, dict[str, Any]]:
        return {group["name"]: group for optimiser in self.optimisers for group in optimiser.param_groups}


def make(
    method: Method | str = "contrastive",
    *,
    seed: int = 0,
    settings: dict[str, Any] | None = None,
    ranks: Ranks = ALONE,
    **changes: Any,
) -> Run:
    """A run over stored rows; `changes` are conditions, the cut is `frozen` unless they say otherwise."""
    chosen = conditions(**changes)
    if isinstance(method, str):
        drawn = stream(seed, "proxies")
        method = methods.create(
            method, num_classes=CLASSES, dim=chosen.dim, generator=drawn, ranks=ranks, **(settings or {})
        )
    trunk = Trunk(
        backbone(),
        cut=chosen.cut,
        pooling=chosen.pooling,
        batch_norm=chosen.batch_norm,
        normalize_taps=chosen.normalize_taps,
        image=64,
    )
    head = Head(trunk.width, chosen.dim, layer_norm=chosen.layer_norm, dropout=chosen.dropout)
    start_random(head, stream(seed, "head"))
    embedder = Embedder(trunk, head, precision=chosen.precision)
    above = [parameter for parameter in trunk.parameters() if parameter.requires_grad]
    groups = [Group("head", list(head.parameters())), *method.groups()]
    if above:
        groups.insert(0, Group("trunk", above, lr=chosen.trunk_lr, warm=False))
    check_groups(nn.ModuleList([embedder, method]), groups)
    layout = method.layout or chosen.layout
    planner = batching.create(
        method.batching or layout.batching,
        LABELS,
        batch_size=layout.batch_size,
        seed=seed,
        batches_per_epoch=chosen.batches_per_epoch,
        **layout.settings,
    )
    embed = lambda: embedder.embed(stored(chosen.cut)).numpy()  # noqa: E731
    feed = Feed(StoredRows([Stored(stored(chosen.cut))], seed=seed), planner, LABELS, embed=embed, ranks=ranks)
    return Run(chosen, method, embedder, build(groups, chosen, lr=method.lr), feed, seed, ranks)


class Told(Method):
    """A method whose step is a function of rows and labels."""

    def __init__(self, function: Callable[[Tensor, Batch], Any], *, separable: bool = False) -> None:
        super().__init__()
        self._function, self._separable = function, separable

    def step(self, embedder: nn.Module, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        result = self._function(self.embed(embedder, batch.inputs), batch)
        return result if isinstance(result, dict) else {"loss": result}

    @property
    def separable(self) -> bool:
        return self._separable


def execute_run(
    photos: Path,
    folder: Path,
    method: str = "contrastive",
    *,
    settings: dict[str, Any] | None = None,
    workers: int = 0,
    store: Path | None = None,
    data_digest: str = "",
    **changes: Any,
) -> dict[str, Any]:
    """A whole run on photos as a study does it; what it wrote about its training."""
    spec = RunSpec(
        data=Data(name=str(photos)),
        protocol=ProtocolChoice(),
        conditions=conditions(**changes),
        method=MethodSpec(name=method, label="method", settings=settings or {}),
        seed=0,
        data_digest=data_digest,
    )
    folder.mkdir(parents=True, exist_ok=True)
    execute(Task(spec, folder, ("recall@1",), Options(cache_folder=store, workers=workers)))
    return json.loads((folder / "training.json").read_text(encoding="utf-8"))


class HeadOnly(nn.Module):
    """An embedder of one head."""

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.head = head

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(inputs)


EPOCH = 5


def with_memory(
    method: Method | str = "contrastive",
    *,
    unit: bool = True,
    embed: bool = True,
    seed: int = 0,
    refresh: str = "steps",
    **changes: Any,
) -> tuple[Run, list[int]]:
    """A run of 12 steps in epochs of 5, whose batches are matched by distances, and the passes at each filling."""
    run = make(method, seed=seed, **{"steps": 12, "batches_per_epoch": EPOCH, "lr": 0.03, **changes})
    planner = batching.create("ddm", LABELS, batch_size=6, pool=12, seed=seed, batches_per_epoch=EPOCH, refresh=refresh)
    passes: list[int] = []

    def embedded() -> np.ndarray:
        passes.append(run.embedder.trunk.counter.rows)
        rows: np.ndarray = run.embedder.embed(stored(run.conditions.cut)).numpy()
        return rows

    run.feed = Feed(run.feed.source, planner, LABELS, embed=embedded if embed else None, unit_rows=unit)
    return run, passes


class Stopped(Exception):
    """Ends a run in the midst of its steps."""


def check_resumed(
    folder: Path, make_run: Callable[[], Run], stop: int, *, every: int = 2, validated: bool = False
) -> None:
    """Stop a run after `stop` steps, with a checkpoint after each `every` steps, and start it again: it must end with
    the bits of an undisturbed one."""

    def train_in(name: str, after_step: Callable[[int, int], object]) -> tuple[Run, TrainingState]:
        run = make_run()
        score = lambda: -float(sum(p.abs().sum() for p in run.embedder.head.state_dict().values()))  # noqa: E731
        how = {"pace": Pace(log_every=1, save_every_steps=every), "after_step": after_step}
        return run, run.train(folder / name, validate=score if validated else None, **how)

    def interrupt(done: int, steps: int) -> None:
        if done == stop:
            raise Stopped

    whole, expected = train_in("whole", lambda done, steps: None)
    with pytest.raises(Stopped):
        train_in("again", interrupt)
    again, state = train_in("again", lambda done, steps: None)
    for part in ("embedder", "method"):
        ours, theirs = (getattr(run, part).state_dict() for run in (again, whole))
        assert all(torch.equal(value, ours[name]) for name, value in theirs.items())
    for left, right in zip(
        whole.feed.batching.state_dict().items(), again.feed.batching.state_dict().items(), strict=True
    ):
        assert left[0] == right[0]
        assert torch.equal(left[1], right[1]) if isinstance(left[1], Tensor) else left[1] == right[1]
    assert log_of(folder / "again") == log_of(folder / "whole")
    for key in ("step", "images", "rows_through_trunk", "memory_rows", "rows_changed", "idle_batches", "drops", "best"):
        assert getattr(state, key) == getattr(expected, key), key
    assert (state.best_step, state.history) == (expected.best_step, expected.history)


def log_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]
