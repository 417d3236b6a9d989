"""Students (seidenschwarz2021 C.4): an objective that also learns from a finished run's outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from levelfield.errors import BadInput, BadSpecification
from levelfield.geometry import working
from levelfield.labels import to_device
from levelfield.methods._contract import Assembly, Batch, Method, Setting, option
from levelfield.objectives import Objective
from levelfield.settings import Positive, check_names


def soft_cross_entropy(student: Tensor, teacher: Tensor, *, temperature: float) -> Tensor:
    """mean_i -sum_c softmax(t_i / T)_c log softmax(s_i / T)_c; student, teacher: class logits (b, C).

    There is no factor T^2. Up to a constant (the teacher's entropy) it is the KL divergence of the two distributions,
    with equal gradients; the divergence in the released code is C times too small.

    >>> soft_cross_entropy(torch.zeros(1, 4), torch.tensor([[0.0, 0.0, 9.0, 9.0]]), temperature=3.0)
    tensor(1.3863)
    """
    share = (working(teacher.detach()) / temperature).softmax(1)
    losses = -(share * (working(student) / temperature).log_softmax(1)).sum(1)
    return losses.sum() / max(1, len(losses))


def feature_huber(student: Tensor, teacher: Tensor, *, delta: float = 1.0) -> Tensor:
    """Mean Huber loss over all coordinates; student, teacher: rows (b, d).

    >>> feature_huber(torch.tensor([[0.0, 0.0]]), torch.tensor([[1.0, 3.0]]))
    tensor(1.5000)
    """
    total = functional.huber_loss(working(student), working(teacher.detach()), reduction="sum", delta=delta)
    return total / max(1, student.numel())


def rkd_distance(student: Tensor, teacher: Tensor, *, delta: float = 1.0) -> Tensor:
    """Match the distances among the student's rows to those among the teacher's, up to scale (Park et al. 2019).

    Each matrix of Euclidean distances is divided by the mean of its non-zero entries; then the mean Huber loss of their
    difference over all entries, including the diagonal as in the authors' code. The two may differ in width.

    >>> near, far = torch.tensor([[0.0], [1.0], [2.0]]), torch.tensor([[0.0, 0.0], [0.0, 3.0], [0.0, 6.0]])
    >>> rkd_distance(near, far)
    tensor(0.)
    """
    ours, theirs = _relative_distance(working(student)), _relative_distance(working(teacher.detach()))
    return functional.huber_loss(ours, theirs, reduction="sum", delta=delta) / max(1, len(student) ** 2)


def relational_released(student: Tensor, teacher: Tensor, *, delta: float = 1.0) -> Tensor:
    """The relational loss of seidenschwarz2021's code: Huber loss of the difference of each coordinate instead of a
    distance; the diagonal counts in the mean, and absolute differences are SUMMED over all pairs, so that the weight
    must be small (0.01 there). Memory: O(batch^2 * dim).

    >>> relational_released(torch.eye(2), torch.eye(2)[:, :1])
    tensor(0.)
    """
    ours, theirs = (_relative_huber(working(rows), delta) for rows in (student, teacher.detach()))
    return (theirs - ours).abs().sum()


def _relative_distance(rows: Tensor) -> Tensor:
    """Distances from differences, not products: equal rows have distance exactly 0 and no gradient from each other."""
    distance = torch.cdist(rows, rows, compute_mode="donot_use_mm_for_euclid_dist")
    apart = (distance > 0).sum()
    return distance * (apart / distance.sum().masked_fill(apart == 0, 1))


def _relative_huber(rows: Tensor, delta: float) -> Tensor:
    left, right = torch.broadcast_tensors(rows[:, None], rows[None])
    potential = functional.huber_loss(left, right, reduction="none", delta=delta).sum(2)
    mean = potential.sum() / max(1, potential.numel())
    return potential / mean.masked_fill(mean == 0, 1)


FORMS = ("distill", "imitate", "relational")
SETTINGS = ("teacher", "form", "weight", "temperature", "delta", "released")


class Student(Method):
    """An objective's loss plus weight * distillation loss. The teacher is constant, one row per image.

    form: the student learns class probabilities (`distill`), rows (`imitate`) or the distances among the rows of a
    batch (`relational`). temperature: of `distill`. delta: of the Huber loss of the others. released: `relational` as
    in seidenschwarz2021's code.

    `distill` compares the softmax of class logits including each objective's own temperature: seidenschwarz2021's T =
    1, which excludes it, is here `temperature: 5` for two objectives of temperature 0.2.
    """

    def __init__(
        self,
        objective: nn.Module,
        *,
        num_classes: int,
        dim: int,
        teacher: str,
        form: Literal["distill", "imitate", "relational"],
        weight: Positive = 1.0,  # seidenschwarz2021 C.4 (released relational: 0.01)
        temperature: Positive = 1.0,
        delta: Positive = 1.0,
        released: bool = False,
        **shared: Any,
    ) -> None:
        super().__init__(objective, **shared)
        self.teacher, self.form, self.weight = teacher, form, weight
        self.teacher_output = "logits" if form == "distill" else "rows"
        self.learns_from = f"{teacher}, {form}, training time of the teacher not included"
        self._width = {"distill": num_classes, "imitate": dim, "relational": None}[form]
        relational = relational_released if released else rkd_distance
        self._loss: Callable[[Tensor, Tensor], Tensor] = {
            "distill": partial(soft_cross_entropy, temperature=temperature),
            "imitate": partial(feature_huber, delta=delta),
            "relational": partial(relational, delta=delta),
        }[form]
        self._outputs: np.ndarray | None = None
        if self.teacher_output == "logits":
            class_logits(objective, torch.zeros(0, dim))

    @classmethod
    def requires(cls, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """The teacher."""
        setting = settings.get("student")  # validated on creation
        return (str(setting["teacher"]),) if isinstance(setting, Mapping) and "teacher" in setting else ()

    def receive_teacher(self, outputs: np.ndarray) -> None:
        """Receive the teacher's outputs, one row per training image; they are not part of the method's state."""
        if self._width is not None and outputs.shape[1] != self._width:
            what = "classes" if self.teacher_output == "logits" else "embedding dimensions"
            raise BadInput(
                f"The teacher '{self.teacher}' has {outputs.shape[1]} {what} but the student has {self._width}: "
                f"'{self.form}' needs equal numbers. 'relational' works with any."
            )
        self._outputs = outputs

    @property
    def separable(self) -> bool:
        return super().separable and self.form != "relational"

    def step(self, embedder: nn.Module, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        rows = self.embed(embedder, batch.inputs)
        (loss,) = self.losses(rows, batch, generator).values()
        if self._outputs is None:
            raise BadInput("The student has no teacher outputs yet: call `receive_teacher` first.")
        teacher = to_device(torch.from_numpy(np.ascontiguousarray(self._outputs[batch.indices])), rows.device).to(rows)
        student = class_logits(self.objective, rows) if self.teacher_output == "logits" else rows
        return {"own": loss, self.form: self.weight * self._loss(student, teacher)}

    def deviations(self, setting: Setting) -> dict[str, Any]:
        return super().deviations(setting) | {"teacher": self.learns_from}


@option(
    "student",
    kind=Student,
    conflicts={
        "mixup": "a teacher has no outputs for mixed images",
        "matryoshka": "a teacher teaches whole embeddings",
        "sharded": "a student computes the logits of all classes",
    },
)
def with_teacher(assembly: Assembly, setting: Any) -> Assembly:
    """Also learn from a finished run: `student: {teacher: LABEL or RUN, form: imitate}`."""
    if not isinstance(setting, Mapping) or not {"teacher", "form"} <= setting.keys():
        raise BadSpecification(
            f"'student' is {setting!r}; it must name a teacher and a form, e.g. "
            f"{{teacher: LABEL or RUN, form: {' or '.join(FORMS)}}}."
        )
    check_names("The setting 'student'", setting, SETTINGS)
    for name, forms in (("temperature", FORMS[:1]), ("delta", FORMS[1:]), ("released", FORMS[2:])):
        if name in setting and setting["form"] in FORMS and setting["form"] not in forms:
            raise BadSpecification(
                f"'{name}' of 'student' does not apply to form '{setting['form']}', only to '{forms[0]}'."
            )
    sizes = {key: assembly.settings[key] for key in ("num_classes", "dim")}
    settings = {**setting, "teacher": str(setting["teacher"])}
    return replace(assembly, make_method=partial(Student, **sizes, **settings))


def class_logits(objective: nn.Module | None, rows: Tensor) -> Tensor:
    """Class logits of rows (b, d), from an objective that has them.

    >>> from levelfield import objectives
    >>> class_logits(objectives.create("softmax", num_classes=3, dim=4), torch.zeros(2, 4)).shape
    torch.Size([2, 3])
    """
    logits = objective.logits(rows) if isinstance(objective, Objective) else None
    if logits is None:
        raise BadSpecification(
            f"'distill' needs class logits, but {type(objective).__name__} has none. Use softmax, normalized_softmax, "
            "cosface, arcface or message_passing with its auxiliary loss; or use form 'imitate' or 'relational'."
        )
    return logits
