"""The leaderboard of a study: means, intervals, comparisons between rows, costs and deviations."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.errors import BadInput
from levelfield.evaluation.metrics.registry import ranking
from levelfield.evaluation.statistics import Comparison, Differences, Interval, figure_intervals, joint
from levelfield.studies.leaderboard import notebook as board_notebook
from levelfield.studies.leaderboard.claims import Part, Verdict, judge_claims
from levelfield.studies.leaderboard.entries import Entry, class_table, finished_entries, kept_start, mean_cost
from levelfield.studies.leaderboard.limits import limit_sentence
from levelfield.studies.leaderboard.rows import COSTS, Cell, Row, best_on_test, front
from levelfield.studies.runs.machine import unlike
from levelfield.studies.runs.spec import PlannedRun
from levelfield.studies.specification.choices import Claim


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
    def winner(self) -> Row:
        """The best row that trained; without one, the best row."""
        return next((row for row in self.rows if row.trained), self.rows[0])

    @property
    def answer(self) -> Row:
        """The row to use: the one with the best score; if several are equal, one that trains nothing."""
        first = self.metrics[0]
        return max(self.rows, key=lambda row: (row.cells[first].mean, not row.trained))

    @property
    def as_good(self) -> list[str]:
        """The rows that tie with the winner, best first."""
        return [
            row.label
            for row in self.rows
            if (one := self.comparison(self.winner.label, row.label)) is not None and not one.better()
        ]

    @property
    def training_gain(self) -> Comparison | None:
        """The winner against the best untrained row of its test set; None if either is missing.

        Training pays if the comparison's `winner` is the first row, and harms if it is the second.
        """
        best = self.winner
        idle = [row for row in self.rows if not row.trained and row.test_set == best.test_set]
        return self.comparison(best.label, idle[0].label) if best.trained and idle else None

    @property
    def open_question(self) -> Comparison | None:
        """The winner against the best row that ties with it; `missing`, `needed_seeds` and `needed_classes` say what
        would resolve the tie. None if no row ties with the winner."""
        return self.comparison(self.winner.label, self.as_good[0]) if self.as_good else None

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
        return {frozenset((one.first, one.second)): one for one in self.comparisons}

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
        return board_notebook.line(self)

    def _repr_html_(self) -> str:
        return board_notebook.html(self)

    def to_pandas(self, of: str = "rows") -> Any:
        """A DataFrame of the `rows`, best first, or of the `comparisons` between them."""
        return board_notebook.table(self, of)

    def as_data(self) -> dict[str, Any]:
        """Everything as plain data, as in leaderboard.json."""
        plain: dict[str, Any] = json.loads(json.dumps(self.content()))
        return plain

    def content(self) -> dict[str, Any]:
        """The content of leaderboard.json, without copying the comparisons."""
        pairs = [_plain(one) for one in self.comparisons]
        rest = asdict(replace(self, comparisons=[]))  # asdict copies deeply, and pairs may be tens of thousands
        return {**rest, "comparisons": pairs, "fronts": self.fronts, "limit": self.limit}


def _plain(one: Comparison) -> dict[str, Any]:
    counts = {
        key: None if value is None else vars(value)
        for key, value in vars(one).items()
        if key in ("needed_seeds", "needed_classes")
    }
    return {**vars(one), **counts}


def gather(
    name: str,
    runs: list[PlannedRun],
    study_folder: Path,
    metrics: tuple[str, ...],
    *,
    claims: Sequence[Claim] = (),
    facts: dict[str, Any] | None = None,
) -> Leaderboard:
    """The leaderboard of all finished runs; missing runs are listed."""
    entries_by_row, missing = finished_entries(runs, study_folder, metrics)
    if not entries_by_row:
        raise BadInput(
            f"No finished run of '{name}' under {study_folder} has {', '.join(metrics)}. "
            "Run `levelfield compare` first."
        )
    queried = [metric for metric in metrics if _has_queries(entries_by_row, metric)]
    first = queried or ranking(metrics)
    metrics = tuple(dict.fromkeys([*first[:1], *metrics]))  # the tested metric comes first and decides the order
    usual = _usual_representation(entries_by_row, metrics[0])
    signatures: dict[str, dict[str, Any]] = {}
    differences: list[Differences] = []
    rows: list[Row] = []
    best: list[str] = []
    parts: list[Part] = []
    counted: dict[str, int] = {}
    for test_set, part in _by_test_set(entries_by_row).items():
        signatures[test_set] = {metric: _one_definition(metric, part) for metric in metrics}
        part = dict(sorted(part.items(), key=lambda one: -_mean(one[1], metrics[0])))
        tables = {metric: class_table(part, metric) for metric in queried}
        bounds = {metric: dict(zip(part, figure_intervals(table), strict=True)) for metric, table in tables.items()}
        rows += [_row(label, test_set, entries, metrics, bounds, usual) for label, entries in part.items()]
        differences += [tables[queried[0]].differences()] if queried else []
        best.append(next(iter(part)))
        if queried:
            counted[test_set] = len(part[best[-1]][0].results[0].per_query(queried[0])[0])
        parts.append((part, tables))
    rows.sort(key=lambda row: -row.cells[metrics[0]].mean)
    comparisons = joint(differences) if differences else []
    tied = set(best).union(
        *(
            {one.first, one.second}
            for one in comparisons
            if not one.better() and (one.first in best or one.second in best)
        )
    )
    rows = [replace(row, tied_with_best=row.label in tied) for row in rows]
    trials = {run.row: int(run.spec.method.settings.get("trials", 0)) for run in runs}
    judged = judge_claims(claims, parts, metrics[0], trials=trials)
    finished = [result for entries in entries_by_row.values() for entry in entries for result in entry.results]
    facts = {**(facts or {}), "queries_that_count": counted, "kept_start": kept_start(finished)}
    if named := unlike([result.summary.get("computed_by", ()) for result in finished]):
        facts["machines"] = named
    if any("bits can differ" in result.summary.get("computed_by", ()) for result in finished):
        facts["bits_can_differ"] = True
    return Leaderboard(name, list(metrics), rows, comparisons, signatures, missing, facts, judged)


def _row(
    label: str,
    test_set: str,
    entries: list[Entry],
    metrics: tuple[str, ...],
    bounds: dict[str, dict[str, Interval | None]],
    usual: dict[str, Any],
) -> Row:
    results = [result for entry in entries for result in entry.results]
    cells = {}
    for metric in metrics:
        values = np.array([entry.value(metric) for entry in entries])
        interval = bounds.get(metric, {}).get(label)
        within = (None, None) if interval is None else (interval.low, interval.high)
        spread = float(values.std(ddof=1)) if len(values) > 1 and np.isfinite(values).all() else None
        differs = _in_words(results[0].signatures[metric]["representation"], usual)
        cells[metric] = Cell(float(values.mean()), within[0], within[1], spread, differs)
    warnings = []
    if any(result.summary["collapsed"] for result in results):
        warnings.append("the embedding collapsed")
    idle = sum(result.summary["idle_batches"] for result in results)
    if idle:
        warnings.append(f"{idle} batch{'' if idle == 1 else 'es'} without an active tuple")
    trained = results[0].summary["step"] > 0
    joins = any(one["what"] == "members" for one in results[0].deviations)
    return Row(
        label,
        trained,
        [entry.seed for entry in entries],
        cells,
        float(np.mean([entry.seconds for entry in entries])),
        list(dict.fromkeys(text for result in results for text in result.deviation_texts)),
        warnings,
        dict(entries[0].run.variation),
        str(results[0].folder),
        planning=float(np.mean([entry.planning for entry in entries])),
        peak_bytes=mean_cost(entries, "peak_bytes"),
        images=mean_cost(entries, "images"),
        rows_through_trunk=mean_cost(entries, "rows_through_trunk"),
        weights=mean_cost(entries, "weights"),
        operations=mean_cost(entries, "operations"),
        backbone=(used := entries[0].run.spec.conditions).backbone,
        cut="" if joins else used.cut if trained else "frozen",
        test_set=test_set,
        best_on_test=best_on_test(entries),
    )


def _by_test_set(entries_by_row: dict[str, list[Entry]]) -> dict[str, dict[str, list[Entry]]]:
    """The rows by test set: a study may vary its data or protocol."""
    sets: dict[str, tuple[str, dict[str, list[Entry]]]] = {}
    for label, entries in entries_by_row.items():
        spec = entries[0].run.spec
        same = f"{spec.data_digest} {spec.protocol}"
        name = spec.data.name if not sets else f"{spec.data.name} ({len(sets) + 1})"
        sets.setdefault(same, (name, {}))[1][label] = entries
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


def _in_words(own: dict[str, Any], usual: dict[str, Any]) -> str:
    """How a representation differs from the usual one.

    >>> _in_words({"dim": 2048, "bits": 1, "ensemble": 4}, {"dim": 64, "bits": 32, "ensemble": 1})
    '2048 bits, ensemble 4'
    """
    differs = {key: value for key, value in own.items() if usual[key] != value}
    if differs.get("bits") == 1:
        differs = {"bits": own["dim"], **{key: value for key, value in differs.items() if key not in ("dim", "bits")}}
    words = {"dim": "{}-d", "bits": "{} bits"}
    return ", ".join(words.get(key, key + " {}").format(value) for key, value in differs.items())


def _usual_representation(entries_by_row: dict[str, list[Entry]], metric: str) -> dict[str, Any]:
    texts = Counter(
        json.dumps(entries[0].first.signatures[metric]["representation"]) for entries in entries_by_row.values()
    )
    usual: dict[str, Any] = json.loads(texts.most_common(1)[0][0])
    return usual


def _has_queries(entries_by_row: dict[str, list[Entry]], metric: str) -> bool:
    return all(entry.has_queries(metric) for entries in entries_by_row.values() for entry in entries)


def _mean(entries: list[Entry], metric: str) -> float:
    return float(np.mean([entry.value(metric) for entry in entries]))
