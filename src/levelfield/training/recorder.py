"""What a training run leaves behind: its log, its scores on validation classes, its checkpoints.

Losses stay on the device until they are read: at log lines and checkpoints, and at every step on a CPU, where reading
costs nothing. A normal step on a GPU therefore waits for nothing here.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.optim import Optimizer

from levelfield.distributed.ranks import Ranks
from levelfield.embedder import Embedder
from levelfield.errors import RunFailed
from levelfield.evaluation import spectral_decay
from levelfield.labels import to_device
from levelfield.methods import Batch, Method
from levelfield.progress import SILENT, Progress
from levelfield.training.audit import Audit
from levelfield.training.checkpoint import CHECKPOINT, Checkpointer
from levelfield.training.conditions import Conditions
from levelfield.training.feed import Feed
from levelfield.training.log import LOG, resume
from levelfield.training.optimisers import factor
from levelfield.training.peak import Peak
from levelfield.training.precision import Precision

COLLAPSE = 1e-4  # a spread below this means that all rows point in the same direction or are zero; the maximum is 1
RHO_EVERY = 5  # one log line in this many has the spectral decay of its batch (roth2020: rho)


@dataclass(frozen=True)
class Pace:
    """Intervals of logging and saving. They do not affect the weights."""

    log_every: int = 20
    save_every_seconds: float = 20.0
    save_every_steps: int | None = None


@dataclass(frozen=True)
class Observer:
    """Observers of a training run. Only `validate` affects it: its score selects the step if the conditions say so.

    watch: metrics that are only recorded, at the start and at each validation.
    tensorboard: called with name, value and step of every logged number.
    """

    validate: Callable[[], float] | None = None
    watch: Callable[[], dict[str, Any]] | None = None
    progress: Progress = SILENT
    tensorboard: Callable[[str, float, int], None] | None = None


@dataclass
class StepRecord:
    """A step as it runs: the loss of its parts so far, on the device."""

    batch: Batch
    loss: Tensor | None = None
    terms: dict[str, Tensor] | None = None
    active: Tensor | int | None = None
    idle: bool = True  # no part of the loss had a gradient

    def add(self, loss: Tensor, terms: Mapping[str, Tensor], active: Tensor | int | None, *, parts: int = 1) -> None:
        """Add one of the `parts` of the batch. active: its number of active tuples, None if unknown."""
        shown = {name: term.detach() / parts for name, term in terms.items()}
        device = self.batch.labels.device
        value = to_device(loss.detach().reshape(()), device)  # a constant loss may be on the host
        if active is not None:
            active = to_device(active.reshape(()), device) if isinstance(active, Tensor) else int(active)
        if self.loss is None or self.terms is None:
            self.loss, self.terms, self.active = value, shown, active
        else:
            self.loss = self.loss + value
            self.terms = {name: self.terms[name] + term if name in self.terms else term for name, term in shown.items()}
            self.active = None if active is None or self.active is None else self.active + active
        self.idle = self.idle and not loss.requires_grad


@dataclass(eq=False)
class Recorder:
    """Records one run, and resumes it from its folder. Only the first of several processes writes files."""

    embedder: Embedder
    method: Method
    feed: Feed
    optimisers: list[Optimizer]
    conditions: Conditions
    audit: Audit
    precision: Precision
    folder: Path
    pace: Pace
    observer: Observer
    ranks: Ranks

    def __post_init__(self) -> None:
        observer, ranks = self.observer, self.ranks
        self._validate = None if observer.validate is None else partial(ranks.from_first, observer.validate)
        self._watch = observer.watch if ranks.first else None
        self._checkpointer = Checkpointer(
            self.embedder, self.method, self.optimisers, ranks=ranks, precision=self.precision
        )
        self.state, planned = self._checkpointer.resume(self.folder / CHECKPOINT)
        if planned:
            self.feed.batching.load_state_dict(planned)
        self._log = resume(self.folder / LOG, self.state.step) if ranks.first else None
        self._stage = observer.progress.stage("training", self.conditions.steps)
        self._peak = Peak(self.feed.device)
        self._unread: list[StepRecord] = []
        self._saved = time.perf_counter()
        self._began = self._saved - self.state.seconds

    @property
    def is_over(self) -> bool:
        return self.state.finished or self.state.step >= self.conditions.steps

    @property
    def is_logged(self) -> bool:
        """Whether the step that begins has a log line."""
        return self.state.step % self.pace.log_every == 0 or self._is_last(self.state.step + 1)

    def begin(self) -> None:
        """Audit the start, and score it if the conditions say so."""
        self.audit.check()
        if self.state.step == 0:
            if self.conditions.validate_start:
                self._score()
            self._monitor()

    def next_step(self, batches: Iterator[Batch]) -> StepRecord:
        """The next batch. Counts the time that the loop waits for it, and the rows that a batching embeds for it."""
        state, planning, asked = self.state, self.feed.planning, time.perf_counter()
        counter = self.embedder.trunk.counter
        before = counter.rows
        batch = next(batches)
        state.waiting += time.perf_counter() - asked
        state.planning += self.feed.planning - planning
        state.memory_rows += counter.rows - before
        state.rows_through_trunk += counter.rows - before
        self._passes, self._changed = counter.rows, counter.changed
        return StepRecord(batch)

    def keep_loss(self, step: StepRecord) -> None:
        """Keep the loss of a step, and read it if that costs nothing or a log line is due."""
        assert step.loss is not None
        step.batch = replace(step.batch, inputs=())  # unread steps do not keep their images on the device
        self._unread.append(step)
        if self.is_logged or step.loss.device.type == "cpu":
            self._read()

    def record(self, step: StepRecord, rows: Tensor | None, norm: Tensor | None) -> None:
        """Count a finished step, log, validate and save. rows: of the whole batch; norm: of the gradients."""
        state, logged = self.state, self.is_logged
        self.feed.observe(step.batch, rows)
        state.step += 1
        state.images += len(step.batch.labels)
        state.without_gradient += step.idle
        state.class_sample = min(state.class_sample, self.method.last_class_sample)
        state.rows_through_trunk += self.embedder.trunk.counter.rows - self._passes
        state.rows_changed += self.embedder.trunk.counter.changed - self._changed
        if logged:
            self._write(step, rows, norm)
        if state.step % self.conditions.validate_every == 0 or self._is_last(state.step):
            self._read()  # a loss that is not finite ends the run before its rows are scored
            self._score()
            self._monitor()
        state.seconds = time.perf_counter() - self._began
        due = time.perf_counter() - self._saved > self.pace.save_every_seconds
        if (every := self.pace.save_every_steps) is not None:
            due = state.step % every == 0
        if self.is_over or self.ranks.from_first(lambda: due):
            self._save()
        self._stage.reach(state.step)

    def close(self) -> None:
        """End the log and restore the weights that validated best."""
        if self._log is not None:
            self._log.close()
        self._checkpointer.restore_best()
        self.audit.check()
        self.embedder.eval()

    def _is_last(self, step: int) -> bool:
        return step == self.conditions.steps

    def _score(self) -> None:
        if self._validate is not None and self.state.record_validation(self._validate(), self.conditions):
            self._checkpointer.remember_best()

    def _monitor(self) -> None:
        """Record scores that are not part of the training: neither their time nor their memory counts."""
        if self._watch is not None:
            self.state.peak_bytes = self._peak.larger(self.state.peak_bytes)
            began = time.perf_counter()
            self.state.monitored.append({"step": self.state.step, **self._watch()})
            self._began += time.perf_counter() - began
            self._peak.begin()

    def _save(self) -> None:
        self._read()
        self.audit.check()
        self.precision.check()
        self.state.peak_bytes = self._peak.larger(self.state.peak_bytes)
        self._checkpointer.save(self.folder / CHECKPOINT, self.state, self.feed.batching.state_dict())
        self._saved = time.perf_counter()

    def _read(self) -> None:
        """Read the losses since the last reading, count idle batches, and stop at a loss that is not finite."""
        steps, self._unread = self._unread, []
        if not steps:
            return
        losses = torch.stack([step.loss for step in steps if step.loss is not None]).tolist()
        for step, loss in zip(steps, losses, strict=True):
            if not math.isfinite(loss):
                raise RunFailed(
                    f"The loss is {loss} at step {step.batch.step} (epoch {step.batch.epoch}); images of the batch: "
                    f"{self.feed.name(step.batch)}. Try a lower learning rate or `clip`."
                )
        counts = [step.active for step in steps if isinstance(step.active, Tensor)]
        counted = iter(torch.stack(counts).tolist() if counts else ())
        for step in steps:
            step.active = next(counted) if isinstance(step.active, Tensor) else step.active
            self.state.idle_batches += step.idle or step.active == 0
        self._loss = losses[-1]

    def _write(self, step: StepRecord, rows: Tensor | None, norm: Tensor | None) -> None:
        number = step.batch.step
        self.ranks.check_equal(f"the loss of step {number}", self._loss)
        unit = None if rows is None else functional.normalize(rows.float(), dim=1)
        spread = 1.0 if unit is None else spread_of(unit)
        self.state.collapsed = spread < COLLAPSE
        with_rho = number % (RHO_EVERY * self.pace.log_every) == 0 or self._is_last(self.state.step)
        values: dict[str, Any] = {
            "step": number,
            "epoch": step.batch.epoch,
            "loss": self._loss,
            "spread": spread,
            "idle": self.state.idle_batches,
            "factor": factor(number, self.conditions, drops=self.state.drops),
            "active": step.active,
            "norm": None if norm is None or not math.isfinite(norm) else float(norm),
            "memory_age": self.feed.batching.memory_age,
            "rho": None if unit is None or not with_rho else decay_of(unit),
            **self.method.counts(),
            "terms": {name: float(term) for name, term in (step.terms or {}).items()} or None,
        }
        entry = {name: value for name, value in values.items() if value is not None}
        if self._log is not None:
            self._log.write(json.dumps(entry) + "\n")
        if self.observer.tensorboard is not None:
            terms = {f"terms/{name}": value for name, value in entry.pop("terms", {}).items()}
            for name, value in {**entry, **terms}.items():
                self.observer.tensorboard(name, float(value), number)


def spread_of(unit: Tensor) -> float:
    """Mean squared distance of the unit rows to their centre: 0 if all point in the same direction or are zero."""
    return (unit.square().sum(1).mean() - unit.mean(0).square().sum()).item()


def decay_of(unit: Tensor) -> float | None:
    """Spectral decay rho of one batch's unit rows (roth2020); None if infinite.

    >>> import torch
    >>> decay_of(torch.eye(3))
    0.0
    """
    decay = spectral_decay(unit)
    return decay if math.isfinite(decay) else None
