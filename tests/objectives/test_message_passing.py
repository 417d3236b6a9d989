from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from levelfield import objectives
from levelfield.errors import BadInput, BadSpecification
from levelfield.objectives.message_passing import MessagePassing
from levelfield.randomness import stream

Row = list[float]
LABELS = [0, 1, 0, 2, 1, 0]
VARIANTS: dict[str, dict[str, Any]] = {
    "paper": {},
    "released code": {"null_logit": True, "input_projection": True},
    "two steps side by side": {"steps": 2, "heads": 3, "concat_steps": True},
    "eq. 4 alone": {"output_projection": False, "ff_factor": 0},
    "without skip connections": {"skip": False, "steps": 2},
    "masked": {"masked": True},
}


def dot(x: Row, y: Row) -> float:
    return sum(a * b for a, b in zip(x, y, strict=True))


def through(layer: Any, x: Row) -> Row:
    if isinstance(layer, nn.Identity):
        return x
    if isinstance(layer, nn.LayerNorm):
        mean = sum(x) / len(x)
        spread = math.sqrt(sum((v - mean) ** 2 for v in x) / len(x) + 1e-5)
        x, scale = [(v - mean) / spread for v in x], layer.weight.tolist()
        return [v * s + b for v, s, b in zip(x, scale, layer.bias.tolist(), strict=True)]
    return [dot(w, x) + b for w, b in zip(layer.weight.tolist(), layer.bias.tolist(), strict=True)]


def add(x: Row, y: Row) -> Row:
    return [a + b for a, b in zip(x, y, strict=True)]


def step_by_loop(step: Any, nodes: list[Row]) -> list[Row]:
    heads, size, found = step.choices.heads, len(nodes[0]) // step.choices.heads, []
    queries, keys, values = ([through(layer, h) for h in nodes] for layer in (step.query, step.key, step.value))
    for i, h in enumerate(nodes):
        told: Row = []
        for m in range(heads):
            block = slice(m * size, (m + 1) * size)
            exps = [math.exp(dot(queries[i][block], key[block]) / math.sqrt(size)) for key in keys]
            total = sum(exps) + (1 if step.choices.null_logit else 0)
            told += [
                sum(e / total * value[block][f] for e, value in zip(exps, values, strict=True)) for f in range(size)
            ]
        told = through(step.out, told)
        u = through(step.norm1, add(h, told) if step.choices.skip else told)
        if step.ff1 is not None:
            thought = through(step.ff2, [max(0.0, v) for v in through(step.ff1, u)])
            u = through(step.norm2, add(u, thought) if step.choices.skip else thought)
        found.append(u)
    return found


def refined_by_loop(objective: Any, rows: list[Row]) -> list[Row]:
    nodes = [through(objective.network.input, [v / math.hypot(*x) for v in x]) for x in rows]
    states = []
    for step in objective.network.steps:
        states.append(nodes := step_by_loop(step, nodes))
    if not objective.concat_steps:
        return nodes
    return [[value for state in states for value in state[i]] for i in range(len(rows))]


def entropy_by_loop(objective: Any, logits: list[Row], labels: list[int]) -> float:
    classes = sorted(set(labels)) if objective.masked else list(range(len(logits[0])))
    eps, total = objective.label_smoothing, 0.0
    for row, label in zip(logits, labels, strict=True):
        scaled = [row[c] / objective.temperature for c in classes]
        log_sum = math.log(sum(math.exp(v) for v in scaled))
        for c, value in zip(classes, scaled, strict=True):
            total -= ((1 - eps) * (c == label) + eps / len(classes)) * (value - log_sum)
    return total / len(labels)


def loss_by_loop(objective: Any, rows: list[Row], labels: list[int]) -> dict[str, float]:
    refined = refined_by_loop(objective, rows)
    columns = []
    for column, scale in zip(zip(*refined, strict=True), objective.head_scale.tolist(), strict=True):
        mean = sum(column) / len(column)
        spread = math.sqrt(sum((v - mean) ** 2 for v in column) / len(column) + 1e-5)
        columns.append([(v - mean) / spread * scale for v in column])
    normed = [list(row) for row in zip(*columns, strict=True)]
    after = [[dot(w, x) for w in objective.head_weight.tolist()] for x in normed]
    bias = objective.aux_bias.tolist()
    before = [[dot(w, x) + b for w, b in zip(objective.aux_weight.tolist(), bias, strict=True)] for x in rows]
    return {
        "messages": entropy_by_loop(objective, after, labels),
        "auxiliary": entropy_by_loop(objective, before, labels),
    }


