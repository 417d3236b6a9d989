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


def test_laws_can_be_asked_with_plain_embeddings() -> None:
    law = miners.create("softhard").probabilities(rows(), LABELS)  # type: ignore[attr-defined]
    assert law["negative"].sum(1).tolist() == pytest.approx([1.0] * 9 + [0.0])


def test_raw_distances_are_asked_for_by_a_geometry() -> None:
    embeddings, labels = torch.tensor([[1.0, 0.0], [0.0, 1.0], [9.0, 0.0], [0.0, 2.0]]), torch.tensor([0, 0, 1, 2])
    assert listed(miners.create("batch_hard")(embeddings, labels))[0] == [0, 1, 2]  # of the same direction
    assert listed(miners.create("batch_hard")(Geometry(embeddings, normalize=False), labels))[0] == [0, 1, 3]  # nearer


def test_half_precision_and_autocast_give_the_tuples_of_float32() -> None:
    embeddings, miner = rows().bfloat16(), miners.create("semihard", mode="closest")
    exact = miner(embeddings.float(), LABELS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert listed(miner(embeddings, LABELS)) == listed(exact)


def test_a_miner_of_pml_gives_what_pml_gives() -> None:
    pml = pytest.importorskip("pytorch_metric_learning.miners")
    embeddings = rows()
    expected = torch.stack(pml.TripletMarginMiner(margin=0.2)(embeddings, LABELS), 1)
    assert listed(miners.create("pml:TripletMarginMiner", margin=0.2)(embeddings, LABELS)) == expected.tolist()


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


@pytest.mark.parametrize("name", [name for name in miners.names() if not miners.describe(name).random])
def test_with_columns_the_rows_alone_are_anchors(name: str) -> None:
    columns, anchors = rows().double(), 6
    alone = miners.create(name)(Geometry(columns[:anchors], columns, normalize=True), LABELS)
    every = miners.create(name)(columns, LABELS)
    parts = zip(*(found if isinstance(found, tuple) else (found,) for found in (alone, every)), strict=True)
    for some, all_of_them in parts:
        assert some.tolist() == [indices for indices in all_of_them.tolist() if indices[0] < anchors]


@pytest.mark.parametrize("name", ["semihard", "softhard", "distance_weighted", "random", "n_pair"])
def test_with_columns_a_miner_draws_by_the_law_of_the_anchor(name: str) -> None:
    columns, anchors, miner = rows().double(), 4, miners.create(name)
    some, whole = Geometry(columns[:anchors], columns, normalize=True), Geometry(columns, normalize=True)
    law, laws = (miner.probabilities(points, LABELS) for points in (some, whole))  # type: ignore[attr-defined]
    for kind in law:
        torch.testing.assert_close(law[kind], laws[kind][:anchors])
    seen = torch.zeros(anchors, 10)
    generator = stream(0, "draws")
    for _ in range(300):
        found = miner(some, LABELS, generator=generator)
        assert isinstance(found, torch.Tensor)
        assert found[:, 0].tolist() == [0, 1, 2, 3]
        seen[found[:, 0], found[:, 1]] += 1
        if found.shape[1] == 3:
            assert (LABELS[found[:, 2]] != LABELS[found[:, 0]]).all()
    torch.testing.assert_close(seen / 300, law["positive"].float(), atol=0.12, rtol=0)  # 4 standard errors of 300 draws


@pytest.mark.parametrize(
    "settings", [{"mode": "closest"}, {"mode": "all"}, {"mode": "all", "margin": None}], ids=lambda s: str(s)
)
def test_with_columns_semihard_lists_those_of_the_anchors(settings: dict[str, Any]) -> None:
    columns, miner = rows().double(), miners.create("semihard", **settings)
    found = miner(Geometry(columns[:5], columns, normalize=False), LABELS)
    every = miner(Geometry(columns, normalize=False), LABELS)
    assert listed(found) == [indices for indices in listed(every) if indices[0] < 5]


def test_with_columns_a_switch_stays_in_the_class_of_the_anchor() -> None:
    columns = rows()
    miner = miners.create("distance_weighted", switch=1.0)
    found = listed(miner(Geometry(columns[:4], columns, normalize=True), LABELS))
    assert [(a, p) for a, p, _ in found] == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert all(LABELS[a] == LABELS[n] and a != n for a, _, n in found)
