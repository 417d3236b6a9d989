"""Holm's correction and groups of ties."""

from __future__ import annotations

import numpy as np
import pytest
from compared import compare_all

from levelfield.evaluation.statistics.comparisons import holm, joint, ties
from levelfield.evaluation.statistics.crossed import Table


def levels(**of: float) -> dict[str, np.ndarray]:
    random = np.random.default_rng(9)
    shared = random.random((1, 200))
    return {name: shared + level + 0.05 * random.standard_normal((3, 200)) for name, level in of.items()}


def test_holm_agrees_with_its_step_down_definition_and_keeps_order() -> None:
    assert holm([0.01, 0.02, 0.03, 0.005]) == pytest.approx([0.03, 0.04, 0.04, 0.02])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_several_tables_are_corrected_together_and_for_what_is_beside() -> None:
    table = Table.of(levels(a=0.0, b=0.03), np.ones(200)).differences()
    [alone] = joint([table])
    twice = joint([table, table])
    assert [one.adjusted for one in twice] == pytest.approx([2 * alone.p] * 2)  # type: ignore[operator]
    assert joint([table], beside=[0.9])[0].adjusted == pytest.approx(2 * alone.p)  # type: ignore[operator]


def test_identical_methods_stay_a_tie_beside_many_others() -> None:
    random = np.random.default_rng(1)
    rows = {str(i): random.random((3, 37)) for i in range(7)}
    rows["twin"] = rows["3"]
    found = compare_all(rows, random.integers(2, 9, 37))
    twin = next(one for one in found if (one.first, one.second) == ("3", "twin"))
    assert (twin.difference, twin.p, twin.winner) == (0.0, None, None)


def test_groups_hold_what_ties_with_their_best() -> None:
    groups = ties(compare_all(levels(worst=0.0, second=0.2, best=0.201), np.ones(200)))
    assert [sorted(group) for group in groups] == [["best", "second"], ["worst"]]
    assert ties([]) == []
