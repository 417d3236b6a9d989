"""All pairs of one table."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy.typing as npt

from levelfield.evaluation.statistics.comparisons import Comparison, joint
from levelfield.evaluation.statistics.crossed import Table


def compare_all(
    rows: Mapping[str, npt.ArrayLike], queries: npt.ArrayLike, *, fixed: Collection[str] = ()
) -> list[Comparison]:
    return joint([Table.of(rows, queries, fixed=fixed).differences()])
