"""The leaderboard: means, intervals, which differences are real, cost and deviations of the runs of a study."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.errors import BadInput, BadSpecification
from levelfield.evaluation import parse
from levelfield.studies import board_notebook
from levelfield.studies.best_on_test import best_on_test
from levelfield.studies.claims import Claim
from levelfield.studies.cost import COSTS, front
from levelfield.studies.entries import Entry, finished_entries, mean_cost
from levelfield.studies.rows import Cell, Row
from levelfield.studies.runs import PlannedRun
from levelfield.studies.seeds import paired_t, seeds_needed
from levelfield.studies.statistics import Comparison, class_bootstrap_interval, compare_all, holm, t_interval
from levelfield.studies.verdicts import Verdict, judge


@dataclass(frozen=True)
class Leaderboard:
    """All rows, best first by the first metric, and the comparisons between those tested on the same images.

    signatures: how the figures were made, by test set and metric.
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
    def fronts(self) -> dict[str, dict[str, list[str]]]:
        """By test set and cost: the rows that no other beats for the same cost or less, cheapest first."""
        return {
            test_set: {cost: front([row for row in self.rows if row.test_set == test_set], cost, self.metrics[0])
                       for cost in COSTS}
            for test_set in self.signatures
        }  # fmt: skip

    def __repr__(self) -> str:
        return board_notebook.line(self)

    def _repr_html_(self) -> str:
        return board_notebook.html(self)

    def to_pandas(self, of: str = "rows") -> Any:
        """A DataFrame of the `rows`, best first, or of the `comparisons` between them."""
        return board_notebook.table(self, of)

    def as_data(self) -> dict[str, Any]:
        return json.loads(json.dumps({**asdict(self), "fronts": self.fronts}))


def gather(
    name: str,
    runs: list[PlannedRun],
    study_folder: Path,
    metrics: tuple[str, ...],
    *,
    claims: Sequence[Claim] = (),
    facts: dict[str, Any] | None = None,
    draws: int = 10_000,
) -> Leaderboard:
    """The leaderboard of all finished runs; what is missing is said, not guessed."""
    found, missing = finished_entries(runs, study_folder, metrics)
    if not found:
        raise BadInput(
            f"There is no finished run of '{name}' under {study_folder} with {', '.join(metrics)} measured. "
            "Run `levelfield compare` first."
        )
    queried = [metric for metric in metrics if _has_queries(found, metric)]
    first = queried or ranking(metrics)
    metrics = tuple(dict.fromkeys([*first[:1], *metrics]))  # what is tested stands first and decides the order
    usual = _usual_representation(found, metrics[0])
    signatures: dict[str, dict[str, Any]] = {}
    comparisons: list[Comparison] = []
    rows: list[Row] = []
    best: list[str] = []
    for test_set, part in _by_test_set(found).items():
        signatures[test_set] = {metric: _one_definition(metric, part) for metric in metrics}
        tables = {metric: _class_table(part, metric) for metric in queried}
        own = [_row(label, test_set, entries, metrics, tables, usual, draws) for label, entries in part.items()]
        own.sort(key=lambda row: -row.cells[metrics[0]].mean)
        comparisons += _comparisons(part, own, *tables[queried[0]], draws) if queried and len(own) > 1 else []
        best.append(own[0].label)
        rows += own
    rows.sort(key=lambda row: -row.cells[metrics[0]].mean)
    comparisons = _corrected(comparisons)
    tied = set.union(*(_tied_with(label, comparisons) for label in best))
    rows = [replace(row, tied_with_best=row.label in tied) for row in rows]
    judged = judge(claims, found, metrics[0], draws=draws)
    return Leaderboard(name, list(metrics), rows, comparisons, signatures, missing, facts or {}, judged)


def ranking(metrics: Iterable[str]) -> list[str]:
    """The metrics of which more is better: those of geometry describe embeddings and do not rank them.

    >>> ranking(["rho", "recall@1", "nmi"])
    ['recall@1', 'nmi']
    """
    metrics = list(metrics)
    found = [metric for metric in metrics if parse(metric).kind != "geometry"]
    if not found:
        raise BadSpecification(f"{', '.join(metrics)}: this describes embeddings and does not say which are better. "
                               "Add a metric that does, such as recall@1.")
    return found


def _row(
    label: str,
    test_set: str,
    entries: list[Entry],
    metrics: tuple[str, ...],
    tables: dict[str, tuple[dict[str, np.ndarray], np.ndarray]],
    usual: dict[str, Any],
    draws: int,
) -> Row:
    results = [result for entry in entries for result in entry.results]
    cells = {}
    for metric in metrics:
        values = np.array([entry.value(metric) for entry in entries])
        low = high = None
        if metric in tables:
            interval = class_bootstrap_interval(tables[metric][0][label], tables[metric][1], draws=draws)
            low, high = interval.low, interval.high
        seeds = t_interval(values) if np.isfinite(values).all() else None
        spread = None if seeds is None else float(values.std(ddof=1))
        differs = _in_words(results[0].signatures[metric]["representation"], usual)
        within = (None, None) if seeds is None else (seeds.low, seeds.high)
        cells[metric] = Cell(float(values.mean()), low, high, spread, differs, *within)
    warnings = []
    if any(result.summary["collapsed"] for result in results):
        warnings.append("the embedding collapsed")
    idle = sum(result.summary["idle_batches"] for result in results)
    if idle:
        warnings.append(f"{idle} batch{'' if idle == 1 else 'es'} without an active tuple")
    return Row(
        label,
        results[0].summary["step"] > 0,
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
        test_set=test_set,
        best_on_test=best_on_test(entries),
    )


