"""What most papers report: the best figure of the test classes while a run trained, beside the honest one.

Papers that measure on the test classes after each epoch and keep the best have chosen by the test classes. A run with
`monitor: test` writes those figures down; here they are read. Nothing is chosen by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from levelfield.studies.entries import Entry


@dataclass(frozen=True)
class BestOnTest:
    """Means over runs: the best figure on the test classes while each trained, and the figure of the run itself.

    steps: where the best was, for each run. A method that refines at test time is monitored without that.
    """

    metric: str
    best: float
    honest: float
    gap: float
    steps: list[int]
    refined: bool = False

    @property
    def text(self) -> str:
        """In one line.

        >>> BestOnTest("recall@1", 0.712, 0.705, 0.007, [300]).text
        'best test score during training: 0.712 at step 300 (not used for selection); reported: 0.705, gap 0.007'
        """
        where = f"step{'s' if len(set(self.steps)) > 1 else ''} {', '.join(map(str, dict.fromkeys(self.steps)))}"
        told = f"best test score during training: {self.best:.3f} at {where} (not used for selection)"
        refined = " (monitored without the refinement at test time)" if self.refined else ""
        return f"{told}; reported: {self.honest:.3f}, gap {self.gap:.3f}{refined}"


def best_on_test(entries: Sequence[Entry]) -> BestOnTest | None:
    """Of a row; None unless all its runs were monitored."""
    results = [result for entry in entries for result in entry.results]
    watched: list[list[dict[str, Any]]] = [result.summary.get("monitored") or [] for result in results]
    if not all(watched):
        return None
    metric = watched[0][0]["metric"]
    # the first of equals: with patience nobody would have gone on
    best = [max(seen, key=lambda entry: (entry["test"], -entry["step"])) for seen in watched]
    highest = float(np.mean([entry["test"] for entry in best]))
    honest = float(np.mean([result.values[metric] for result in results]))
    shown = [result.signatures[metric]["representation"] for result in results]
    refined = any(each.get("refined", "none") != "none" for each in shown)
    return BestOnTest(metric, highest, honest, highest - honest, [entry["step"] for entry in best], refined)
