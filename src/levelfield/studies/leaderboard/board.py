"""The leaderboard of a study: means, intervals, comparisons between rows, costs and deviations."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from levelfield.errors import BadInput, unknown
from levelfield.evaluation.metrics.registry import ranking
from levelfield.evaluation.statistics.comparisons import Comparison, joint
from levelfield.evaluation.statistics.crossed import Differences
from levelfield.evaluation.statistics.intervals import figure_intervals
from levelfield.studies.leaderboard.claims import Part, Verdict, judge_claims, limit_sentence
from levelfield.studies.leaderboard.entries import Entry, class_table, finished_entries, kept_start, mean_score
from levelfield.studies.leaderboard.rows import COSTS, Row, cells_of, front, row_of
from levelfield.studies.runs.machine import unlike
from levelfield.studies.runs.spec import PlannedRun
from levelfield.studies.specification.choices import Claim
from levelfield.table import Column, Table, frame, numbers
from levelfield.wording import plural


@dataclass(frozen=True)
class Leaderboard:
    """All rows, best first by the first metric, and comparisons between rows with the same test images.

    signatures: how the scores were computed, by test set and metric.
    """

    study: str
    metrics: list[str]
    rows: list[Row]
    comparisons: list[Comparison]
    signatures: dict[str, dict[str, dict[str, Any]]]
    missing: list[str]
    facts: dict[str, Any] = field(default_factory=dict)
    claims: list[Verdict] = field(default_factory=list)

    @property
    def best_trained(self) -> Row:
        """The best row that trained; without one, the best row."""
        return next((row for row in self.rows if row.trained), self.rows[0])

    @property
    def recommended(self) -> Row:
        """The row to use: the one that validation classes chose; else the one with the best score, and of several that
        are equal, one that trains nothing."""
        first, chosen = self.metrics[0], self.facts.get("recipe", {}).get("best")
        if chosen is not None:
            return next((row for row in self.rows if row.label == chosen), self.rows[0])
        return max(self.rows, key=lambda row: (row.cells[first].mean, not row.trained))

    def ties(self, label: str) -> list[Comparison]:
        """The comparisons of a row with those that it cannot be distinguished from, best first."""
        pairs = (self.comparison(label, row.label) for row in self.rows)
        return [pair for pair in pairs if pair is not None and not pair.better()]

    @property
    def training_gain(self) -> Comparison | None:
        """The winner against the best untrained row of its test set; None if either is missing.

        Training pays if the comparison's `winner` is the first row, and harms if it is the second.
        """
        best = self.best_trained
        idle = [row for row in self.rows if not row.trained and row.test_set == best.test_set]
        return self.comparison(best.label, idle[0].label) if best.trained and idle else None

    @cached_property
    def limit(self) -> str:
        """If no difference could be established: one sentence on what it would take; otherwise empty."""
        return limit_sentence(self.comparisons)

    def comparison(self, first: str, second: str) -> Comparison | None:
        """The comparison of two rows, with `difference` first minus second; None if they were not compared."""
        comparison = self._by_pair.get(frozenset((first, second)))
        return None if comparison is None else comparison.seen_from(first)

    @cached_property
    def _by_pair(self) -> dict[frozenset[str], Comparison]:
        return {frozenset((pair.first, pair.second)): pair for pair in self.comparisons}

    @property
    def fronts(self) -> dict[str, dict[str, list[str]]]:
        """By test set and cost: the rows that no other row beats at the same or lower cost, cheapest first."""
        return {
            test_set: {
                cost: front([row for row in self.rows if row.test_set == test_set], cost, self.metrics[0])
                for cost in COSTS
            }
            for test_set in self.signatures
        }

    def __repr__(self) -> str:
        if not self.rows:
            return f"Leaderboard({self.study!r}: no rows)"
        first, best = self.metrics[0], self.rows[0]
        rows = plural(len(self.rows), "row", "rows")
        return f"Leaderboard({self.study!r}: {rows}, best by {first} {best.label!r} {best.cells[first].mean:.3f})"

    def _repr_html_(self) -> str:
        """The rows as an HTML table, best first; the full leaderboard is in the study's folder."""
        first, *others = self.metrics
        headings = numbers(first, "95 % interval", "sd", *others, "sec")
        rows: list[list[Any]] = []
        for rank, row in enumerate(self.rows, 1):
            cell = row.cells[first]
            interval = "" if cell.low is None or cell.high is None else f"{cell.low:.3f}-{cell.high:.3f}"
            spread = None if cell.spread is None else f"{cell.spread:.3f}"
            means = [f"{row.cells[metric].mean:.3f}" for metric in others]
            seconds = f"{row.seconds:.1f}" if row.trained else None
            deviations = "; ".join(row.deviations) or None
            rows.append([rank, row.label, f"{cell.mean:.3f}", interval, spread, *means, seconds, deviations])
        missing = [f"Missing: {text}" for text in self.missing]
        columns: list[Column | str] = [*numbers("#"), "method", *headings, "deviations"]
        return Table(columns, rows, f"{self.study}: best first by {first}", missing).html()

    def to_pandas(self, of: str = "rows") -> Any:
        """A DataFrame of the `rows`, best first, with the columns of leaderboard.csv, or of the `comparisons`."""
        if of not in ("rows", "comparisons"):
            raise unknown("table of a leaderboard", of, ("rows", "comparisons"))
        if of == "comparisons":
            listed = [asdict(comparison) for comparison in self.comparisons]
            return frame({key: [pair[key] for pair in listed] for key in listed[0]} if listed else {})
        columns: dict[str, list[Any]] = {"method": [row.label for row in self.rows]}
        for metric in self.metrics:
            cells = [row.cells[metric] for row in self.rows]
            columns[metric] = [cell.mean for cell in cells]
            for name, key in (("low", "low"), ("high", "high"), ("sd", "spread")):
                columns[f"{metric} {name}"] = [getattr(cell, key) for cell in cells]
        for key in ("trained", "tied_with_best", "seconds", "peak_bytes", "first_run"):
            columns[key] = [getattr(row, key) for row in self.rows]
        columns["seeds"] = [len(row.seeds) for row in self.rows]
        columns["deviations"] = ["; ".join(row.deviations) for row in self.rows]
        for key in dict.fromkeys(key for row in self.rows for key in row.variation):
            columns[key] = [row.variation.get(key) for row in self.rows]
        return frame(columns, index="method")

    def as_data(self) -> dict[str, Any]:
        """The content of leaderboard.json."""
        rest = asdict(replace(self, comparisons=[]))  # asdict copies deeply, and pairs may be tens of thousands
        pairs = []
        for pair in self.comparisons:
            needed = {"needed_seeds": pair.needed_seeds, "needed_classes": pair.needed_classes}
            plain = {key: None if number is None else vars(number) for key, number in needed.items()}
            pairs.append({**vars(pair), **plain})
        return {**rest, "comparisons": pairs, "fronts": self.fronts, "limit": self.limit}


