"""Compact letters against the pairs they stand for."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from levelfield.reports.page.sections.standings import letter_groups

ROWS = ["a", "b", "c", "d", "e", "f"]
PAIRS = list(combinations(ROWS, 2))


@given(st.sets(st.sampled_from(PAIRS)))
def test_two_rows_share_a_letter_exactly_if_they_cannot_be_told_apart(different: set[tuple[str, str]]) -> None:
    letters = letter_groups(ROWS, different)
    for first, second in PAIRS:
        shared = set(letters[first]) & set(letters[second])
        assert bool(shared) == ((first, second) not in different)


def test_the_best_row_has_the_first_letter() -> None:
    assert letter_groups(["z", "y", "x"], [("z", "x"), ("y", "x")]) == {"z": "a", "y": "a", "x": "b"}


def test_too_many_sets_give_no_letters() -> None:
    rows = [f"{number}" for number in range(20)]
    pairs = [(rows[k], rows[k + 1]) for k in range(0, 20, 2)]  # 2^10 sets
    assert set(letter_groups(rows, pairs).values()) == {""}


def test_no_rows_have_no_letters() -> None:
    assert letter_groups([], []) == {}
