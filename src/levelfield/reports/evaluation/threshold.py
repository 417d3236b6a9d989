"""A similarity threshold for "same class": chosen on other classes, tested on the test classes."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.console import Console

from levelfield.evaluation import Rate, Rates, Threshold, Unknowns, same_or_not
from levelfield.files.writing import finite
from levelfield.progress import SILENT, Progress
from levelfield.reports.evaluation.embedding_set import EmbeddingSet
from levelfield.reports.evaluation.scores import span
from levelfield.shipping.index.decision import unknowns_text
from levelfield.table import Table, numbers

_DECISIONS = {
    "cosine": "their cosine is {} or more",
    "dot": "their inner product is {} or more",
    "euclidean": "their distance is {} or less",
    "hamming": "at most {} bits differ",
}
_GOALS = {"equal_error": "equal rates of both errors", "balanced": "the smallest mean of both errors"}


@dataclass(frozen=True)
class TestedThreshold:
    """A threshold, its error rates on the test classes, and how often it matches images of unknown classes."""

    threshold: Threshold
    rates: Rates
    unknowns: Unknowns
    chosen_on: str = "validation"

    def as_data(self) -> dict[str, Any]:
        """The threshold as plain data, with None for NaN."""
        facts = ("value", "interval", "level", "rule", "distance", "dim")
        data: dict[str, Any] = {name: getattr(self.threshold, name) for name in facts}
        data |= {"chosen_on": self.chosen_on, "signature": self.threshold.signature}
        data["rates"] = {self.chosen_on: asdict(self.threshold.validation), "test": asdict(self.rates)}
        return dict(finite({**data, "unknowns": asdict(self.unknowns)}))

    def show(self, console: Console, *, signatures: bool = False) -> None:
        """Print the decision, the error rates and the rate of matched unknowns."""
        for sentence in self._sentences():
            console.print(sentence, soft_wrap=True)
        columns = numbers("false matches\n(different, called the same)", "false non-matches\n(same, called different)")
        named = ((self.chosen_on, self.threshold.validation), ("test", self.rates))
        rows = [[name, _rate(rates.false_match), _rate(rates.false_non_match)] for name, rates in named]
        Table(["classes", *columns], rows).show(console)
        console.print(unknowns_text(finite(asdict(self.unknowns)), level=self.threshold.level), soft_wrap=True)
        if signatures:
            console.print(self.threshold.signature, soft_wrap=True)

    def _sentences(self) -> list[str]:
        threshold, chosen, rates = self.threshold, self.threshold.validation, self.rates
        digits = 0 if threshold.distance == "hamming" else 4
        known = not math.isnan(threshold.interval[0])
        interval = f" ({100 * threshold.level:g} %: {span(*threshold.interval, digits)})" if known else ""
        name, _, limit = threshold.rule.partition("<=")
        goal = f"a rate of false matches of at most {100 * float(limit):g} %" if limit else _GOALS[name]
        decision = _DECISIONS[threshold.distance].format(f"{threshold.value:.{digits}f}")
        sentences = [
            f"Two images are of the same class if {decision}{interval}.",
            f"Chosen for {goal} on {chosen.classes:,} {self.chosen_on} classes "
            f"({chosen.images:,} images), tested on {rates.classes:,} test classes ({rates.images:,} images).",
        ]
        if self.chosen_on == "training":
            sentences.append(
                "DEVIATION: the network was trained on the classes that chose this threshold and separates them "
                "better than other classes. Trust only the rates on the test classes."
            )
        return sentences


def choose_threshold(
    embeddings: EmbeddingSet,
    chooser: tuple[np.ndarray, np.ndarray],
    *,
    chosen_on: str = "validation",
    rule: str | dict[str, float] = "equal_error",
    distance: str = "cosine",
    dim: int | None = None,
    ci: float | None = 0.95,
    progress: Progress = SILENT,
) -> TestedThreshold:
    """Choose a threshold on other classes, as `levelfield.evaluation.same_or_not` does, and test it on `embeddings`.

    chooser: embeddings and labels of the other classes. chosen_on: "validation" or "training" classes.
    """
    threshold = same_or_not(*chooser, distance=distance, rule=rule, dim=dim, ci=ci, progress=progress)
    rows, labels = embeddings.rows, embeddings.labels
    rates = threshold.rates(rows, labels, ci=ci, progress=progress)
    gallery = {name: embeddings.arrays[name] for name in ("gallery", "gallery_labels") if name in embeddings.arrays}
    unknowns = threshold.unknowns(rows, labels, **gallery, ci=ci, progress=progress)
    return TestedThreshold(threshold, rates, unknowns, chosen_on)


def _rate(rate: Rate) -> str:
    interval = "" if math.isnan(rate.low) else f" ({100 * rate.low:.3g} to {100 * rate.high:.3g})"
    return f"{100 * rate.value:.3g} %{interval}\n{rate.errors:,} of {rate.pairs:,}"
