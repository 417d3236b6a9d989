"""Cost and gain of tuning, from the record in a study: a table and a figure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from levelfield.evaluation.statistics.trials import BestOf, best_of, importances, winning
from levelfield.files.writing import write_text
from levelfield.ranges import Range
from levelfield.reports.figures._axes import limits
from levelfield.reports.figures._drawing import GRID, legend_beside, panels, plainly, save, shortened
from levelfield.reports.figures._style import COLOURS, LINES
from levelfield.studies.specification.tuning import TunedMethod, TuningRecord
from levelfield.table import Column, Table, numbers
from levelfield.wording import plural

BUDGETS = (1, 5, 20, 50)
ADAPTIVE = ("tpe", "gp", "cma")
_ENOUGH = 0.95  # share of searches that a method must win to be named best


@dataclass(frozen=True)
class TuningRow:
    """Cost and result of the search for one method. default, best: validation scores; None if unknown."""

    label: str
    trials: int
    failed: int
    pruned: int
    seconds: float
    default: float | None
    best: float | None
    chosen_trial: int | None
    expected: dict[int, BestOf]
    importance: dict[str, float] | None

    @property
    def gain(self) -> float | None:
        """The gain of the best settings over the study's own."""
        return None if self.best is None or self.default is None else self.best - self.default


@dataclass(frozen=True)
class TuningTable:
    """All rows, best validation score first, and which method wins with how many trials."""

    record: TuningRecord
    rows: list[TuningRow]
    budgets: list[int]
    wins: dict[int, dict[str, float]]


def tuning_table(record: TuningRecord) -> TuningTable:
    """The table of a search."""
    searched = {label: one for label, one in record.methods.items() if one.ranges}
    least = min((len(one.complete) for one in searched.values()), default=0)
    budgets = [n for n in BUDGETS if n < least]  # the best of all trials is known
    rows = [_row(label, one, budgets) for label, one in record.methods.items()]
    rows.sort(key=lambda row: -(row.best if row.best is not None else -1.0))
    complete = {label: one.complete for label, one in searched.items()}
    wins = {n: winning(complete, n) for n in budgets} if len(complete) > 1 else {}
    return TuningTable(record, rows, budgets, wins)


def _row(label: str, one: TunedMethod, budgets: list[int]) -> TuningRow:
    complete = one.complete
    default = one.values[0] if one.values and 0 not in one.pruned else None
    if not one.ranges:  # the same settings with several seeds: the score is their mean
        mean = sum(complete) / len(complete) if complete else None
        best, default = mean, mean
    else:
        best = max(complete, default=None)
    return TuningRow(
        label,
        len(one.values),
        sum(value is None for value in one.values),
        len(one.pruned),
        one.seconds,
        default,
        best,
        one.trial,
        {n: best_of(complete, n) for n in budgets if n <= len(complete)} if one.ranges else {},
        _importance(one),
    )


def _importance(one: TunedMethod) -> dict[str, float] | None:
    ranges = {key: Range.parse(key, written) for key, written in one.ranges.items()}
    full = [k for k, v in enumerate(one.values) if v is not None and k not in one.pruned]
    known = [k for k in full if ranges and set(ranges) <= set(one.settings[k])]
    if not known:
        return None
    points = {key: [span.share(one.settings[k][key]) for k in known] for key, span in ranges.items()}
    return importances(points, [float(one.values[k] or 0.0) for k in known])


def result_table(tuning: TuningTable) -> Table:
    """Scores by number of trials, what the search cost, the winners, and the chosen settings with their ranges."""

    def fields(row: TuningRow) -> list[str | None]:
        expected = (row.expected[n].expected if n in row.expected else None for n in tuning.budgets)
        scores = [None if value is None else f"{value:.3f}" for value in (row.default, *expected, row.best)]
        return [row.label, *scores, str(row.trials), f"{row.seconds:.0f}"]

    record = tuning.record
    title = f"Tuning: {record.budget}, sampler {record.sampler}, {record.metric}, evaluated on {record.judged_by}"
    heads = numbers("default", *(f"of {n}" for n in tuning.budgets), "best", "trials", "sec")
    rows = [fields(row) for row in tuning.rows]
    return Table([Column("method", width=12), *heads], rows, title, [*_notes(tuning), *_settings_lines(record)])


def show_tuning(tuning: TuningTable | None, console: Console) -> None:
    """Print the table."""
    if tuning is not None:
        console.print()
        result_table(tuning).show(console)


def write_tuning(tuning: TuningTable | None, folder: Path) -> list[Path]:
    """Write tuning.md, tuning.csv and tuning.png; returns the paths."""
    if tuning is None:
        return []
    table = result_table(tuning)
    notes = [f"- {note}" for note in table.notes]
    write_text(folder / "tuning.md", replace(table, notes=notes).markdown() + "\n")
    write_text(folder / "tuning.csv", _csv(tuning))
    paths = [folder / "tuning.md", folder / "tuning.csv"]
    drawable = any(len(row.expected) > 1 for row in tuning.rows)
    return [*paths, draw_tuning(tuning, folder / "tuning.png")] if drawable else paths


