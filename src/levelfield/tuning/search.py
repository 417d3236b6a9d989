"""Search with the same number of trials for every method, judged by validation classes alone."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scipy.stats import qmc

from levelfield import methods
from levelfield.errors import BadSpecification
from levelfield.studies import Study, gather, parse_study, run_study
from levelfield.studies.execution.events import SILENT_RUNS, RunsProgress
from levelfield.studies.runs.run import Options
from levelfield.studies.specification.named_code import named_by
from levelfield.trust import trusting


@dataclass(frozen=True)
class Trial:
    """One setting of one method and what the validation classes said."""

    method: str
    number: int
    settings: dict[str, Any]
    values: dict[str, float]


def search(
    study: Study,
    *,
    trials: int,
    validation: float,
    out: Path,
    jobs: int = 1,
    seed: int = 0,
    options: Options | None = None,
    progress: RunsProgress = SILENT_RUNS,
) -> list[Trial]:
    """Try `trials` settings of every method that has something to search; the first is the study's own.

    The test classes are in no part of the protocol 'choosing', so they cannot choose anything.
    """
    tried: dict[str, tuple[str, int, dict[str, Any]]] = {}
    entries = []
    for competitor in study.methods:
        ranges = methods.search_ranges(competitor.name)
        if not ranges:
            continue
        for number, settings in enumerate(propose(ranges, trials, seed=seed, first=competitor.settings)):
            label = f"{competitor.label} {number}"
            tried[label] = (competitor.label, number, settings)
            entries.append({"name": competitor.name, "label": label, "settings": settings})
    content = study.model_dump(mode="json", exclude={"methods", "vary"})
    content |= {
        "name": f"{study.name}-choosing",
        "methods": entries,
        "seeds": 1,
        "protocol": {"name": "choosing", "validation": validation},
    }
    choosing = parse_study(content)
    folder = out / choosing.name
    with trusting(*named_by(choosing)):
        runs = run_study(choosing, folder, jobs=jobs, options=options or Options(), progress=progress)
    board = gather(choosing.name, runs, folder, choosing.metrics)
    found = []
    for row in board.rows:
        label, number, settings = tried[row.label]
        found.append(Trial(label, number, settings, {metric: cell.mean for metric, cell in row.cells.items()}))
    return sorted(found, key=lambda trial: (trial.method, trial.number))


def best(trials: list[Trial], metric: str) -> dict[str, Trial]:
    """The best trial of each method; the earlier one on a tie."""
    chosen: dict[str, Trial] = {}
    for trial in trials:
        if trial.method not in chosen or trial.values[metric] > chosen[trial.method].values[metric]:
            chosen[trial.method] = trial
    return chosen


def propose(
    ranges: dict[str, Any], trials: int, *, seed: int = 0, first: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    """`trials` settings: `first` as it is, then points spread evenly over the ranges (a scrambled Halton sequence).

    >>> propose({"margin": (0.1, 0.4, "log"), "squared": [False, True]}, 2, first={"margin": 0.2})[0]
    {'margin': 0.2}
    """
    if trials < 1:
        raise BadSpecification(f"{trials} trials were asked for; at least 1 is needed.")
    fixed = dict(first or {})
    points = qmc.Halton(d=len(ranges), scramble=True, rng=seed).random(trials - 1)
    drawn = [
        {key: _at(span, float(u)) for (key, span), u in zip(ranges.items(), point, strict=True)} for point in points
    ]
    return [fixed, *({**fixed, **settings} for settings in drawn)]


def _at(span: Any, share: float) -> Any:
    """The value at `share` (0 to 1) of a range or a list of choices; three digits are enough."""
    if isinstance(span, list):
        return span[min(int(share * len(span)), len(span) - 1)]
    low, high, scale = span
    value = low * (high / low) ** share if scale == "log" else low + share * (high - low)
    return round(value, 2 - math.floor(math.log10(abs(value)))) if value else 0.0


def as_log(trials: list[Trial]) -> list[dict[str, Any]]:
    return [asdict(trial) for trial in trials]
