"""The one loop: batch, forward, objective, backward, step, record. For all cuts and all methods."""

from __future__ import annotations

from collections import deque
from functools import reduce
from pathlib import Path

import torch
from torch.optim import Optimizer

from levelfield.distributed.ranks import ALONE, Ranks
from levelfield.embedder import Embedder
from levelfield.methods import Method
from levelfield.randomness import isolated, reseed, seed_globals
from levelfield.training.audit import Audit, check_division, check_terms, check_trained
from levelfield.training.checkpoint import TrainingState
from levelfield.training.conditions import Conditions
from levelfield.training.divided import Passes
from levelfield.training.feed import Feed
from levelfield.training.ledger import forbid_other_optimisers
from levelfield.training.optimisers import clip, factor, freeze_trunk, set_rates
from levelfield.training.precision import Precision
from levelfield.training.recorder import Observer, Pace, Recorder
from levelfield.training.shards import Shards


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
    audit: Audit | None = None,
    ranks: Ranks = ALONE,
) -> TrainingState:
    """Train until the budget is spent or validation stops the run. Resumes from the folder's checkpoint.

    ranks: the processes that train together; all of them call this function, and the first one writes the files.
    """
    check_division(method, conditions, embedder.trunk)
    pace, observer, audit = pace or Pace(), observer or Observer(), audit or Audit(embedder)
    shards = Shards(method, ranks)
    passes = Passes(embedder, method, conditions, optimisers, ranks, shards)
    precision = Precision(conditions.precision, feed.device)
    recorder = Recorder(
        embedder, method, feed, optimisers, conditions, audit, precision,
        folder=folder, pace=pace, observer=observer, ranks=ranks,
    )  # fmt: skip
    state, generator, frozen = recorder.state, torch.Generator(), None
    batches = feed.batches(state.step)
    latest: deque[torch.Tensor] = deque(maxlen=1)  # the last rows of the embedder
    with (
        forbid_other_optimisers(optimisers),
        isolated(seed, "training"),
        precision.context(),
        passes.embedder.register_forward_hook(lambda module, inputs, rows: latest.append(rows.detach())),
    ):
        recorder.begin()
        while not recorder.is_over:
            # batch
            step = recorder.next_step(batches)
            if frozen != (state.step < conditions.trunk_warmup) or not embedder.training:  # in eval mode after scoring
                frozen = state.step < conditions.trunk_warmup
                freeze_trunk(embedder, optimisers, frozen)
            reseed(generator, seed, "step", state.step)
            seed_globals(seed, "global", state.step)  # for dropout and third-party modules
            rows: list[torch.Tensor] = []
            for part in passes.parts(step.batch):
                # forward and objective
                terms = method.step(passes.embedder, part, generator)
                rows += latest
                latest.clear()
                check_terms(terms)
                loss = reduce(torch.add, terms.values())
                if passes.count > 1:
                    loss = loss / passes.count
                if recorder.is_logged:
                    passes.check_leaves(loss)
                    if step.loss is None:
                        audit.check_gradients()
                step.add(loss, terms if len(terms) > 1 else method.logged_terms, method.active(), parts=passes.count)
                # backward
                if loss.requires_grad:  # a user's loss may be constant if a batch has no pair
                    passes.backward(precision.scaled(loss))
            recorder.keep_loss(step)
            passes.finish()
            # step
            alpha = conditions.rmsprop_alpha * conditions.rmsprop_alpha_decay**step.batch.epoch
            set_rates(optimisers, factor(state.step, conditions, drops=state.drops), alpha=alpha)
            precision.unscale_(optimisers)
            norm = clip(optimisers, conditions, shards)
            precision.step(optimisers)
            for optimiser in optimisers:
                optimiser.zero_grad(set_to_none=True)
            # record
            recorder.record(step, torch.cat(rows) if rows else None, norm)
    check_trained(state)
    recorder.close()
    return state