@plainly
def draw_tuning(tuning: TuningTable, path: Path) -> Path:
    """Draw the expected best validation score against the number of trials; the band holds 95 % of searches."""
    figure, axes = panels(1, 1, width=6.4, height=3.6)
    axis, handles, labels, every = axes[0, 0], [], [], []
    rows = [row for row in tuning.rows if row.expected]
    for number, row in enumerate(rows):
        complete = tuning.record.methods[row.label].complete
        curve = [best_of(complete, n) for n in range(1, len(complete) + 1)]
        colour = COLOURS[number % len(COLOURS)]
        across = [one.trials for one in curve]
        line = LINES[number // len(COLOURS) % len(LINES)][0]
        handles += axis.plot(across, [one.expected for one in curve], color=colour, linestyle=line)
        axis.fill_between(
            across, [o.low for o in curve], [o.high for o in curve], color=colour, alpha=0.12, linewidth=0
        )
        labels.append(row.label)
        every += [one.expected for one in curve]
    axis.set_xscale("log")
    ticks = [n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500) if n <= axis.get_xlim()[1]]
    axis.set_xticks(ticks, [str(n) for n in ticks])
    axis.set_xticks([], minor=True)
    axis.set_xlabel("trials")
    axis.set_ylabel(f"expected best {tuning.record.metric}, validation classes")
    axis.set_ylim(limits(every))
    axis.grid(axis="y", color=GRID)
    legend_beside(figure, handles, shortened(labels))
    return save(figure, path)


def _notes(tuning: TuningTable) -> list[str]:
    lines = [_wins(n, shares) for n, shares in tuning.wins.items()]
    for row in tuning.rows:
        if row.importance:
            key, share = max(row.importance.items(), key=lambda item: item[1])
            gain = "" if row.gain is None else f"; best {row.gain:+.3f} against the default"
            lines.append(f"{row.label}: {key} matters most ({share:.0%} of the importance){gain}.")
    nothing = [label for label, one in tuning.record.methods.items() if not one.ranges]
    if nothing:
        lines.append(f"Nothing to search; mean over the same number of seeds instead: {', '.join(nothing)}.")
    for row in tuning.rows:
        if row.failed or row.pruned:
            counts = [f"{plural(row.failed, 'trial', 'trials')} failed"] if row.failed else []
            counts += [f"{row.pruned} stopped early"] if row.pruned else []
            lines.append(f"{row.label}: {' and '.join(counts)}.")
    lines.append(
        "default: the study's own settings (trial 0). of n: expected best of n trials (Dodge et al. 2019)"
        + (", optimistic for few trials: the sampler learns." if tuning.record.sampler in ADAPTIVE else ".")
        + " All scores are on validation classes; the test classes chose nothing."
    )
    return lines


def _wins(n: int, shares: Mapping[str, float]) -> str:
    """The best method with n trials each, estimated from these trials.

    >>> _wins(5, {"a": 0.97, "b": 0.03}), _wins(5, {"a": 0.6, "b": 0.4})
    ('With 5 trials each: a is best in 97% of searches.', 'With 5 trials each: open; a in 60%, b in 40% of searches.')
    """
    ordered = sorted(shares.items(), key=lambda item: -item[1])
    head = f"With {plural(n, 'trial', 'trials')} each"
    if ordered[0][1] >= _ENOUGH:
        return f"{head}: {ordered[0][0]} is best in {ordered[0][1]:.0%} of searches."
    winners = ", ".join(f"{label} in {share:.0%}" for label, share in ordered[:3] if share >= 0.005)
    return f"{head}: open; {winners} of searches."


def _settings_lines(record: TuningRecord) -> list[str]:
    """The chosen settings with their ranges, one line per method."""
    lines = []
    for label, one in {**record.methods, **({"common conditions": record.common} if record.common else {})}.items():
        if not one.ranges:
            continue
        if one.trial is None:
            lines.append(f"{label}: no trial succeeded; the study's own settings are kept.")
        elif one.trial == 0:
            lines.append(f"{label}: the study's own settings (trial 0); searched: {_searched(one)}.")
        else:
            lines.append(f"{label}: trial {one.trial}: {_searched(one, one.chosen)}.")
    return lines


def _searched(one: TunedMethod, chosen: Mapping[str, Any] | None = None) -> str:
    """The ranges of a method's settings, each with the chosen value."""
    ranges = {key: Range.parse(key, written).text for key, written in one.ranges.items()}
    named = {key: key if chosen is None else f"{key} {chosen.get(key)}" for key in ranges}
    return ", ".join(f"{named[key]} ({text})" for key, text in ranges.items()) or "nothing"


def _csv(tuning: TuningTable) -> str:
    spans = [f"best of {n} {what}" for n in tuning.budgets for what in ("expected", "low", "high")]
    heads = ["method", "default", "best", "trial", *spans, "trials", "failed", "pruned", "seconds", "searched"]
    rows = []
    for row in tuning.rows:
        best = [row.expected.get(n) for n in tuning.budgets]
        ends = [value for one in best for value in ((one.expected, one.low, one.high) if one else (None,) * 3)]
        scores = [row.label, row.default, row.best, row.chosen_trial, *ends]
        counts = [row.trials, row.failed, row.pruned, row.seconds]
        rows.append([*scores, *counts, _searched(tuning.record.methods[row.label])])
    return Table(heads, rows).csv(digits=None)
