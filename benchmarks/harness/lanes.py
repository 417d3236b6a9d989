"""Compared loops: levelfield's, and a bare PyTorch loop with the same work and nothing else."""

from __future__ import annotations

import copy
import math
import tempfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.interleaved import Sample, between, clocks
from levelfield.data.decoders import decoding
from levelfield.embedder import Trunk
from levelfield.embedder.trunk.depthwise import QuickDepthwise
from levelfield.progress import SILENT, CallbackProgress
from levelfield.studies import RunSpec
from levelfield.studies.runs.inputs import inputs_for
from levelfield.studies.runs.setup import planner, set_up
from levelfield.training import Observer, Pace, TrainingState, train
from levelfield.training.feed import Feed, Source, StoredRows


class Ours:
    """levelfield's loop and feed, as in a run of a study. workers: processes that decode images without a cache."""

    workers = 0

    def __init__(self, spec: RunSpec) -> None:
        self.spec = spec
        self.inputs = inputs_for(spec, None, "cpu")
        self.setup = set_up(spec, self.inputs, "cpu", SILENT)
        self.embedder = self.setup.embedder.train()
        self.batching = planner(self.setup.method, self.inputs.train_labels, spec.conditions, spec.seed)
        self.feed = Feed(self.open_source(), self.batching, self.inputs.train_labels)
        self.waiting: list[float] = []  # share of each slice's time

    def open_source(self) -> Source:
        """Source of batches: the store on disk, or images to decode."""
        self.inputs._opened.clear()
        return self.inputs.source(self.spec.seed, SILENT)

    def run(self, steps: int) -> tuple[TrainingState, list[tuple[float, float]]]:
        """Run `steps` steps in a new folder; return the clocks after each."""
        conditions = self.spec.conditions.model_copy(update={"steps": steps})
        ticks: list[tuple[float, float]] = []
        with tempfile.TemporaryDirectory() as folder, decoding(self.workers):
            state = train(
                self.embedder,
                self.setup.method,
                self.feed,
                self.setup.optimisers,
                conditions,
                seed=self.spec.seed,
                folder=Path(folder),
                pace=Pace(),
                observer=Observer(progress=CallbackProgress(lambda _, done, total: done and ticks.append(clocks()))),
            )
        return state, ticks

    def slice(self, steps: int) -> Sample:
        """One step of the loop including the log. The checkpoint, every 20 seconds, is counted separately."""
        state, ticks = self.run(steps + 2)
        self.waiting.append(state.waiting / state.seconds)
        return between(ticks[0], ticks[steps], steps)  # neither the first step nor the checkpoint after the last


class BareNetwork(nn.Module):
    """The trained part, written by hand: the stages above the cut, normalised flat taps, one linear map."""

    def __init__(self, stages: Sequence[nn.Module], linear: nn.Linear) -> None:
        super().__init__()
        self.stages, self.linear = nn.ModuleList(stages), linear

    def forward(self, stored: tuple[Tensor, ...]) -> Tensor:
        if not self.stages:
            return self.linear(stored[0])
        maps = [part.contiguous(memory_format=torch.channels_last) for part in (*stored[1:], stored[0])]
        for stage in self.stages:
            maps.append(stage(maps[-1]))
        return self.linear(torch.cat([functional.normalize(part.flatten(1), dim=1) for part in maps], dim=1))


class Bare:
    """A bare PyTorch loop: same rows, batches, cut, objective, optimiser and rates as `ours`; no log, no checks.

    gathered: every batch of an epoch is already in memory, so that only the trainable part is measured.
    """

    def __init__(self, ours: Ours, *, gathered: bool = False) -> None:
        self.conditions = ours.spec.conditions
        self.tensors = self.stored(ours)
        self.labels = torch.from_numpy(ours.inputs.train_labels)
        self.order = [torch.from_numpy(batch.astype(np.int64)) for batch in ours.batching.plan(0)]
        trunk = ours.embedder.trunk
        trained = [name for name in trunk._used if any(p.requires_grad for p in _stage(trunk, name).parameters())]
        stages = [copy.deepcopy(_stage(trunk, name)) for name in trained]
        linear = ours.embedder.head.linear
        assert isinstance(linear, nn.Linear)
        self.network = self.make_network(ours, stages, copy.deepcopy(linear))
        assert ours.setup.method.objective is not None
        self.objective = copy.deepcopy(ours.setup.method.objective)
        self.generator = torch.Generator().manual_seed(ours.spec.seed)
        [like] = ours.setup.optimisers
        assert isinstance(like, torch.optim.AdamW)
        self.rates = [group["base_lr"] for group in like.param_groups]
        parts: list[nn.Module] = [*([nn.ModuleList(stages)] if stages else []), self.network.linear]
        self.optimiser = torch.optim.AdamW(
            [{"params": list(part.parameters())} for part in parts],
            weight_decay=self.conditions.weight_decay,
            fused=True,
        )
        self.gathered = [self.batch(index) for index in self.order] if gathered else None
        self.taken = 0

    def stored(self, ours: Ours) -> tuple[Tensor, ...]:
        """The inputs of all training images, in memory."""
        assert isinstance(ours.feed.source, StoredRows)
        [rows] = ours.feed.source._views
        return rows.tensors()

    def make_network(self, ours: Ours, trained: list[nn.Module], linear: nn.Linear) -> nn.Module:
        """The network by hand, from copies of the trained stages and of the linear map."""
        return BareNetwork(trained, linear)

    def batch(self, index: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
        return tuple(tensor.index_select(0, index) for tensor in self.tensors), self.labels[index]

    def step(self) -> None:
        turn = self.taken % len(self.order)
        inputs, labels = self.gathered[turn] if self.gathered else self.batch(self.order[turn])
        factor = 0.5 * (1 + math.cos(math.pi * (self.taken % self.conditions.steps) / self.conditions.steps))
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor
        loss = self.objective(self.network(inputs), labels, generator=self.generator)
        loss.backward()
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.taken += 1

    def slice(self, steps: int) -> Sample:
        before = clocks()
        for _ in range(steps):
            self.step()
        return between(before, clocks(), steps)

    @cached_property
    def first_rows(self) -> Tensor:
        """Output of the untrained network for the first batch."""
        with torch.no_grad():
            return self.network(self.batch(self.order[0])[0])


def with_torchs_gradients(bare: Bare) -> Bare:
    """A copy with torch's own convolution gradients instead of ours."""
    copied = copy.copy(bare)
    copied.network, copied.objective = copy.deepcopy(bare.network), copy.deepcopy(bare.objective)
    for module in copied.network.modules():
        if type(module) is QuickDepthwise:
            module.__class__ = nn.Conv2d
    copied.optimiser = torch.optim.AdamW(copied.network.parameters(), fused=True)
    copied.rates = copied.rates[:1]
    return copied


def check_same_work(ours: Ours, bare: Bare) -> None:
    """Check that both networks give the same rows, so that the comparison is valid."""
    with torch.no_grad():
        expected = ours.embedder(bare.batch(bare.order[0])[0])
    torch.testing.assert_close(bare.first_rows, expected, rtol=1e-4, atol=1e-5)


def _stage(trunk: Trunk, name: str) -> nn.Module:
    return trunk.pieces[name.replace(".", "_")]
