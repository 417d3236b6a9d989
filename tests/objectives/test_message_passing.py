from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from levelfield import objectives
from levelfield.errors import BadInput, BadSpecification
from levelfield.objectives.message_passing import MessagePassing
from levelfield.randomness import stream

LABELS = [0, 1, 0, 2, 1, 0]
VARIANTS: dict[str, dict[str, Any]] = {
    "paper": {},
    "released code": {"null_logit": True, "input_projection": True},
    "two steps side by side": {"steps": 2, "heads": 3, "concat_steps": True},
    "eq. 4 alone": {"output_projection": False, "ff_factor": 0},
    "without skip connections": {"skip": False, "steps": 2},
    "masked": {"masked": True},
}


def refined_by_torch(objective: Any, rows: Tensor) -> Tensor:
    """The nodes after the steps, with torch's own attention; a logit of 0 is that of a key and a value of zeros."""
    nodes, states = objective.network.input(functional.normalize(rows)), []
    for step in objective.network.steps:
        query, key, value = (
            layer(nodes).unflatten(-1, (step.choices.heads, -1)).transpose(0, 1)
            for layer in (step.query, step.key, step.value)
        )
        if step.choices.null_logit:
            key, value = (functional.pad(part, (0, 0, 0, 1)) for part in (key, value))
        messages = step.out(functional.scaled_dot_product_attention(query, key, value).transpose(0, 1).flatten(1))
        nodes = step.norm1(nodes + messages if step.choices.skip else messages)
        if step.ff1 is not None:
            further = step.ff2(step.ff1(nodes).relu())
            nodes = step.norm2(nodes + further if step.choices.skip else further)
        states.append(nodes)
    return torch.cat(states, 1) if objective.concat_steps else nodes


def terms_by_torch(objective: Any, rows: Tensor, labels: Tensor) -> dict[str, Tensor]:
    refined = refined_by_torch(objective, rows)
    normed = functional.batch_norm(refined, None, None, objective.head_scale, training=True)
    logits = {
        "messages": normed @ objective.head_weight.T,
        "auxiliary": rows @ objective.aux_weight.T + objective.aux_bias,
    }
    classes, target = labels.unique(return_inverse=True) if objective.masked else (torch.arange(4), labels)
    smoothing = objective.label_smoothing
    return {
        name: functional.cross_entropy(each[:, classes] / objective.temperature, target, label_smoothing=smoothing)
        for name, each in logits.items()
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
def test_terms_and_refined_rows_are_those_of_torch(variant: str) -> None:
    objective, labels = made(**VARIANTS[variant]), torch.tensor(LABELS)
    torch.testing.assert_close(objective.terms(rows_of(), labels), terms_by_torch(objective, rows_of(), labels))
    expected = functional.normalize(refined_by_torch(objective, rows_of()))
    torch.testing.assert_close(objective.refine(rows_of()), expected.detach())


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
    with pytest.raises(BadInput, match=r"rows of shape \(n, 6\).*\(6, 5\)"):
        made().refine(rows_of(6, 5))
    with pytest.raises(BadSpecification, match="no messages are passed"):
        made(message_weight=0.0).refine(rows_of())
