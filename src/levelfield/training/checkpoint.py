"""Checkpoints: the state of a training run in one file, written atomically and read without running code.

The first line has the format and a checksum of the rest, so that a run never resumes from a damaged state.
"""

from __future__ import annotations

import hashlib
import io
import logging
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from levelfield.distributed.ranks import ALONE, Ranks
from levelfield.embedder import Embedder
from levelfield.errors import BadInput
from levelfield.files.writing import write_whole
from levelfield.methods import Method
from levelfield.training.conditions import Conditions
from levelfield.training.precision import Precision
from levelfield.training.shards import Shards
from levelfield.wording import plural

CHECKPOINT = "checkpoint"  # the file in a run's folder, while it trains
_FORM = b"levelfield checkpoint 1 "
_log = logging.getLogger(__name__)


def save(path: Path, state: dict[str, Any]) -> None:
    content = io.BytesIO()  # torch reports a full disk as an unrelated error
    torch.save(state, content)
    head = _FORM + _checksum(content.getbuffer()) + b"\n"
    write_whole(path, lambda file: file.writelines([head, content.getbuffer()]))


def load(path: Path) -> dict[str, Any] | None:
    """The saved state; None if there is none, or if it is damaged: the run then starts again, with the same result."""
    if not path.exists():
        return None
    head, _, content = path.read_bytes().partition(b"\n")
    if head == _FORM + _checksum(content):
        state: dict[str, Any] = torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
        return state
    _log.warning("%s is damaged: its checksum does not match. The run starts again from its first step.", path)
    path.unlink()
    return None


def _checksum(content: bytes | memoryview) -> bytes:
    return hashlib.blake2b(content, digest_size=16).hexdigest().encode()


@dataclass
class TrainingState:
    """Saved with every checkpoint and reported at the end."""

    step: int = 0
    images: int = 0
    seconds: float = 0.0
    waiting: float = 0.0
    planning: float = 0.0
    peak_bytes: int | None = 0  # of the device; None: unknown
    rows_through_trunk: int = 0
    memory_rows: int = 0
    rows_changed: int = 0
    class_sample: float = 1.0  # smallest share of the classes that a step compared with
    idle_batches: int = 0
    without_gradient: int = 0  # steps whose loss did not depend on any weight
    collapsed: bool = False
    finished: bool = False
    drops: int = 0
    best: float = -math.inf
    best_step: int = 0
    checks_since_best: int = 0
    checks_since_drop: int = 0
    history: list[dict[str, float]] = field(default_factory=list)
    monitored: list[dict[str, Any]] = field(default_factory=list)  # scores not used for selection

    def record_validation(self, value: float, conditions: Conditions) -> bool:
        """Record a score; return whether it is the best so far. May lower the learning rate or stop the run."""
        self.history.append({"step": self.step, "value": value})
        if value > self.best + conditions.min_delta:
            self.best, self.best_step, self.checks_since_best, self.checks_since_drop = value, self.step, 0, 0
            return True
        self.checks_since_best += 1
        self.checks_since_drop += 1
        if conditions.schedule == "plateau" and self.checks_since_drop > conditions.plateau_patience:
            self.drops, self.checks_since_drop = self.drops + 1, 0
        if conditions.patience_steps is not None:
            self.finished = self.step - self.best_step > conditions.patience_steps
        elif isinstance(conditions.patience, int):
            self.finished = self.checks_since_best > conditions.patience
        return False


@dataclass
class Checkpointer:
    """Saves and restores everything that changes during training."""

    embedder: Embedder
    method: Method
    optimisers: list[Optimizer]
    best: dict[str, Any] | None = None
    ranks: Ranks = ALONE
    precision: Precision = field(default_factory=Precision)

    def __post_init__(self) -> None:
        self.shards = Shards(self.method, self.ranks)

    def save(self, path: Path, state: TrainingState, feed: dict[str, Any]) -> None:
        """Write the checkpoint; the first of several processes does, with the shards of all of them."""
        content = {
            "progress": asdict(state),
            "best": self.best and self._changed(self.best, self.shards.whole),
            "weights": self._changed(self._weights(copy=False), self.shards.whole),
            "optimisers": [self.shards.of_optimiser(o, o.state_dict(), self.shards.whole) for o in self.optimisers],
            "feed": feed,
            "precision": self.precision.state_dict(),
        }
        if self.ranks.first:
            save(path, content | ({"processes": self.ranks.size} if self.ranks.size > 1 else {}))

    def resume(self, path: Path) -> tuple[TrainingState, dict[str, Any]]:
        """Resume from a checkpoint, or start from scratch if there is no valid one."""
        with self.ranks.in_turn():  # the first process removes a damaged checkpoint
            saved = load(path)
        self.ranks.check_equal("the step of the checkpoint", -1 if saved is None else saved["progress"]["step"])
        if saved is None:
            return TrainingState(), {}
        if (processes := saved.get("processes", 1)) != self.ranks.size:
            raise BadInput(
                f"{path} was written by {plural(processes, 'process', 'processes')}, but this run has "
                f"{self.ranks.size}, whose sums differ in their last digits. Continue with processes: {processes}, or "
                "remove the checkpoint to start again."
            )
        self._restore(self._changed(saved["weights"], self.shards.local))
        for optimiser, content in zip(self.optimisers, saved["optimisers"], strict=True):
            optimiser.load_state_dict(self.shards.of_optimiser(optimiser, content, self.shards.local))
        self.precision.load_state_dict(saved["precision"])
        self.best = saved["best"] and self._changed(saved["best"], self.shards.local)
        return TrainingState(**saved["progress"]), saved["feed"]

    def remember_best(self) -> None:
        self.best = self._weights(copy=True)

    def restore_best(self) -> None:
        if self.best is not None:
            self._restore(self.best)

    def _weights(self, *, copy: bool) -> dict[str, Any]:
        """State that training may change: everything above the cut."""
        below = tuple(f"trunk.{prefix}" for prefix in self.embedder.trunk.frozen_prefixes)
        parts = {"embedder": self.embedder.state_dict(), "method": self.method.state_dict()}
        return {
            name: {
                key: value.clone() if copy and isinstance(value, Tensor) else value
                for key, value in entries.items()
                if not key.startswith(below)
            }
            for name, entries in parts.items()
        }

    def _changed(self, weights: dict[str, Any], change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
        return {**weights, "method": change(weights["method"])}

    def _restore(self, weights: dict[str, Any]) -> None:
        self.embedder.load_state_dict({**self.embedder.state_dict(), **weights["embedder"]})
        self.method.load_state_dict(weights["method"])
