"""Names of metrics and their forms, and the definitions that figures of one column share."""

from __future__ import annotations

import re

import numpy as np
import pytest

from levelfield.errors import BadSpecification, UnknownName
from levelfield.evaluation import Signature, evaluate, parse, split


@pytest.mark.parametrize(
    ("name", "form", "numbers"),
    [
        ("rho", "forward", {"drop": 0}),
        ("rho[drop=1]", "forward", {"drop": 1}),
        ("rho[reverse]", "reverse", {"drop": 0}),
        ("rho[drop=9,reverse]", "reverse", {"drop": 9}),
        ("rho[ reverse , drop = 9 ]", "reverse", {"drop": 9}),
        ("alignment[alpha=0.5]", None, {"alpha": 0.5}),
        ("uniformity[t=1e1]", None, {"t": 10}),
        ("map@c[released]", "released", {}),
        ("map@7[equation]", "equation", {}),
    ],
)
def test_a_form_is_a_choice_and_numbers(name, form, numbers):
    found = parse(name)
    assert (found.name, found.form, found.numbers) == (name, form, numbers)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rho[drp=1]", "Unknown form of metric 'rho' 'drp=1'. Did you mean 'drop=1'?"),
        ("rho[revers]", "Unknown form of metric 'rho' 'revers'. Did you mean 'reverse'?"),
        ("rho[drop]", "Unknown form of metric 'rho' 'drop'. Did you mean 'drop=0'?"),
        ("rho[reverse=1]", "Unknown form of metric 'rho' 'reverse=1'."),
        ("alignment[2]", "Unknown form of metric 'alignment' '2'. There are: alpha=2."),
        ("rhoo", "Unknown metric 'rhoo'. Did you mean 'rho'?"),
        ("recall@²", "Unknown metric 'recall@²'. Did you mean 'recall@1'?"),
        ("uniformty[t=2]", "Did you mean 'uniformity'?"),
        ("rho[drop=-1]", "Metric 'rho[drop=-1]': drop=-1: expected an integer from 0."),
        ("rho[drop=1.5]", "drop=1.5: expected an integer from 0."),
        ("rho[drop=]", "drop=: expected an integer from 0."),
        ("rho[drop=inf]", "drop=inf: expected an integer from 0."),
        ("alignment[alpha=0]", "alpha=0: expected a number above 0."),
        ("alignment[alpha=nan]", "alpha=nan: expected a number above 0."),
        ("uniformity[t=101]", "t=101: expected a number above 0 and at most 100."),
        ("rho[drop=1,drop=2]", "names its form twice"),
        ("nmi[min,max]", "names its form twice"),
        ("density[cosine]", "Metric 'density' has only one form: use 'density' instead of 'density[cosine]'."),
    ],
)
def test_a_wrong_name_or_form_is_refused_with_the_nearest_right_one(name, text):
    with pytest.raises((BadSpecification, UnknownName), match=re.escape(text)):
        parse(name)


def test_commas_within_brackets_do_not_divide_names():
    found = split("rho[drop=1,reverse],recall@1,, map@c[released] ")
    assert found == ["rho[drop=1,reverse]", "recall@1", "map@c[released]"]
    assert split(" ") == []


ROWS = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32)
LABELS = np.repeat(np.arange(5), 4)


def signed(name: str = "recall@1", rows: np.ndarray = ROWS, labels: np.ndarray = LABELS, **settings) -> Signature:
    return evaluate(rows, labels, metrics=[name], **settings).signature(name)


def test_dimension_may_differ_within_a_column():
    assert signed().definition == signed(dim=3).definition
    assert signed() != signed(dim=3)
    shown = signed(distance="hamming").representation
    assert (shown.bits, shown.norm) == (1, "none")
    assert str(signed().declared(refined="reciprocal", ensemble=4)).endswith("|refined:reciprocal|ensemble:4")


def test_another_definition_never_shares_a_column():
    for other in (
        {"ties": "optimistic"},
        {"lone": "miss"},
        {"average": "class"},
        {"distance": "euclidean"},
        {"rows": ROWS[:16], "labels": LABELS[:16]},
        {"gallery": ROWS, "gallery_labels": LABELS},
        {"name": "recall@2"},
    ):
        assert signed().definition != signed(**other).definition, other
    assert signed("nmi").definition == signed("nmi", ties="optimistic").definition
    assert signed("nmi").definition != signed("nmi", starts=1).definition
    assert signed("nmi").definition != signed("nmi[geometric]").definition
