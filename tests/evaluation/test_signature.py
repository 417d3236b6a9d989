from __future__ import annotations

import numpy as np

from levelfield.evaluation import Signature, evaluate

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
