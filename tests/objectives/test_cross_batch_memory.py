"""Cross-batch memory against a slow loop over batch and queue, and against pytorch-metric-learning."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from torch import Tensor

from levelfield import objectives
from levelfield.errors import BadInput, BadSpecification
from levelfield.objectives import CrossBatchMemory, LossInputs
from levelfield.randomness import stream

DIM, SIZE = 5, 14
FITTING = [name for name in objectives.names() if objectives.describe(name).memory]
DERIVED = [name for name in FITTING if "gradient_is_the_derivative" not in objectives.describe(name).tags]


def batches(count: int = 5, rows: int = 6) -> list[tuple[Tensor, Tensor]]:
    draw = stream(0, "batches")
    made = [torch.randn(rows, DIM, generator=draw, dtype=torch.float64) for _ in range(count)]
    return [(batch, torch.randint(0, 3, (rows,), generator=draw)) for batch in made]


def remembering(name: str, *, size: int = SIZE, start: int = 0, **settings: Any) -> CrossBatchMemory:
    return CrossBatchMemory(objectives.create(name, **settings), dim=DIM, size=size, start=start).double()


def with_slope(loss: Any, batch: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    """The loss of a batch, and its gradient by the rows."""
    rows = batch.clone().requires_grad_()
    value = loss(rows, *others)
    return value.detach(), torch.autograd.grad(value, rows)[0]


def slow_contrastive(batch: Tensor, labels: Tensor, queue: list[tuple[Tensor, int]]) -> Tensor:
    """Every anchor against the queue, newest first; its own copy has the same place."""
    sides: dict[bool, list[Tensor]] = {True: [], False: []}
    for a, anchor in enumerate(batch):
        for j, (other, label) in enumerate(queue):
            if a == j:
                continue
            distance = (anchor / anchor.norm() - other / other.norm()).norm()
            same = label == int(labels[a])
            sides[same].append((distance if same else 1 - distance).clamp_min(0))
    return sum((torch.stack(terms).mean() for terms in sides.values() if terms), torch.zeros(()).double())


def test_it_is_the_slow_loop_over_batch_and_queue() -> None:
    memory, queue = remembering("contrastive", miner="all"), []  # type: ignore[var-annotated]
    for batch, labels in batches():
        queue = [(row, int(label)) for row, label in zip(batch, labels, strict=True)] + queue
        queue = queue[:SIZE]
        expected = with_slope(slow_contrastive, batch, labels, queue)
        torch.testing.assert_close(with_slope(memory, batch, labels), expected)


@pytest.mark.parametrize(
    ("ours", "settings", "theirs", "their_settings"),
    [
        ("contrastive", {"miner": "all", "reduction": "mean_nonzero"}, "ContrastiveLoss", {}),
        ("triplet", {"miner": "all", "reduction": "mean_nonzero"}, "TripletMarginLoss", {"margin": 0.2}),
        ("multi_similarity", {"epsilon": None}, "MultiSimilarityLoss", {"alpha": 2, "beta": 40, "base": 0.5}),
        ("nt_xent", {}, "NTXentLoss", {"temperature": 0.07}),
    ],
)
def test_it_is_that_of_pml(ours: str, settings: Any, theirs: str, their_settings: Any) -> None:
    pml = pytest.importorskip("pytorch_metric_learning.losses")
    memory = remembering(ours, size=18, **settings)  # three batches: PML's ring of places keeps the same rows
    judge = pml.CrossBatchMemory(getattr(pml, theirs)(**their_settings), embedding_size=DIM, memory_size=18)
    for batch, labels in batches():
        both = (with_slope(loss, batch, labels) for loss in (memory, judge))
        torch.testing.assert_close(*both, rtol=1e-6, atol=1e-8)


def test_it_mines_as_pml_does() -> None:
    losses = pytest.importorskip("pytorch_metric_learning.losses")
    found = pytest.importorskip("pytorch_metric_learning.miners")
    memory = remembering("triplet", miner="batch_hard", reduction="mean_nonzero", size=18)
    judge = losses.CrossBatchMemory(
        losses.TripletMarginLoss(margin=0.2), embedding_size=DIM, memory_size=18, miner=found.BatchHardMiner()
    )
    for batch, labels in batches():
        torch.testing.assert_close(memory(batch, labels), judge(batch, labels), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", FITTING)
def test_the_first_call_has_the_value_of_the_objective_alone(name: str) -> None:
    (batch, labels), *_ = batches()
    alone = objectives.create(name).double()(batch, labels, generator=stream(0, "one"))
    torch.testing.assert_close(remembering(name)(batch, labels, generator=stream(0, "one")), alone)


@pytest.mark.parametrize("name", DERIVED)
def test_gradients_reach_the_batch_and_are_derivatives_with_partners_held(name: str) -> None:
    memory = remembering(name)
    first, second = batches()[:2]
    memory(*first, generator=stream(0, "x"))
    held = memory.rows.clone()
    rows = second[0].clone().requires_grad_()
    memory.eval()
    (slope,) = torch.autograd.grad(memory(rows, second[1], generator=stream(0, "x")), rows)
    assert slope.isfinite().all()
    assert slope.abs().sum() > 0
    assert torch.equal(memory.rows, held)  # in evaluation mode nothing is remembered
    inputs = memory._against_queue(LossInputs(rows, second[1], None, None, None, stream(0, "x")), 6)
    tuples = memory.objective.tuples_of(inputs.geometry(normalize=memory.normalize), inputs)

    def loss(anchors: Tensor) -> Tensor:
        return memory.objective.loss_of(inputs._replace(embeddings=anchors, tuples=tuples))

    assert torch.autograd.gradcheck(loss, (second[0].clone().requires_grad_(),), atol=1e-6)


def test_before_the_start_it_is_the_objective_alone_and_remembers_nothing() -> None:
    memory, alone = remembering("contrastive", miner="all", start=2), objectives.create("contrastive", miner="all")
    for number, (batch, labels) in enumerate(batches()[:3]):
        same = torch.equal(with_slope(memory, batch, labels)[1], with_slope(alone, batch, labels)[1])
        assert same is (number < 2)
    assert int(memory.counts[1]) == 6


def test_a_copy_with_its_state_goes_on_to_the_same_bits() -> None:
    memory, seen = remembering("margin"), batches()
    for batch, labels in seen[:2]:
        memory(batch, labels)
    file = io.BytesIO()
    torch.save(memory.state_dict(), file)
    file.seek(0)
    other = remembering("margin")
    other.load_state_dict(torch.load(file, weights_only=True))
    for batch, labels in seen[2:]:
        assert torch.equal(memory(batch, labels), other(batch, labels))


def test_reset_forgets_everything() -> None:
    memory, (first, second, *_) = remembering("contrastive", miner="all"), batches()
    fresh = memory(*first)
    memory(*second)
    memory.reset()
    assert memory.learned_buffers == 0
    assert torch.equal(memory(*first), fresh)
    assert memory.learned_buffers == SIZE * DIM + SIZE + 2


def test_own_parameters_keep_their_names_rates_and_optimisers() -> None:
    memory = remembering("margin", beta_optimiser="sgd")
    assert memory.lr_multipliers() == {"objective.beta": 50.0}
    assert memory.optimisers() == {"objective.beta": "sgd"}
    assert [memory.part_of(name) for name, _ in memory.named_parameters()] == ["beta"]


def test_float32_rows_and_double_rows_both_work() -> None:
    memory = CrossBatchMemory(objectives.create("contrastive"), dim=DIM, size=SIZE)
    (batch, labels), *_ = batches()
    assert memory(batch.float(), labels).dtype == torch.float32
    assert memory(batch, labels).dtype == torch.float64


@pytest.mark.parametrize("name", ["proxy_anchor", "n_pair", "histogram"])
def test_an_objective_that_compares_with_no_memory_is_refused(name: str) -> None:
    made = objectives.create(name, num_classes=3, dim=DIM)
    with pytest.raises(BadSpecification, match=f"cannot be combined with '{name}'. Use it with contrastive, "):
        CrossBatchMemory(made, dim=DIM)


def test_what_does_not_fit_is_named() -> None:
    (batch, labels), *_ = batches()
    with pytest.raises(BadInput, match="memory of 4 rows got a batch of 6"):
        remembering("contrastive", size=4)(batch, labels)
    with pytest.raises(BadInput, match="dim=5"):
        remembering("contrastive")(batch[:, :3], labels)
    with pytest.raises(BadInput, match="takes no tuples"):
        remembering("triplet")(batch, labels, tuples=torch.tensor([[0, 1, 2]]))
    with pytest.raises(BadInput, match="swap"):
        remembering("triplet", swap=True)(batch, labels)
    pytest.importorskip("pytorch_metric_learning")
    with pytest.raises(BadInput, match="'pml:TripletMarginMiner' only compares a batch with itself"):
        remembering("triplet", miner="pml:TripletMarginMiner")(batch, labels)
    for size in (0, 10**12):
        with pytest.raises(BadSpecification, match="size"):
            remembering("triplet", size=size)
