"""The record of a search in a study file: what does not fit together is refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from levelfield.studies.specification.tuning import TunedMethod

RIGHT: dict[str, Any] = {
    "trial": 1,
    "values": [0.5, 0.6, None],
    "ranges": {"margin": [0.1, 1, "log"], "squared": [False, True]},
    "settings": [{}, {"margin": 0.2, "squared": True}, {"margin": 1.0, "squared": False}],
}


def test_a_record_as_the_search_writes_it_is_read() -> None:
    assert TunedMethod.model_validate(RIGHT).complete == [0.5, 0.6]
    assert TunedMethod.model_validate({"values": [0.5, 0.6]}).trial is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"values": [0.5, float("nan"), None]}, "not a finite number"),
        ({"seconds": float("inf")}, "not a finite number"),
        ({"values": [0.5] * 30}, "3 settings for 30 values"),
        ({"settings": []}, "0 settings for 3 values"),
        ({"trial": 3}, "a trial number is not below 3"),
        ({"pruned": [-1]}, "a trial number is not below 3"),
        ({"ranges": {"margin": [1, 0.1, "log"]}}, "is reversed"),
        ({"settings": [{}, {"margin": "wide"}, {}]}, "'margin' of trial 1 is 'wide', outside 0.1 to 1"),
        ({"settings": [{}, {"margin": -3}, {}]}, "'margin' of trial 1 is -3"),
        ({"settings": [{}, {"squared": "maybe"}, {}]}, "'squared' of trial 1"),
    ],
)
def test_a_record_that_does_not_fit_together_is_refused(change: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        TunedMethod.model_validate({**RIGHT, **change})
