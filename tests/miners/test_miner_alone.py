"""A miner in a user's own loop: plain embeddings and labels are enough, and invalid input is named."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch

from levelfield import miners
from levelfield.errors import BadInput
from levelfield.geometry import Geometry
from levelfield.randomness import stream

LABELS = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2, 3])


def rows() -> torch.Tensor:
    return 3 * torch.randn(10, 4, generator=stream(3, "rows"))


def listed(found: miners.Tuples) -> list[Any]:
    return found.tolist() if isinstance(found, torch.Tensor) else [part.tolist() for part in found]


@pytest.mark.parametrize("name", miners.names())
def test_plain_embeddings_are_compared_as_unit_rows(name: str) -> None:
    miner, embeddings = miners.create(name), rows()
    alone = miner(embeddings.requires_grad_(), LABELS, generator=stream(0, "same"))
    by_geometry = miner(Geometry(embeddings.detach(), normalize=True), LABELS, generator=stream(0, "same"))
    assert listed(alone) == listed(by_geometry)
    assert len(listed(alone)) > 0


@pytest.mark.parametrize("name", [name for name in miners.names() if miners.describe(name).random])
def test_without_a_generator_calls_differ_scripts_repeat_and_nothing_global_is_drawn(name: str) -> None:
    random.seed(0)
    before = torch.get_rng_state(), str(np.random.get_state(legacy=False)), random.getstate()  # noqa: NPY002
    first, second = ([listed(miner(rows(), LABELS)) for _ in range(4)] for miner in map(miners.create, (name, name)))
    assert first == second
    assert any(call != first[0] for call in first)
    after = torch.get_rng_state(), str(np.random.get_state(legacy=False)), random.getstate()  # noqa: NPY002
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]


def test_raw_distances_are_asked_for_by_a_geometry() -> None:
    embeddings, labels = torch.tensor([[1.0, 0.0], [0.0, 1.0], [9.0, 0.0], [0.0, 2.0]]), torch.tensor([0, 0, 1, 2])
    assert listed(miners.create("batch_hard")(embeddings, labels))[0] == [0, 1, 2]  # of the same direction
    assert listed(miners.create("batch_hard")(Geometry(embeddings, normalize=False), labels))[0] == [0, 1, 3]  # nearer


def test_half_precision_and_autocast_give_the_tuples_of_float32() -> None:
    embeddings, miner = rows().bfloat16(), miners.create("semihard", mode="closest")
    exact = miner(embeddings.float(), LABELS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert listed(miner(embeddings, LABELS)) == listed(exact)


@pytest.mark.parametrize(
    ("embeddings", "labels", "said"),
    [
        (rows(), LABELS[:7], "10 embeddings but 7 labels"),
        (rows(), LABELS.float(), r"labels of type torch\.float32; they must be integers"),
        (rows().long(), LABELS, r"torch\.int64.*floating-point rows"),
        (rows()[0], LABELS, r"shape \(4,\)"),
        (rows().numpy(), LABELS, "a value of type ndarray as embeddings"),
        (rows(), LABELS.tolist(), "a list of 10 as labels"),
        (rows().masked_fill(torch.arange(10)[:, None] == 6, torch.nan), LABELS, "row is 6"),
        (Geometry(rows(), normalize=True), LABELS[:7], "10 embeddings but 7 labels"),
        (Geometry(rows(), rows().flip(0), normalize=True), LABELS, "the first columns must be the rows"),
    ],
)
def test_wrong_input_is_named(embeddings: Any, labels: Any, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        miners.create("semihard")(embeddings, labels)


def test_a_seed_is_no_generator() -> None:
    with pytest.raises(BadInput, match=r"type int as generator; it must be a torch\.Generator"):
        miners.create("random")(rows(), LABELS, generator=0)  # type: ignore[arg-type]


LISTED: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in miners.names() if not miners.describe(name).random),
    *(("semihard", how) for how in ({"mode": "closest"}, {"mode": "all"}, {"mode": "all", "margin": None})),
]


@pytest.mark.parametrize(("name", "settings"), LISTED, ids=str)
def test_with_columns_the_rows_alone_are_anchors(name: str, settings: dict[str, Any]) -> None:
    columns, anchors, miner = rows().double(), 6, miners.create(name, **settings)
    alone = miner(Geometry(columns[:anchors], columns, normalize=True), LABELS)
    every = miner(columns, LABELS)
    parts = zip(*(found if isinstance(found, tuple) else (found,) for found in (alone, every)), strict=True)
    for some, all_of_them in parts:
        assert some.tolist() == [indices for indices in all_of_them.tolist() if indices[0] < anchors]


@pytest.mark.parametrize("name", ["semihard", "softhard", "distance_weighted", "random", "n_pair"])
def test_with_columns_a_miner_draws_what_it_draws_for_the_anchor_in_a_batch(name: str) -> None:
    columns, anchors, miner = rows().double(), 4, miners.create(name)
    seen = torch.zeros(2, anchors, 10)
    for which, geometry in enumerate(
        (Geometry(columns[:anchors], columns, normalize=True), Geometry(columns, normalize=True))
    ):
        generator = stream(0, "draws")
        for _ in range(300):
            found = miner(geometry, LABELS, generator=generator)
            found = found[found[:, 0] < anchors]
            assert found[:, 0].tolist() == [0, 1, 2, 3]
            if found.shape[1] == 3:
                assert (LABELS[found[:, 2]] != LABELS[found[:, 0]]).all()
            seen[which, found[:, 0], found[:, -1]] += 1
    torch.testing.assert_close(seen[0] / 300, seen[1] / 300, atol=0.16, rtol=0)  # 4 standard errors of 300 draws


def test_with_columns_a_switch_stays_in_the_class_of_the_anchor() -> None:
    columns = rows()
    miner = miners.create("distance_weighted", switch=1.0)
    found = listed(miner(Geometry(columns[:4], columns, normalize=True), LABELS))
    assert [(a, p) for a, p, _ in found] == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert all(LABELS[a] == LABELS[n] and a != n for a, _, n in found)