def gather(
    name: str, runs: list[PlannedRun], study_folder: Path, metrics: tuple[str, ...], *, claims: Sequence[Claim] = ()
) -> Leaderboard:
    """The leaderboard of all finished runs; missing runs are listed."""
    entries_by_row, missing = finished_entries(runs, study_folder, metrics)
    if not entries_by_row:
        raise BadInput(
            f"No finished run of '{name}' under {study_folder} has {', '.join(metrics)}. "
            "Run `levelfield compare` first."
        )
    results = [result for entries in entries_by_row.values() for entry in entries for result in entry.results]
    queried = [metric for metric in metrics if all(metric in result.by_class for result in results)]
    first = (queried or ranking(metrics))[0]
    metrics = tuple(dict.fromkeys([first, *metrics]))  # the tested metric comes first and decides the order
    representations = Counter(
        json.dumps(entries[0].results[0].signatures[first]["representation"]) for entries in entries_by_row.values()
    )
    usual = json.loads(representations.most_common(1)[0][0])
    signatures: dict[str, dict[str, Any]] = {}
    differences: list[Differences] = []
    rows: list[Row] = []
    best: list[str] = []
    parts: list[Part] = []
    counted: dict[str, int] = {}
    for test_set, unsorted in _by_test_set(entries_by_row).items():
        signatures[test_set] = {metric: _one_definition(metric, unsorted) for metric in metrics}
        part = dict(sorted(unsorted.items(), key=lambda row: -mean_score(row[1], first)))
        tables = {metric: class_table(part, metric) for metric in queried}
        intervals = {metric: dict(zip(part, figure_intervals(table), strict=True)) for metric, table in tables.items()}
        for label, entries in part.items():
            of_row = {metric: by_label[label] for metric, by_label in intervals.items()}
            rows.append(row_of(label, test_set, entries, cells_of(entries, metrics, of_row, usual)))
        best.append(next(iter(part)))
        if queried:
            differences.append(tables[first].differences())
            counted[test_set] = len(part[best[-1]][0].results[0].per_query(first)[0])
        parts.append((part, tables))
    rows.sort(key=lambda row: -row.cells[first].mean)
    comparisons = joint(differences) if differences else []
    tied = set(best)
    for pair in comparisons:
        if not pair.better() and (pair.first in best or pair.second in best):
            tied |= {pair.first, pair.second}
    rows = [replace(row, tied_with_best=row.label in tied) for row in rows]
    trials = {run.row: int(run.spec.method.settings.get("trials", 0)) for run in runs}
    judged = judge_claims(claims, parts, first, trials=trials)
    facts: dict[str, Any] = {"queries_that_count": counted, "kept_start": kept_start(results)}
    computed_by = [result.summary.get("computed_by", ()) for result in results]
    if machines := unlike(computed_by):
        facts["machines"] = machines
    if any("bits can differ" in machine for machine in computed_by):
        facts["bits_can_differ"] = True
    return Leaderboard(name, list(metrics), rows, comparisons, signatures, missing, facts, judged)


