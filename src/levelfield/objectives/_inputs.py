"""Inputs of one call of an objective, validated once and in a common form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from levelfield.errors import BadInput
from levelfield.geometry import Geometry
from levelfield.labels import class_masks, labels_of_call, on_host
from levelfield.miners import Tuples
from levelfield.miners._contract import check_batch, kind_of

if TYPE_CHECKING:
    from levelfield.objectives._contract import Objective


class LossInputs(NamedTuple):
    """Validated inputs of one call: rows (b, d) in float32 or float64, labels (b,) int64.

    columns: rows (m, d) to compare the batch with; the first b are the batch again, without gradient. The labels (m,)
    are then those of the columns, and the second and later entries of a tuple index columns. Without columns, the batch
    is compared with itself.
    """

    embeddings: Tensor
    labels: Tensor
    tuples: Tuples | None
    weights: Tensor | None
    roles: Any
    generator: torch.Generator
    columns: Tensor | None = None

    def geometry(self, *, normalize: bool) -> Geometry:
        """Geometry of the batch and its columns."""
        return Geometry(self.embeddings, self.columns, normalize=normalize)

    def class_masks(self) -> tuple[Tensor, Tensor]:
        """Masks of positives and negatives, in the shape of the geometry's matrices."""
        return class_masks(self.labels, len(self.embeddings))

    def weighted(self, terms: Tensor) -> Tensor:
        """Terms (b, ...) of the anchors times their weights."""
        if self.weights is None:
            return terms
        return terms * self.weights.view(-1, *(1,) * (terms.dim() - 1))

    def weights_of(self, anchors: Tensor) -> Tensor | None:
        """Weights of the anchors of tuples, in the shape of `anchors`; None without weights."""
        return None if self.weights is None else self.weights[anchors]

    def rows_of_roles(self, who: str, names: Sequence[str], optional: str = "") -> dict[str, Tensor]:
        """Rows of the batch by role, on the host; the values of the `optional` role are not rows."""
        roles = self.roles
        if not isinstance(roles, Mapping) or set(roles) - {optional} != set(names):
            got = sorted(roles) if isinstance(roles, Mapping) else kind_of(roles)
            needed = ", ".join(f'"{name}": rows' for name in names)
            also = f' and optionally "{optional}", one number per row' if optional else ""
            raise BadInput(f"{who} got roles {got}; it needs {{{needed}}}{also}.")
        rows = {name: torch.as_tensor(value).cpu().long() for name, value in roles.items()}
        for name in names:
            check_rows(rows[name], len(self.labels), who, name)
        return rows


def checked(inputs: LossInputs, objective: Objective) -> LossInputs:
    """Validate the inputs of a call of `objective`, and convert them."""
    rows, labels, tuples, weights, _, generator, _ = inputs
    who = objective.who
    check_batch(rows, labels, who)
    if objective.dim is not None and rows.shape[1] != objective.dim:
        raise BadInput(
            f"{who} was created with dim={objective.dim} but got embeddings with {rows.shape[1]} dimensions."
        )
    if not isinstance(generator, torch.Generator):
        raise BadInput(f"{who} got {kind_of(generator)} as generator; expected a torch.Generator.")
    rows, labels = objective.working(rows), labels_of_call(labels)
    if objective.num_classes is not None:
        check_classes(labels, objective.num_classes, who)
    if tuples is not None:
        if objective.facts.tuples == "none":
            raise BadInput(f"{who} takes no tuples: it uses the whole batch.")
        tuples = _checked_tuples(tuples, len(labels), who)
    if weights is not None:
        if not objective.takes_weights:
            raise BadInput(f"{who} takes no weights per anchor.")
        if not isinstance(weights, Tensor) or weights.shape != labels.shape:
            raise BadInput(
                f"{who} got {kind_of(weights)} as weights for {len(labels)} embeddings; expected a tensor with one "
                "weight per embedding."
            )
        weights = weights.to(rows.dtype)
    return inputs._replace(embeddings=rows, labels=labels, tuples=tuples, weights=weights)


def check_classes(labels: Tensor, num_classes: int, who: str) -> None:
    """Refuse labels out of range. Waits for the device unless the labels have a copy on the host (`on_device`)."""
    if labels.numel():
        low, high = (int(bound) for bound in torch.aminmax(on_host(labels)))
        if low < 0 or high >= num_classes:
            raise BadInput(
                f"{who} has {num_classes} classes but got the label {low if low < 0 else high}: "
                f"labels must be 0 to {num_classes - 1}."
            )


def check_rows(rows: Tensor, batch: int, who: str, what: str, *, least: int = 0) -> None:
    """Refuse rows out of range. On other devices torch's own check applies, to avoid synchronisation."""
    if rows.device.type == "cpu" and rows.numel():
        low, high = (int(bound) for bound in torch.aminmax(rows))
        if low < least or high >= batch:
            wrong = low if low < least else high
            raise BadInput(f"{who} got row {wrong} in the {what}; the batch has rows 0 to {batch - 1}.")


def _checked_tuples(tuples: Tuples, batch: int, who: str) -> Tuples:
    """The tuples as int64: one tensor (t, columns), or two tensors of positive and negative pairs."""
    if isinstance(tuples, Tensor):
        return _checked_indices(tuples, batch, who)
    if not (isinstance(tuples, tuple | list) and [isinstance(pairs, Tensor) for pairs in tuples] == [True, True]):
        raise BadInput(
            f"{who} got {kind_of(tuples)} as tuples; expected one tensor, such as triplets (t, 3), or two tensors of "
            "pairs, positive (p, 2) and negative (q, 2). To join columns: torch.stack((a, p, n), 1)."
        )
    first, second = (_checked_indices(pairs if pairs.numel() else pairs.view(-1, 2), batch, who) for pairs in tuples)
    for pairs in (first, second):
        if pairs.dim() != 2 or pairs.shape[1] != 2:
            raise BadInput(
                f"{who} got pairs of shape {tuple(pairs.shape)}; expected positive (p, 2) and negative (q, 2)."
            )
    return first, second


def _checked_indices(tuples: Tensor, batch: int, who: str) -> Tensor:
    """Convert to int64; an empty list may be float, the dtype of `torch.tensor([])`."""
    if tuples.is_floating_point() and tuples.numel():
        raise BadInput(f"'tuples' must be integer indices into the batch, not {tuples.dtype}.")
    tuples = tuples.long()
    quadruplets = tuples.dim() == 2 and tuples.shape[1] == 4  # in which -1 means no fourth sample
    check_rows(tuples, batch, who, "tuples", least=-1 if quadruplets else 0)
    return tuples
