"""Contradictory conditions are refused with the setting to use instead."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from training_world import conditions

from levelfield.errors import BadSpecification
from levelfield.training import Conditions


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"views": 0}, "views: 0.*cannot be cached: set cache: false"),
        ({"crop": 0.001}, r"crop: 0\.001 of images of 32 pixels: it must be at least 0\.00781"),
        ({"views": 3}, "views > 1 without augmentation.*set augment: light"),
        ({"schedule": "plateau"}, "plateau needs validation: set select"),
        ({"accumulate": 4}, "accumulate: 4 does not divide the batch of 6"),
        ({"processes": 5}, r"processes: 5 does not divide the batch of 6 \(3x2\).* is 6"),
        ({"cut": "last-0"}, "unknown cut 'last-0': use frozen, last-1"),
        ({"batch": "3 by 2"}, "is not a batch"),
        ({"lr": 0.0}, "greater than 0"),
        ({"lr": float("inf")}, "finite number"),
        ({"dropout": 1.0}, "less than 1"),
        ({"steps": 0}, "greater than or equal to 1"),
        ({"clip": 0.0}, "greater than 0"),
        ({"optimiser": "lion"}, "'adam', 'adamw', 'rmsprop', 'sgd' or 'radam'"),
        ({"learning_rate": 0.1}, "learning_rate"),
        ({"image": 227, "test_view": [{"resize": 256}, {"centre": 224}]}, "ends with 224 pixels, but image is 227"),
        ({"test_view": [{"resized_crop": 32}]}, "must not be random"),
        ({"train_view": [{"resized_crop": 32}], "augment": "light"}, "leave augment out"),
        ({"test_view": [{"resize": 40}, {"centre": 32}], "crop": 0.9}, "leave crop out"),
        ({"train_view": [{"resize": 40}, {"centre": 32}], "views": 4}, "gives equal views"),
        ({"train_view": [{"centrum": 32}]}, "Unknown step of a view 'centrum'"),
        ({"train_view": "standard"}, "expected a list of steps"),
    ],
)
def test_a_condition_that_makes_no_sense_is_refused(wrong, words):
    with pytest.raises((ValidationError, BadSpecification), match=words):
        conditions(**wrong)


@pytest.mark.parametrize(
    "right",
    [
        {"views": 0, "cache": False, "augment": "light"},
        {"views": 0, "cut": "tuned", "augment": "light"},
        {"views": 4, "augment": "standard"},
        {"schedule": "plateau", "select": "map@r"},
        {"accumulate": 3},
        {"cut": "last-12"},
    ],
)
def test_conditions_that_fit_together_are_accepted_and_survive_a_round_trip(right):
    chosen = conditions(**right)
    assert Conditions.model_validate_json(chosen.model_dump_json()) == chosen


@pytest.mark.parametrize(("written", "size", "name"), [("3x2", 6, "spc"), (" 3 * 2 ", 6, "spc"), (60, 60, "random")])
def test_a_batch_may_be_written_in_any_usual_way(written, size, name):
    chosen = conditions(batch=written)
    assert (chosen.layout.batch_size, chosen.layout.batching) == (size, name)
    assert conditions(batch=chosen.batch) == chosen


def test_views_by_name_are_written_in_full():
    test = [{"resize": 256}, {"centre": 227}]
    result = Conditions(image=227, train_view=[{"resized_crop": 227}, "flip"], test_view=test)
    assert result.train_view == ({"resized_crop": {"size": 227}}, {"flip": {}})
    assert Conditions.model_validate_json(result.model_dump_json()) == result
