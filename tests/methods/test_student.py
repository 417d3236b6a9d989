"""Students: what a step adds to its loss, and valid entries of a study."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from levelfield import methods
from levelfield.errors import BadInput, BadSpecification
from levelfield.methods import Batch, Setting
from levelfield.methods.student import Student, feature_huber, relational_released, rkd_distance, soft_cross_entropy
from levelfield.randomness import stream


def drawn(rows: int, columns: int, name: str) -> Tensor:
    return 2 * torch.randn(rows, columns, generator=stream(0, name), dtype=torch.float64)


distilled, imitated = partial(soft_cross_entropy, temperature=3.0), partial(feature_huber, delta=0.7)


@pytest.mark.parametrize(
    ("loss", "widths"), [(distilled, (5, 5)), (imitated, (4, 4)), (rkd_distance, (4, 6)), (relational_released, (4, 6))]
)
def test_the_gradient_is_finite_and_goes_to_the_student_alone(loss: Any, widths: tuple[int, int]) -> None:
    """Values and gradients are golden cases."""
    student, teacher = drawn(6, widths[0], "student"), drawn(6, widths[1], "teacher").requires_grad_()
    student = torch.cat((student, student[:1])).requires_grad_()  # two equal rows
    value = loss(student, torch.cat((teacher, teacher[1:2])))
    of_student, of_teacher = torch.autograd.grad(value, [student, teacher], allow_unused=True)
    assert of_teacher is None
    assert of_student.isfinite().all()
    assert loss(student.detach().bfloat16(), teacher.detach()[[0, 1, 2, 3, 4, 5, 0]]).dtype != torch.bfloat16


def test_rows_that_are_all_equal_have_no_relations_and_empty_batches_no_loss() -> None:
    same = torch.ones(3, 2, requires_grad=True)
    value = rkd_distance(same, torch.ones(3, 5))
    value.backward()
    assert value == 0
    assert torch.equal(same.grad, torch.zeros(3, 2))
    for loss in (feature_huber, rkd_distance, relational_released):
        assert loss(torch.zeros(0, 2), torch.zeros(0, 2)) == 0
    assert soft_cross_entropy(torch.zeros(0, 2), torch.zeros(0, 2), temperature=1.0) == 0


def made(name: str = "softmax", **student: Any) -> Student:
    return methods.create(name, num_classes=3, dim=4, student={"teacher": "big", **student})


def batch_of(rows: Tensor, indices: list[int]) -> Batch:
    return Batch(rows, torch.tensor([0, 1, 2, 0])[: len(rows)], np.array(indices), None, 0, 0)


@pytest.mark.parametrize(
    ("settings", "loss"),
    [
        ({"form": "distill", "temperature": 3.0}, distilled),
        ({"form": "imitate", "delta": 0.7}, imitated),
        ({"form": "relational"}, rkd_distance),
        ({"form": "relational", "released": True}, relational_released),
    ],
)
def test_a_step_adds_what_the_teacher_says_of_these_images(settings: dict[str, Any], loss: Any) -> None:
    method = made(weight=0.25, **settings)
    rows, indices = drawn(4, 4, "rows").float(), [7, 1, 1, 4]
    outputs = drawn(9, 3 if settings["form"] == "distill" else 4, "outputs").float()
    method.receive_teacher(outputs.numpy())
    batch = batch_of(rows, indices)
    terms = method.step(nn.Identity(), batch, stream(0, "step"))
    assert list(terms) == ["own", settings["form"]]
    assert terms["own"].item() == method.objective(rows, batch.labels).item()
    own = rows @ method.objective.weight.T + method.objective.bias if settings["form"] == "distill" else rows
    torch.testing.assert_close(terms[settings["form"]], 0.25 * loss(own, outputs[indices]))
    assert "outputs" not in "".join(method.state_dict())


@pytest.mark.parametrize("name", ["softmax", "normalized_softmax", "cosface", "arcface", "message_passing"])
def test_class_logits_are_those_the_objective_trains(name: str) -> None:
    settings = {"margin": 0.0} if name in ("cosface", "arcface") else {}
    settings |= {"message_weight": 0.0, "label_smoothing": 0.0} if name == "message_passing" else {}
    objective = methods.create(name, num_classes=3, dim=4, **settings).objective
    rows, labels = drawn(6, 4, "logits").float(), torch.tensor([0, 1, 2, 2, 1, 0])
    torch.testing.assert_close(nn.functional.cross_entropy(objective.logits(rows), labels), objective(rows, labels))


def test_a_student_says_whose_it_is() -> None:
    method = made("contrastive", form="relational")
    assert method.requires({"student": {"teacher": "big", "form": "imitate"}}) == ("big",)
    assert method.teacher_output == "rows"
    assert not method.separable
    assert method.deviations(Setting(4, 16))["teacher"].startswith("big, relational")
    assert made(form="imitate").separable


@pytest.mark.parametrize(
    ("student", "message"),
    [
        ("big", "must name a teacher and a form"),
        ({"teacher": "big"}, "must name a teacher and a form"),
        ({"teacher": "big", "form": "copy"}, "'form' is 'copy'"),
        ({"teacher": "big", "form": "imitate", "weigt": 2}, "Did you mean 'weight'"),
        ({"teacher": "big", "form": "imitate", "weight": 0}, "'weight' is 0"),
        ({"teacher": "big", "form": "imitate", "temperature": 2}, "does not apply to form 'imitate'"),
        ({"teacher": "big", "form": "distill", "delta": 2}, "'delta' of 'student' does not apply to form 'distill'"),
        ({"teacher": "big", "form": "distill"}, "Contrastive has none"),
    ],
)
def test_what_is_wrong_is_named(student: Any, message: str) -> None:
    with pytest.raises(BadSpecification, match=message):
        methods.create("contrastive", num_classes=3, dim=4, student=student)


def test_other_refusals() -> None:
    with pytest.raises(BadSpecification, match="cannot be combined"):
        methods.create("softmax", num_classes=3, dim=4, mixup=True, student={"teacher": "big", "form": "imitate"})
    with pytest.raises(BadSpecification, match="'distill' needs class logits"):
        methods.create(
            "message_passing", num_classes=3, dim=4, auxiliary_weight=0, student={"teacher": "b", "form": "distill"}
        )
    with pytest.raises(BadInput, match="5 classes but the student has 3"):
        made(form="distill").receive_teacher(np.zeros((2, 5), np.float32))
    with pytest.raises(BadInput, match="no teacher outputs yet"):
        made(form="imitate").step(nn.Identity(), batch_of(torch.zeros(2, 4), [0, 1]), stream(0, "x"))
    with pytest.raises(BadSpecification, match="does not learn from a teacher"):
        methods.create("softmax", num_classes=3, dim=4).receive_teacher(np.zeros((2, 3)))