def made(dim: int = 6, num_classes: int = 4, **settings: Any) -> Any:
    """With weights that are all different from where they start."""
    settings = {"dropout": 0.0, **settings}
    objective = objectives.create("message_passing", num_classes=num_classes, dim=dim, **settings).double()
    with torch.no_grad():
        for name, parameter in objective.named_parameters():
            drawn = torch.randn(parameter.shape, generator=stream(0, name), dtype=torch.float64)
            parameter.add_(0.3 * drawn)
    return objective


def rows_of(count: int = 6, dim: int = 6) -> Tensor:
    return torch.randn(count, dim, generator=stream(0, "rows"), dtype=torch.float64)


@pytest.mark.parametrize("variant", VARIANTS)
def test_value_is_the_slow_loop(variant: str) -> None:
    objective = made(**VARIANTS[variant])
    found = {name: term.item() for name, term in objective.terms(rows_of(), torch.tensor(LABELS)).items()}
    assert found == pytest.approx(loss_by_loop(objective, rows_of().tolist(), LABELS), rel=1e-9)


@pytest.mark.parametrize("variant", VARIANTS)
def test_refined_rows_are_the_slow_loops_of_unit_length(variant: str) -> None:
    objective = made(**{**VARIANTS[variant], "dropout": 0.5})
    expected = torch.tensor(refined_by_loop(objective, rows_of().tolist()), dtype=torch.float64)
    expected = expected / expected.norm(dim=1, keepdim=True)
    torch.testing.assert_close(objective.refine(rows_of()), expected)


@pytest.mark.parametrize("settings", [{}, {"steps": 2, "concat_steps": True}])
def test_groups_are_refined_apart_and_some_places_alone(settings: dict[str, Any]) -> None:
    objective, rows = made(**settings), rows_of(8).view(2, 4, 6)
    both = objective.refine(rows)
    torch.testing.assert_close(both, torch.stack([objective.refine(group) for group in rows]))
    torch.testing.assert_close(objective.refine(rows, [2, 0]), both[:, [2, 0]])


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"message_weight": 0.0}, {"auxiliary"}),
        ({"auxiliary_weight": 0.0}, {"messages"}),
        ({"message_weight": 0.5, "auxiliary_weight": 2.0}, {"messages", "auxiliary"}),
    ],
)
def test_a_loss_that_is_left_out_has_no_weights_and_a_weight_multiplies(
    settings: dict[str, float], names: set[str]
) -> None:
    objective, plain, labels = made(**settings), made(), torch.tensor(LABELS)
    objective.load_state_dict(plain.state_dict(), strict=False)
    found, whole = (one.terms(rows_of(), labels) for one in (objective, plain))
    assert set(found) == names
    factors = {"messages": "message_weight", "auxiliary": "auxiliary_weight"}
    for name in names:
        assert found[name].item() == pytest.approx(settings.get(factors[name], 1.0) * whole[name].item())
    objective(rows_of(), labels).backward()
    assert all(parameter.grad is not None for parameter in objective.parameters())


def test_the_auxiliary_loss_alone_is_the_softmax_and_comes_in_pieces() -> None:
    objective, labels = made(message_weight=0.0), torch.tensor(LABELS)
    softmax: Any = objectives.create("softmax", num_classes=4, dim=6, preset="seidenschwarz2021").double()
    softmax.load_state_dict({"weight": objective.aux_weight, "bias": objective.aux_bias}, strict=False)
    torch.testing.assert_close(objective(rows_of(), labels), softmax(rows_of(), labels))
    assert objective.separable
    assert not made().separable
    assert not made(message_weight=0.0, masked=True).separable


def test_masked_classes_that_are_absent_get_no_gradient_and_those_that_are_there_do() -> None:
    objective, labels = made(num_classes=9, masked=True), torch.tensor([5, 2, 5, 5, 2, 2])
    objective(rows_of(), labels).backward()
    for weight in (objective.head_weight, objective.aux_weight):
        assert weight.grad.abs().sum(1).nonzero().flatten().tolist() == [2, 5]


