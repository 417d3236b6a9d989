"""The one loop: batch, forward, objective, backward, step, log, checkpoint. For all cuts and all methods."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any

import torch
from torch.optim import Optimizer

from levelfield.embedder import Embedder
from levelfield.errors import RunFailed
from levelfield.methods import Method
from levelfield.progress import SILENT, Progress
from levelfield.randomness import is_chosen, isolated, reseed, seed_globals
from levelfield.ranks import ALONE, Ranks
from levelfield.training.checkpoint import CHECKPOINT
from levelfield.training.checks import check_division, check_terms, check_trained
from levelfield.training.conditions import Conditions
from levelfield.training.feed import Feed
from levelfield.training.guard import Guard
from levelfield.training.ledger import forbid_other_optimisers
from levelfield.training.log import Log, SilentLog, numbers
from levelfield.training.optimisers import clip, factor, freeze_trunk, set_rates
from levelfield.training.passes import passes_for
from levelfield.training.peak import Peak
from levelfield.training.rows import COLLAPSE, decay_of, latest_rows, spread_of
from levelfield.training.shards import Shards
from levelfield.training.state import Checkpointer, TrainingState
from levelfield.training.used import Used, known_to, places_in

INSPECTED = 16  # on average, one step in this many is checked for hidden parameters, networks and memories
RHO_EVERY = 5  # one log line in this many has the spectral decay of its batch (roth2020: rho)


@dataclass(frozen=True)
class Pace:
    """Intervals of logging and saving. They do not affect the weights."""

    log_every: int = 20
    save_every_seconds: float = 20.0
    save_every_steps: int | None = None

    def is_time(self, step: int, seconds: float) -> bool:
        return step % self.save_every_steps == 0 if self.save_every_steps else seconds > self.save_every_seconds


@dataclass(frozen=True)
class Observer:
    """Observers of a training run. Only `validate` affects it: its score selects the step if the conditions say so."""

    validate: Callable[[], float] | None = None
    watch: Callable[[], dict[str, Any]] | None = None
    """Metrics that are only recorded, at the start and at each validation."""
    progress: Progress = SILENT
    tensorboard: Callable[[str, float, int], None] | None = None
    """Called with name, value and step of every logged number."""


def is_time_to_inspect() -> bool:
    """Whether to inspect this step: unpredictable (the operating system's random numbers), without effect on
    weights."""
    return secrets.randbelow(INSPECTED) == 0


def train(
    embedder: Embedder,
    method: Method,
    feed: Feed,
    optimisers: list[Optimizer],
    conditions: Conditions,
    *,
    seed: int,
    folder: Path,
    pace: Pace | None = None,
    observer: Observer | None = None,
    guard: Guard | None = None,
    ranks: Ranks = ALONE,
) -> TrainingState:
    """Train until the budget is spent or validation stops the run. Resumes from the folder's checkpoint.

    ranks: the processes that train together; all of them call this function, and the first one writes the files.
    """
    check_division(method, conditions)
    pace, observer = pace or Pace(), observer or Observer()
    validate = None if observer.validate is None else partial(ranks.from_first, observer.validate)
    watch = observer.watch if ranks.first else None
    shards = Shards(method, ranks)
    passes = passes_for(embedder, method, conditions, optimisers, ranks, shards)
    checkpointer = Checkpointer(embedder, method, optimisers, ranks=ranks)
    state, planned = checkpointer.resume(folder / CHECKPOINT)
    feed.load_state_dict(planned)
    log = Log.resume(folder / "log.jsonl", state.step) if ranks.first else SilentLog()
    batches = feed.batches(state.step)
    peak = Peak()
    saved = time.perf_counter()
    began = saved - state.seconds
    frozen: bool | None = None
    generator, guard = torch.Generator(), guard or Guard(embedder, optimisers)
    stage = observer.progress.stage("training", conditions.steps)
    with forbid_other_optimisers(optimisers), isolated(seed, "training"), latest_rows(passes.embedder) as latest:
        guard.begin(resumed=state.step > 0)
        network = places_in(embedder)
        at_start = validate if conditions.validate_start and not state.step else None
        if at_start is not None and state.record_validation(at_start(), conditions):
            guard.remember_best()
            checkpointer.remember_best()
        if watch is not None and not state.step:
            began += state.monitor(watch)
            peak.begin()
        while state.step < conditions.steps and not state.finished:
            step, embedded, planning, asked = state.step, embedder.passes, feed.planning, time.perf_counter()
            unchanged = embedder.trunk.changed
            batch = next(batches)
            state.waiting += time.perf_counter() - asked
            state.planning += feed.planning - planning
            if embedder.passes > embedded:  # the memory of a batching was filled
                state.memory_rows += embedder.passes - embedded
                frozen = None  # back to training mode
            if frozen != (step < conditions.trunk_warmup):
                frozen = step < conditions.trunk_warmup
                freeze_trunk(embedder, optimisers, frozen)
            set_rates(optimisers, factor(step, conditions, drops=state.drops))

            guard.begin_step()
            inspect = (
                step in (0, conditions.trunk_warmup) or is_chosen(INSPECTED, seed, "look", step) or is_time_to_inspect()
            )
            total, idle, active = 0.0, True, None
            shown: dict[str, torch.Tensor] = {}
            seen: list[torch.Tensor] = []
            reseed(generator, seed, "step", step)
            seed_globals(seed, "global", step)  # for dropout and third-party modules
            for place, part in enumerate(passes.parts(batch)):
                with Used(known_to(method, part), network) if inspect else nullcontext() as used:
                    terms = method.step(passes.embedder, part, generator)
                seen += latest
                latest.clear()
                check_terms(terms)
                loss = reduce(torch.add, terms.values())
                if passes.count > 1:
                    loss = loss / passes.count
                value = loss.item()
                if not math.isfinite(value):
                    raise RunFailed(
                        f"The loss is {value} at step {step} (epoch {batch.epoch}); images of the batch: "
                        f"{feed.name(batch)}. Try a lower learning rate or `clip`."
                    )
                if used is not None:
                    used.check(method, part)
                    passes.check_leaves(loss)
                if place == 0:
                    guard.check_gradients()
                if loss.requires_grad:  # a user's loss may be constant if a batch has no pair
                    passes.backward(loss)
                    idle = False
                found = method.active()
                active = found if active is None or found is None else active + found
                total += value
                for name, term in (terms if len(terms) > 1 else method.shown).items():
                    share = term.detach() / passes.count  # copied to the host only when logged
                    shown[name] = shown[name] + share if name in shown else share
            passes.finish()
            guard.before_update()
            if inspect and is_time_to_inspect():  # rarely: compare the saved model with the trained one
                guard.check_frozen()
            norm = clip(optimisers, conditions.clip, shards)
            for optimiser in optimisers:
                optimiser.step()
                optimiser.zero_grad(set_to_none=True)
            guard.updated()

            rows = torch.cat(seen) if seen else None
            feed.observe(batch, rows)
            state.step += 1
            state.images += len(batch.labels)
            state.idle_batches += idle or active == 0
            state.without_gradient += idle
            state.class_sample = min(state.class_sample, method.compared)
            state.rows_through_trunk += embedder.passes - embedded
            state.rows_changed += embedder.trunk.changed - unchanged
            last = state.step == conditions.steps
            if step % pace.log_every == 0 or last:
                ranks.check_equal(f"the loss of step {step}", total)
                spread = spread_of(rows)
                state.collapsed = spread < COLLAPSE
                entry: dict[str, Any] = {
                    "step": step,
                    "epoch": batch.epoch,
                    "loss": total,
                    "spread": spread,
                    "idle": state.idle_batches,
                    "factor": factor(step, conditions, drops=state.drops),
                }
                rho = decay_of(rows) if step % (RHO_EVERY * pace.log_every) == 0 or last else None
                known = {"active": active, "norm": norm, "memory_age": feed.batching.memory_age, "rho": rho}
                entry |= {k: v for k, v in known.items() if v is not None}
                entry |= method.counts()
                if shown:
                    entry["terms"] = {name: float(term) for name, term in shown.items()}
                log.write(**entry)
                if observer.tensorboard is not None:
                    for name, number in numbers(entry).items():
                        observer.tensorboard(name, number, step)
            if validate is not None and (state.step % conditions.validate_every == 0 or last):
                if state.record_validation(validate(), conditions):
                    guard.remember_best()
                    checkpointer.remember_best()
                frozen = None  # back to training mode
            if watch is not None and (state.step % conditions.validate_every == 0 or last):
                state.peak_bytes = peak.larger(state.peak_bytes)
                began += state.monitor(watch)  # not training: neither time nor memory count
                peak.begin()
                frozen = None
            now = time.perf_counter()
            state.seconds = now - began
            if last or state.finished or ranks.from_first(partial(pace.is_time, state.step, now - saved)):
                state.peak_bytes = peak.larger(state.peak_bytes)
                checkpointer.save(folder / CHECKPOINT, state, feed.state_dict())
                saved = time.perf_counter()
            stage.reach(state.step)
        guard.check_weights()
    log.close()
    check_trained(state)
    checkpointer.restore_best()
    guard.end()
    embedder.eval()
    return state
