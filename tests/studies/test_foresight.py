"""Detectable difference of a plan, before training."""

from __future__ import annotations

import re

from levelfield.studies.planning.foresight import foresee, sentence
from levelfield.studies.planning.plan import plan
from levelfield.studies.specification.study import parse_study


def test_a_plan_knows_its_test_classes_seeds_and_pairs() -> None:
    study = parse_study({"data": "emoji", "methods": ["margin", "triplet", "lda"], "seeds": 4})
    told = foresee(plan(study))
    assert told.startswith("774 test classes, 4 seeds, 3 pairs of rows: smallest detectable difference about 0.0")


def test_more_of_anything_finds_smaller_differences() -> None:
    def size(*counts: int) -> float:
        found = re.search(r"about ([\d.]+) \(", sentence(*counts))
        assert found is not None
        return float(found[1])

    assert size(20, 3, 45) > size(100, 3, 45) > size(774, 3, 45)
    assert size(50, 3, 45) > size(50, 3, 1)
    assert size(20_000, 3, 45) > size(20_000, 10, 45)


def test_it_says_when_nothing_could_be_found_and_when_training_again_is_not_tried() -> None:
    assert "too few to establish any difference" in sentence(3, 5, 10)
    assert "these runs" in sentence(50, 1, 10)
    assert sentence(50, 1, 0) == ""