def test_with_all_classes_in_the_batch_masking_changes_nothing() -> None:
    labels = torch.tensor([0, 1, 2, 3, 1, 0])
    torch.testing.assert_close(made(masked=True)(rows_of(), labels), made()(rows_of(), labels))


def test_dropout_draws_from_the_given_generator_while_training_only() -> None:
    objective, labels = made(dropout=0.4), torch.tensor(LABELS)
    one, same, other = (objective(rows_of(), labels, generator=stream(seed, "d")).item() for seed in (0, 0, 1))
    assert one == same != other
    plain = made()(rows_of(), labels).item()
    assert objective.eval()(rows_of(), labels).item() == plain != one


def test_dropout_keeps_the_mean_and_stands_at_four_places() -> None:
    from levelfield.objectives._parts.messages import dropout

    kept = dropout(0.25, stream(0, "d"))(torch.ones(20000))
    assert kept.unique().tolist() == [0.0, pytest.approx(4 / 3)]
    assert kept.mean().item() == pytest.approx(1, abs=0.02)
    seen: list[tuple[int, ...]] = []
    made().network(rows_of(), lambda rows: seen.append(tuple(rows.shape)) or rows)
    assert seen == [(2, 6, 6), (6, 6), (6, 24), (6, 6)]  # attention, after it, inside the feed-forward part, after it


def test_the_null_logit_lets_a_receiver_take_less_than_one() -> None:
    rows = rows_of()
    with_null, without = (made(null_logit=flag).network.steps[0].attention(rows).sum(-1) for flag in (True, False))
    assert (with_null < 1).all()
    torch.testing.assert_close(without, torch.ones_like(without))


def test_it_starts_as_the_authors_do_and_from_the_generator() -> None:
    objective: Any = MessagePassing(num_classes=500, dim=64)
    assert objective.head_weight.std().item() == pytest.approx(0.001, rel=0.05)
    assert objective.head_scale.tolist() == [1.0] * 64
    assert objective.network.steps[0].query.weight.abs().max().item() <= math.sqrt(6 / 128)
    assert not objective.network.steps[0].query.bias.any()
    first, again, other = (MessagePassing(num_classes=3, dim=4, generator=stream(n, "start")) for n in (0, 0, 1))
    for one, two, three in zip(first.parameters(), again.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, two)
        assert one.dim() == 1 or not torch.equal(one, three)


@pytest.mark.parametrize("count", [1, 2])
def test_the_smallest_batches_teach_the_auxiliary_classifier(count: int) -> None:
    objective = made()
    objective(rows_of(count), torch.zeros(count, dtype=torch.long)).backward()
    assert objective.aux_weight.grad.abs().sum() > 0
    assert all(parameter.grad.isfinite().all() for parameter in objective.parameters())


def test_weights_in_half_precision_are_computed_with_in_float32() -> None:
    objective, labels = made().bfloat16(), torch.tensor(LABELS)
    value = objective(rows_of().bfloat16(), labels)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, objective.float()(rows_of().bfloat16().float(), labels))
    assert objective.bfloat16().refine(rows_of().bfloat16()).dtype == torch.float32


def test_rates_are_those_of_the_network_and_of_the_classifiers() -> None:
    rates = made(network_lr_multiplier=3.0, head_lr_multiplier=7.0).lr_multipliers()
    classifiers = {"head_scale", "head_weight", "aux_weight", "aux_bias"}
    assert {name for name, rate in rates.items() if rate == 7} == classifiers
    assert {rate for name, rate in rates.items() if name.startswith("network.")} == {3.0}


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(BadSpecification, match="'heads' is 4, which does not divide the 6 dimensions"):
        made(heads=4)
    with pytest.raises(BadSpecification, match="both 0"):
        made(message_weight=0.0, auxiliary_weight=0.0)
    with pytest.raises(BadSpecification, match="'steps' is 0"):
        made(steps=0)
    with pytest.raises(BadInput, match="label 4"):
        made()(rows_of(), torch.tensor([0, 1, 2, 3, 4, 0]))
    with pytest.raises(BadInput, match=r"rows of shape \(n, 6\).*\(6, 5\)"):
        made().refine(rows_of(6, 5))
    with pytest.raises(BadSpecification, match="no messages are passed"):
        made(message_weight=0.0).refine(rows_of())
