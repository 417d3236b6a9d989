"""Own parameters that start from the first embeddings, compared with slow loops over images."""

from __future__ import annotations

import math

import pytest
import torch

from levelfield import objectives
from levelfield.objectives._parts.start import POOLED, StartRows, linear_classifier, log_variances

CLASSES, EACH, DIM = 5, 6, 7


@pytest.fixture
def start() -> StartRows:
    generator = torch.Generator().manual_seed(3)
    centres = torch.randn(CLASSES, DIM, generator=generator) * 2
    labels = torch.arange(CLASSES).repeat(EACH)
    noise = torch.randn(len(labels), DIM, generator=generator) * torch.linspace(0.5, 2, DIM)
    return StartRows(centres[labels] + noise, labels)


def mean_of(rows: list[torch.Tensor]) -> torch.Tensor:
    return torch.stack(rows).double().mean(0)


def test_class_variances_are_averaged_with_those_of_all_classes(start: StartRows) -> None:
    found, squares = start.variances(), torch.zeros(CLASSES, DIM, dtype=torch.float64)
    for row, label in zip(start.rows, start.labels.tolist(), strict=True):
        own = mean_of([other for other, its in zip(start.rows, start.labels.tolist(), strict=True) if its == label])
        squares[label] += (row.double() - own) ** 2
    for c in range(CLASSES):
        for f in range(DIM):
            pooled = squares[:, f].sum() / (CLASSES * EACH - CLASSES)
            expected = (squares[c, f] + POOLED * pooled) / (EACH - 1 + POOLED)
            assert found[c, f].item() == pytest.approx(expected.item(), rel=1e-5)


def test_log_variances_are_those_of_unit_rows_and_0_on_average(start: StartRows) -> None:
    found, expected = log_variances(start), start.unit.variances().log()
    assert found.mean().abs() < 1e-6
    torch.testing.assert_close(found[1, 2] - found[3, 4], expected[1, 2] - expected[3, 4])


def left_out_entropy(start: StartRows, scale: float, *, bias: bool) -> float:
    """Mean over images of the cross-entropy of scale * (m_c . x - |m_c|^2 / 2), x not among the images of its mean."""
    labels, total = start.labels.tolist(), 0.0
    means = [mean_of([r for r, c in zip(start.rows, labels, strict=True) if c == k]) for k in range(CLASSES)]
    length = sum(float(mean.norm()) for mean in means) / CLASSES
    for i, x in enumerate(start.rows.double()):
        scores = []
        for c in range(CLASSES):
            rows = [r for j, r in enumerate(start.rows) if labels[j] == c and j != i]
            point = mean_of(rows) if bias else mean_of(rows) / mean_of(rows).norm() * length
            scores.append(scale * float(point @ x - (point @ point / 2 if bias else 0)))
        total += math.log(sum(math.exp(score) for score in scores)) - scores[labels[i]]
    return total / len(labels)


@pytest.mark.parametrize("bias", [True, False])
def test_the_scale_of_a_classifier_minimises_the_entropy_of_left_out_images(start: StartRows, bias: bool) -> None:
    weight, _ = linear_classifier(start, bias=bias)
    means = start.means()
    scale = float((weight.norm(dim=1) / means.norm(dim=1)).mean()) if bias else float(weight[0].norm())
    scale = scale if bias else scale / float(means.norm(dim=1).mean())
    least = left_out_entropy(start, scale, bias=bias)
    assert least < math.log(CLASSES)
    assert least < left_out_entropy(start, scale * 1.05, bias=bias)
    assert least < left_out_entropy(start, scale / 1.05, bias=bias)


@pytest.mark.parametrize("temperature", [1.0, 0.2])
def test_the_classifier_chooses_the_nearest_class_mean_at_any_temperature(start: StartRows, temperature: float) -> None:
    weight, bias = linear_classifier(start, temperature=temperature)
    logits = (start.rows @ weight.T + bias) / temperature
    assert torch.equal(logits.argmax(1), torch.cdist(start.rows, start.means()).argmin(1))
    plain = linear_classifier(start)
    torch.testing.assert_close(logits, start.rows @ plain[0].T + plain[1])


@pytest.mark.parametrize("name", ["softmax", "group_loss", "message_passing", "hist", "normalized_softmax"])
def test_the_first_loss_of_a_started_objective_is_below_a_random_one(start: StartRows, name: str) -> None:
    settings = {"heads": 1, "dropout": 0.0} if name == "message_passing" else {}
    made, random = (objectives.create(name, num_classes=CLASSES, dim=DIM, **settings) for _ in range(2))
    if made.class_vectors is not None:
        made.class_vectors.data.copy_(start.unit.means())
    made.start_from(start)
    assert made(start.rows, start.labels) < random(start.rows, start.labels)
    assert all(parameter.isfinite().all() and parameter.requires_grad for parameter in made.parameters())


def test_hist_starts_at_the_variances_of_the_rows_that_its_loss_compares(start: StartRows) -> None:
    hist = objectives.Hist(num_classes=CLASSES, dim=DIM)
    hist.start_from(start)
    torch.testing.assert_close(hist.log_vars.data, log_variances(StartRows(hist.z(start.rows), start.labels)))
    fixed = objectives.Hist(num_classes=CLASSES, dim=DIM, variance="fixed")
    before = {name: value.clone() for name, value in fixed.state_dict().items() if isinstance(value, torch.Tensor)}
    fixed.start_from(start)
    assert all(torch.equal(value, before[name]) for name, value in fixed.named_parameters())


def test_a_linear_hist_starts_like_softmax(start: StartRows) -> None:
    hist = objectives.Hist(num_classes=CLASSES, dim=DIM, relations="linear", layer_norm=False)
    softmax = objectives.Softmax(num_classes=CLASSES, dim=DIM)
    for objective in (hist, softmax):
        objective.start_from(start)
    torch.testing.assert_close(hist.theta2_weight.data, softmax.weight.data)
    torch.testing.assert_close(hist.theta2_bias.data, softmax.bias.data)


@pytest.mark.parametrize(
    ("rows", "labels"),
    [
        (torch.eye(3), [0, 1, 2]),
        (torch.ones(4, 3), [0, 0, 1, 1]),
        (torch.zeros(4, 3), [0, 0, 1, 1]),
        (torch.eye(3), [0, 0, 0]),
        (torch.eye(2, 3).repeat(3, 1) * 1e4, [0, 1, 0, 1, 0, 1]),
    ],
    ids=["one image per class", "equal rows", "zero rows", "one class", "separated without an end"],
)
def test_a_start_is_finite_for_any_images(rows: torch.Tensor, labels: list[int]) -> None:
    start = StartRows(rows, torch.tensor(labels))
    assert log_variances(start).isfinite().all()
    for bias in (True, False):
        assert all(part.isfinite().all() for part in linear_classifier(start, bias=bias))