def _by_test_set(entries_by_row: dict[str, list[Entry]]) -> dict[str, dict[str, list[Entry]]]:
    """The rows by test set: a study may vary its data or protocol."""
    sets: dict[str, tuple[str, dict[str, list[Entry]]]] = {}
    for label, entries in entries_by_row.items():
        spec = entries[0].run.spec
        name = spec.data.name if not sets else f"{spec.data.name} ({len(sets) + 1})"
        sets.setdefault(entries[0].test_set, (name, {}))[1][label] = entries
    return dict(sets.values())


def _one_definition(metric: str, entries_by_row: dict[str, list[Entry]]) -> dict[str, Any]:
    """The definition that all scores of a column share; raises if there are several."""
    definitions = {
        f"{label}, seed {entry.seed},": json.dumps(result.signatures[metric]["definition"], sort_keys=True)
        for label, entries in entries_by_row.items()
        for entry in entries
        for result in entry.results
    }
    if len(set(definitions.values())) > 1:
        common = Counter(definitions.values()).most_common(1)[0][0]
        odd = next(label for label, text in definitions.items() if text != common)
        raise BadInput(
            f"'{metric}' of {odd} has another definition than that of the other rows ({definitions[odd]} against "
            f"{common}), so they cannot share a column. Run `levelfield compare` again."
        )
    definition: dict[str, Any] = json.loads(next(iter(definitions.values())))
    return definition


def fine_tuning(board: Leaderboard) -> dict[str, Comparison]:
    """The best row whose network trained against the best row whose network did not, by backbone: for each network that
    has both kinds of trained rows, then over all of them ("") if there are several.

    Rows that train nothing belong to the frozen network. Empty if no network has a trained head and a trained stage.
    The rows are chosen by their test scores; comparisons are corrected for all pairs of rows, so for this choice, too.
    """
    groups: dict[str, list[Row]] = {}
    for row in board.rows:
        if row.test_set == board.rows[0].test_set and row.cut:
            groups.setdefault(row.backbone, []).append(row)
    trained = {name: {row.cut == "frozen" for row in rows if row.trained} for name, rows in groups.items()}
    groups = {name: rows for name, rows in groups.items() if trained[name] == {True, False}}
    if len(groups) > 1:
        groups[""] = [row for row in board.rows if any(row in rows for rows in groups.values())]
    answers = {}
    for name, rows in groups.items():  # sorted, best first
        tuned, frozen = (next(row for row in rows if (row.cut == "frozen") == is_frozen) for is_frozen in (False, True))
        comparison = board.comparison(tuned.label, frozen.label)
        if comparison is not None:
            answers[name] = comparison
    return answers