def _by_test_set(found: dict[str, list[Entry]]) -> dict[str, dict[str, list[Entry]]]:
    """The rows of each test set, by its name: a study may vary its data or protocol."""
    sets: dict[str, tuple[str, dict[str, list[Entry]]]] = {}
    for label, entries in found.items():
        spec = entries[0].run.spec
        same = f"{spec.data_digest} {spec.protocol}"
        name = spec.data.name if not sets else f"{spec.data.name} ({len(sets) + 1})"
        sets.setdefault(same, (name, {}))[1][label] = entries
    return dict(sets.values())


def _one_definition(metric: str, found: dict[str, list[Entry]]) -> dict[str, Any]:
    """The definition all figures of a column share; a column with two is refused."""
    definitions = {
        f"{label}, seed {entry.seed},": json.dumps(result.signatures[metric]["definition"], sort_keys=True)
        for label, entries in found.items()
        for entry in entries
        for result in entry.results
    }
    if len(set(definitions.values())) > 1:
        common = Counter(definitions.values()).most_common(1)[0][0]
        odd = next(label for label, text in definitions.items() if text != common)
        raise BadInput(
            f"'{metric}' of {odd} was computed in another way than that of the others ({definitions[odd]} against "
            f"{common}); they cannot share a column. Measure again with `levelfield compare`."
        )
    definition: dict[str, Any] = json.loads(next(iter(definitions.values())))
    return definition


def _in_words(own: dict[str, Any], usual: dict[str, Any]) -> str:
    """In what a representation is not the usual one.

    >>> _in_words({"dim": 2048, "bits": 1, "ensemble": 4}, {"dim": 64, "bits": 32, "ensemble": 1})
    '2048 bits, ensemble 4'
    """
    differs = {key: value for key, value in own.items() if usual[key] != value}
    if differs.get("bits") == 1:
        differs = {"bits": own["dim"], **{key: value for key, value in differs.items() if key not in ("dim", "bits")}}
    words = {"dim": "{}-d", "bits": "{} bits"}
    return ", ".join(words.get(key, key + " {}").format(value) for key, value in differs.items())


def _usual_representation(found: dict[str, list[Entry]], metric: str) -> dict[str, Any]:
    texts = Counter(json.dumps(entries[0].first.signatures[metric]["representation"]) for entries in found.values())
    usual: dict[str, Any] = json.loads(texts.most_common(1)[0][0])
    return usual


def _has_queries(found: dict[str, list[Entry]], metric: str) -> bool:
    return all(entry.has_queries(metric) for entries in found.values() for entry in entries)


def _class_table(
    found: dict[str, list[Entry]], metric: str
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Class means [seeds, classes] of every row, and the number of queries of each class."""
    table: dict[str, np.ndarray] = {}
    weights: np.ndarray = np.zeros(0)
    for label, entries in found.items():
        means = []
        for entry in entries:
            own, weights = entry.class_means(metric)
            means.append(own)
        table[label] = np.stack(means)
    return table, weights


def _comparisons(
    found: dict[str, list[Entry]],
    rows: list[Row],
    table: dict[str, np.ndarray],
    weights: np.ndarray,
    draws: int,
) -> list[Comparison]:
    """All pairs over the seeds that all have finished. A row that no seed changes is compared with every seed; if no
    seed is shared at all, the rows' means over their own seeds are compared."""
    seeded = [row for row in rows if found[row.label][0].run.seeded]
    shared = sorted(set.intersection(*(set(row.seeds) for row in seeded))) if seeded else []
    cut = {}
    for row in rows:
        values = table[row.label]
        if row in seeded:
            values = values[[row.seeds.index(s) for s in shared]] if shared else values.mean(0, keepdims=True)
        cut[row.label] = values
    runs = {label: values @ weights / weights.sum() for label, values in cut.items()}  # one figure per seed
    compared = []
    for one in compare_all(cut, weights, draws=draws):
        differences = runs[one.first] - runs[one.second] if shared else np.zeros(0)
        compared.append(replace(one, p_seeds=paired_t(differences), seeds=seeds_needed(differences)))
    return compared


def _corrected(comparisons: list[Comparison]) -> list[Comparison]:
    """Holm's correction over all pairs of a leaderboard: of the test over classes, and of that over seeds."""
    over_classes = holm([one.p for one in comparisons])
    known = [k for k, one in enumerate(comparisons) if one.p_seeds is not None]
    over_seeds = dict(zip(known, holm([one.p_seeds for one in comparisons if one.p_seeds is not None]), strict=True))
    return [
        replace(one, adjusted=p, adjusted_seeds=over_seeds.get(k))
        for k, (one, p) in enumerate(zip(comparisons, over_classes, strict=True))
    ]


def _tied_with(label: str, comparisons: list[Comparison]) -> set[str]:
    tied = {label}
    for c in comparisons:
        if label in (c.first, c.second) and not c.real():
            tied |= {c.first, c.second}
    return tied
