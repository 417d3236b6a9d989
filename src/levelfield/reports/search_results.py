"""What was tried before a comparison: cost and gain of tuning, and the short trainings of the recipe for photos."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from levelfield.evaluation.statistics.trials import BestOf, best_of, importances, winning
from levelfield.files.writing import write_text
from levelfield.ranges import Range
from levelfield.reports.figures._drawing import GRID, legend_beside, limits, panels, plainly, save, shortened
from levelfield.reports.figures._rows import COLOURS, LINES
from levelfield.studies.leaderboard.board import Leaderboard
from levelfield.studies.specification.choices import TunedMethod, TuningRecord
from levelfield.table import Column, Table, numbers
from levelfield.wording import plural

BUDGETS = (1, 5, 20, 50)
ADAPTIVE = ("tpe", "gp", "cma")
_ESTIMATED = ("expected", "low", "high")  # of the best of some trials, in the CSV file
_MIN_WIN_SHARE = 0.95  # share of searches that a method must win to be named best


@dataclass(frozen=True)
class TuningRow:
    """The search for one method. default, best: validation scores; None if unknown."""

    label: str
    search: TunedMethod
    default: float | None
    best: float | None
    expected: dict[int, BestOf]


@dataclass(frozen=True)
class TuningTable:
    """All rows, best validation score first, and the numbers of trials at which they are compared."""

    record: TuningRecord
    rows: list[TuningRow]
    budgets: list[int]

    def table(self) -> Table:
        """Scores by number of trials, cost of the search, the winners, and the chosen settings with their ranges."""
        record = self.record
        title = f"Tuning: {record.budget}, sampler {record.sampler}, {record.metric}, evaluated on {record.judged_by}"
        heads = numbers("default", *(f"of {n}" for n in self.budgets), "best", "trials", "sec")
        rows = []
        for row in self.rows:
            expected = (row.expected[n].expected if n in row.expected else None for n in self.budgets)
            scores = [None if value is None else f"{value:.3f}" for value in (row.default, *expected, row.best)]
            rows.append([row.label, *scores, len(row.search.values), f"{row.search.seconds:.0f}"])
        return Table([Column("method", width=12), *heads], rows, title, [*_notes(self), *_settings_lines(record)])

    def show(self, console: Console) -> None:
        console.print()
        self.table().show(console)

    def write(self, folder: Path) -> list[Path]:
        """Write tuning.md, tuning.csv and tuning.png; returns the paths."""
        table = self.table()
        notes = [f"- {note}" for note in table.notes]
        write_text(folder / "tuning.md", replace(table, notes=notes).markdown() + "\n")
        write_text(folder / "tuning.csv", _csv(self))
        paths = [folder / "tuning.md", folder / "tuning.csv"]
        drawable = any(len(row.expected) > 1 for row in self.rows)
        return [*paths, draw_tuning(self, folder / "tuning.png")] if drawable else paths


def tuning_table(record: TuningRecord) -> TuningTable:
    """The table of a search."""
    counts = [len(search.complete) for search in record.methods.values() if search.ranges]
    budgets = [n for n in BUDGETS if n < min(counts, default=0)]  # the best of all trials is known
    rows = []
    for label, search in record.methods.items():
        complete = search.complete
        if search.ranges:
            default = search.values[0] if search.values else None
            expected = {n: best_of(complete, n) for n in budgets}
            rows.append(TuningRow(label, search, default, max(complete, default=None), expected))
        else:  # the same settings with several seeds: the score is their mean
            mean = sum(complete) / len(complete) if complete else None
            rows.append(TuningRow(label, search, mean, mean, {}))
    rows.sort(key=lambda row: -(row.best if row.best is not None else -1.0))
    return TuningTable(record, rows, budgets)


def tried_table(board: Leaderboard) -> Table | None:
    """The scores of every objective after each short training of the recipe, on validation classes; None without one.

    They are not ranked with the comparison, since they trained less.
    """
    recipe: dict[str, Any] | None = board.facts.get("recipe")
    if recipe is None:
        return None
    lengths = sorted({int(steps) for scores in recipe["scores"].values() for steps in scores})
    compared = {row.label for row in board.rows}
    rows = []
    for label, scores in sorted(recipe["scores"].items(), key=lambda item: -max(item[1].values(), default=0.0)):
        cells = [f"{scores[str(steps)]:.3f}" if str(steps) in scores else None for steps in lengths]
        outcome = "went on to the comparison" if label in compared else "dropped" if scores else "failed"
        rows.append([label, *cells, outcome])
    sizes = ", ".join(f"{score:.3f} at {size} px" for size, score in recipe["sizes"].items())
    judged = f"{recipe['metric']} of {recipe['judged_by']}; the test classes chose nothing."
    columns: list[Column | str] = ["method", *numbers(*(f"{steps} steps" for steps in lengths)), "outcome"]
    title = "Short trainings before the comparison"
    untried = [f"No time for {', '.join(recipe['untried'])}."] if recipe["untried"] else []
    return Table(columns, rows, title, [f"Untrained features: {sizes}.", judged, *untried])


@plainly
def draw_tuning(tuning: TuningTable, path: Path) -> Path:
    """Draw the expected best validation score against the number of trials; the band holds 95 % of searches."""
    figure, axes = panels(1, 1, width=6.4, height=3.6)
    axis, every = axes[0, 0], []
    rows = [row for row in tuning.rows if row.expected]
    for number, row in enumerate(rows):
        complete = row.search.complete
        curve = [best_of(complete, n) for n in range(1, len(complete) + 1)]
        colour, line = COLOURS[number % len(COLOURS)], LINES[number // len(COLOURS) % len(LINES)][0]
        trials, means = [best.trials for best in curve], [best.expected for best in curve]
        band = {"color": colour, "alpha": 0.12, "linewidth": 0}
        axis.plot(trials, means, color=colour, linestyle=line)
        axis.fill_between(trials, [best.low for best in curve], [best.high for best in curve], **band)
        every += means
    axis.set_xscale("log")
    ticks = [n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500) if n <= axis.get_xlim()[1]]
    axis.set_xticks(ticks, [str(n) for n in ticks])
    axis.set_xticks([], minor=True)
    axis.set(xlabel="trials", ylabel=f"expected best {tuning.record.metric}, validation classes", ylim=limits(every))
    axis.grid(axis="y", color=GRID)
    legend_beside(figure, axis.get_lines(), shortened([row.label for row in rows]))
    return save(figure, path)


def _notes(tuning: TuningTable) -> list[str]:
    complete = {row.label: row.search.complete for row in tuning.rows if row.search.ranges}
    lines = [_wins(n, winning(complete, n)) for n in tuning.budgets if len(complete) > 1]
    for row in tuning.rows:
        if importance := _importance(row.search):
            key, share = max(importance.items(), key=lambda item: item[1])
            known = row.best is not None and row.default is not None
            gain = f"; best {row.best - row.default:+.3f} against the default" if known else ""  # type: ignore[operator]
            lines.append(f"{row.label}: {key} matters most ({share:.0%} of the importance){gain}.")
    nothing = [row.label for row in tuning.rows if not row.search.ranges]
    if nothing:
        lines.append(f"Nothing to search; mean over the same number of seeds instead: {', '.join(nothing)}.")
    for row in tuning.rows:
        failed = row.search.values.count(None)
        lines += [f"{row.label}: {plural(failed, 'trial', 'trials')} failed."] if failed else []
    lines.append(
        "default: the study's own settings (trial 0). of n: expected best of n trials (Dodge et al. 2019)"
        + (", optimistic for few trials: the sampler learns." if tuning.record.sampler in ADAPTIVE else ".")
        + " All scores are on validation classes; the test classes chose nothing."
    )
    return lines


def _importance(search: TunedMethod) -> dict[str, float] | None:
    """The importance of each setting."""
    ranges = {key: Range.parse(key, written) for key, written in search.ranges.items()}
    trials = [
        (settings, value)
        for number, (settings, value) in enumerate(zip(search.settings, search.values, strict=False))
        if value is not None and set(ranges) <= set(settings)
    ]
    if not ranges or not trials:
        return None
    points = {key: [span.share(settings[key]) for settings, _ in trials] for key, span in ranges.items()}
    return importances(points, [value for _, value in trials])


def _wins(n: int, shares: Mapping[str, float]) -> str:
    """The best method with n trials each, estimated from these trials.

    >>> _wins(5, {"a": 0.97, "b": 0.03}), _wins(5, {"a": 0.6, "b": 0.4})
    ('With 5 trials each: a is best in 97% of searches.', 'With 5 trials each: open; a in 60%, b in 40% of searches.')
    """
    ordered = sorted(shares.items(), key=lambda item: -item[1])
    head = f"With {plural(n, 'trial', 'trials')} each"
    if ordered[0][1] >= _MIN_WIN_SHARE:
        return f"{head}: {ordered[0][0]} is best in {ordered[0][1]:.0%} of searches."
    winners = ", ".join(f"{label} in {share:.0%}" for label, share in ordered[:3] if share >= 0.005)
    return f"{head}: open; {winners} of searches."


def _settings_lines(record: TuningRecord) -> list[str]:
    """The chosen settings with their ranges, one line per method."""
    lines = []
    for label, search in {**record.methods, **({"common conditions": record.common} if record.common else {})}.items():
        if not search.ranges:
            continue
        if search.trial is None:
            lines.append(f"{label}: no trial succeeded; the study's own settings are kept.")
        elif search.trial == 0:
            lines.append(f"{label}: the study's own settings (trial 0); searched: {_searched(search)}.")
        else:
            lines.append(f"{label}: trial {search.trial}: {_searched(search, search.chosen)}.")
    return lines


def _searched(search: TunedMethod, values: Mapping[str, Any] | None = None) -> str:
    """The ranges of a method's settings, each with its value if `values` are given."""
    parts = [
        f"{key if values is None else f'{key} {values.get(key)}'} ({Range.parse(key, written).text})"
        for key, written in search.ranges.items()
    ]
    return ", ".join(parts) or "nothing"


def _csv(tuning: TuningTable) -> str:
    spans = [f"best of {n} {what}" for n in tuning.budgets for what in _ESTIMATED]
    heads = ["method", "default", "best", "trial", *spans, "trials", "failed", "seconds", "searched"]
    rows = []
    for row in tuning.rows:
        search = row.search
        best = [getattr(row.expected.get(n), what, None) for n in tuning.budgets for what in _ESTIMATED]
        counts = [len(search.values), search.values.count(None), search.seconds]
        rows.append([row.label, row.default, row.best, search.trial, *best, *counts, _searched(search)])
    return Table(heads, rows).csv(digits=None)
