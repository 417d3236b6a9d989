"""A refinement with its settings: from a study, from the command line, and as a part of a method."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from levelfield import methods
from levelfield.errors import BadSpecification, LevelfieldError
from levelfield.methods import Setting
from levelfield.methods.refine.choice import Refinement
from levelfield.methods.refine.passing import refine, settings_of, ways
from levelfield.progress import CallbackProgress
from levelfield.randomness import numpy_stream

ROWS = numpy_stream(0, "refinement").standard_normal((30, 6)).astype(np.float32)


def made(**settings: Any) -> methods.Method:
    return methods.create("message_passing", num_classes=3, dim=6, **settings)


@pytest.mark.parametrize("by", ways())
def test_both_forms_say_the_same(by: str) -> None:
    name, usual = next(iter(settings_of(by).items()))
    assert Refinement.parse(f"{by}:{name}={usual}") == Refinement.of({"by": by, name: usual})
    assert Refinement.parse(by) == Refinement.of(by) == Refinement(by)
    assert "rows" not in settings_of(by)


def test_words_and_truths_are_read_from_the_command_line() -> None:
    assert Refinement.parse("dbscan:noise=alone:eps=0.5").settings == {"noise": "alone", "eps": 0.5}
    assert Refinement.parse("reciprocal:strict=true").settings == {"strict": True}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("reciprocl", "Did you mean 'reciprocal'"),
        ("nearest:sise=4", "no setting 'sise'. Did you mean 'size'"),
        ("nearest:rows=4", "no setting 'rows'"),
        ("nearest:size", "'size' in 'nearest:size' is not a setting"),
        ("nearest:size=big", "'size' is 'big'"),
        ("reciprocal:strict=1", "'strict' is 1"),
        ("dbscan:noise=3", "'noise' is 3"),
        ("birch:threshold=low", "'threshold' is 'low'"),
    ],
)
def test_what_is_wrong_is_named(text: str, message: str) -> None:
    with pytest.raises(LevelfieldError, match=message):
        Refinement.parse(text)


@pytest.mark.parametrize("said", [True, 3, {"size": 5}, ["nearest"]])
def test_a_study_must_name_a_way(said: Any) -> None:
    with pytest.raises(BadSpecification, match="use one of"):
        made(refine=said)


def test_a_method_refines_as_it_was_told() -> None:
    said = {"by": "nearest", "size": 3, "chunks": 2}
    method, plain = made(refine=said), made()
    np.testing.assert_array_equal(method.refine(ROWS), refine(method.objective, ROWS, **said))
    assert plain.refine(ROWS) is ROWS
    assert method.deviations(Setting(6, 16))["refined"] == "nearest size=3 chunks=2"
    assert made(refine=False).refinement is None


def test_wider_rows_are_declared() -> None:
    method = made(refine="reciprocal", steps=2, concat_steps=True)
    assert method.deviations(Setting(6, 16))["dim"] == 12 == method.refine(ROWS).shape[1]


def test_only_messages_refine() -> None:
    with pytest.raises(BadSpecification, match="needs the objective 'message_passing'"):
        methods.create("softmax", num_classes=3, dim=6, refine="reciprocal")
    with pytest.raises(BadSpecification, match="message-passing network is not trained"):
        made(message_weight=0, refine="reciprocal")


def test_progress_counts_groups() -> None:
    told: list[tuple[int, int]] = []
    progress = CallbackProgress(lambda _, done, total: told.append((done, total)))
    Refinement("nearest", {"chunks": 2, "size": 3})(made().objective, ROWS, progress=progress)
    assert told[-1] == (15, 15)
