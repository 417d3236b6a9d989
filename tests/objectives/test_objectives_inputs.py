"""Inputs of a call: refusals, and support of any memory layout."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from levelfield import objectives
from levelfield.errors import BadInput
from levelfield.testing import CLASSES, DIM, ordinary

ROWS, LABELS = ordinary()
TRIPLET, PAIR = torch.tensor([[0, 2, 1]]), torch.tensor([[0, 2]])
WITH_TUPLES = {*("angular", "contrastive", "margin", "multi_similarity", "n_pair", "quadruplet", "snr", "triplet")}


def create(name: str, **settings: Any) -> objectives.Objective:
    return objectives.create(name, num_classes=CLASSES, dim=DIM, **settings)


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"embeddings": ROWS.numpy()}, "type ndarray as embeddings"),
        ({"labels": LABELS.tolist()}, "a list of 12 as labels; use tensors"),
        ({"embeddings": ROWS.long()}, r"\(torch.int64\).*floating-point rows"),
        ({"labels": LABELS[:, None]}, r"labels of shape \(12, 1\)"),
        ({"labels": LABELS[:-1]}, "12 embeddings but 11 labels"),
        ({"labels": LABELS.float()}, "labels of type torch.float32"),
        ({"tuples": [[0, 2, 1]]}, "a list of 1 as tuples.*triplets"),
        ({"tuples": tuple(TRIPLET.T)}, r"a tuple of 3 as tuples.*torch.stack\(\(a, p, n\), 1\)"),
        ({"tuples": torch.tensor([[0, 2, 12]])}, "row 12 in the tuples; the batch has rows 0 to 11"),
        ({"tuples": torch.tensor([[0, -1, 1]])}, "row -1 in the tuples"),
        ({"tuples": TRIPLET.double()}, "indices into the batch, not torch.float64"),
        ({"tuples": (PAIR, TRIPLET)}, r"pairs of shape \(1, 3\)"),
        ({"tuples": (PAIR, PAIR + 10)}, "row 12 in the tuples"),
        ({"weights": [1.0] * 12}, "a list of 12 as weights"),
        ({"weights": torch.ones(3)}, r"shape \(3,\) as weights for 12 embeddings"),
        ({"generator": 3}, "type int as generator"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        create("contrastive")(**{"embeddings": ROWS, "labels": LABELS, **arguments})


@pytest.mark.parametrize("name", objectives.names())
def test_tuples_are_used_or_refused_never_ignored(name: str) -> None:
    assert (objectives.describe(name).tuples != "none") is (name in WITH_TUPLES)
    if name not in WITH_TUPLES:
        with pytest.raises(BadInput, match=f"'{name}' takes no tuples"):
            create(name)(ROWS, LABELS, tuples=TRIPLET)


@pytest.mark.parametrize("name", [name for name in objectives.names() if list(create(name).parameters())])
def test_rows_of_another_width_than_the_class_vectors_are_refused(name: str) -> None:
    if name == "margin":  # its parameter is a boundary
        assert create(name)(ROWS[:, :3], LABELS).isfinite()
        return
    with pytest.raises(BadInput, match=f"'{name}' was created with dim=8 but got embeddings with 3 dimensions"):
        create(name)(ROWS[:, :3], LABELS)


def test_rows_that_a_role_names_must_be_there() -> None:
    with pytest.raises(BadInput, match="'prototypical' got row 99 in the query"):
        create("prototypical")(ROWS, LABELS, roles={"support": [0, 1], "query": [99]})
    with pytest.raises(BadInput, match="'group_loss' got row 99 in the anchors"):
        create("group_loss")(ROWS, LABELS, roles={"anchors": [99]})


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", objectives.names())
def test_it_does_not_matter_how_the_batch_lies_in_memory(name: str) -> None:
    wide, twice = torch.zeros(24, 16), torch.stack((LABELS, LABELS), 1)
    wide[::2, ::2] = ROWS
    spread = wide[::2, ::2].requires_grad_()
    for labels in (twice[:, 0], LABELS.to(torch.int16)):
        found = create(name)(spread, labels, generator=seeded())
        found.backward()
        torch.testing.assert_close(found, create(name)(ROWS, LABELS, generator=seeded()))


def test_weights_take_the_type_of_the_rows() -> None:
    plain = create("triplet", miner="all")(ROWS, LABELS)
    for dtype in (torch.float64, torch.int64, torch.bool):
        weighted = create("triplet", miner="all")(ROWS, LABELS, weights=torch.ones(12, dtype=dtype))
        torch.testing.assert_close(weighted, plain)


def test_a_fourth_sample_may_be_missing_but_no_other() -> None:
    quadruplet = create("quadruplet")
    assert quadruplet(ROWS, LABELS, tuples=torch.tensor([[0, 2, 1, -1]])).isfinite()
    with pytest.raises(BadInput, match="row -2"):
        quadruplet(ROWS, LABELS, tuples=torch.tensor([[0, 2, 1, -2]]))
