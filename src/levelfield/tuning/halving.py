"""Successive halving: many settings train for few steps, and the best third of them goes on, twice."""

from __future__ import annotations

import logging
import math
from dataclasses import replace

from levelfield.errors import BadSpecification
from levelfield.studies import Study
from levelfield.tuning.trials import How, Trial

_log = logging.getLogger(__name__)
BRACKET = 9  # settings that compete; a third of them survives each of the two shorter trainings
SHARES = (1 / 9, 1 / 3)  # of the steps, in these shorter trainings
FEWEST_STEPS = 5  # a shorter training cannot rank settings


def rungs_of(full: int) -> list[int]:
    """The steps of the shorter trainings."""
    rungs = [max(1, round(full * share)) for share in SHARES]
    return [steps for steps in rungs if steps >= FEWEST_STEPS]


def bracket_cost(full: int) -> float:
    """The cost of a bracket, in trainings of `full` steps.

    >>> round(bracket_cost(400), 2)
    2.99
    """
    counts = (BRACKET, BRACKET // 3, 1)  # of settings, in each training
    return sum(count * steps for count, steps in zip(counts, [*rungs_of(full), full], strict=False)) / full


def check_bracket(study: Study, how: How) -> None:
    """Refuse pruning if the budget ends before the first bracket, whose best setting would then not count."""
    if not how.prune:
        return
    steps = study.conditions.steps
    rungs = rungs_of(steps)
    if not rungs:
        least = math.ceil((FEWEST_STEPS - 0.5) / SHARES[-1])
        raise BadSpecification(f"--prune shortens trainings of at least {least} steps; the study has {steps}.")
    cost = bracket_cost(steps)
    if rungs[0] <= study.conditions.warmup:
        _log.warning(
            "--prune drops two thirds of the settings after %d steps, all of them in the warm-up of %d: too early. "
            "Use more steps or a shorter warm-up.",
            rungs[0],
            study.conditions.warmup,
        )
    full = how.budget.trials if how.budget.images is None else how.budget.images / how.full_trial(study)
    if full is not None and full < math.floor(cost):
        raise BadSpecification(
            f"--prune needs a budget of at least {math.floor(cost)} full trials per method for its first {BRACKET} "
            f"settings; there are {full:g}. Give more, or remove --prune."
        )


def best_third(trials: list[Trial]) -> list[Trial]:
    """A third of the trials, at least one, the best first; the earlier one on a tie."""
    ordered = sorted(trials, key=lambda trial: (-(trial.value if trial.value is not None else -1.0), trial.number))
    return [replace(trial, pruned=False) for trial in ordered[: max(1, len(trials) // 3)]]
