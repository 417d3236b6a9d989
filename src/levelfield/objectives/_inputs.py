"""Inputs of one call of an objective, validated once and in a common form."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from levelfield.errors import BadInput
from levelfield.geometry import Geometry, working
from levelfield.labels import class_masks, labels_of_call, on_host
from levelfield.miners import Tuples
from levelfield.miners._contract import check_batch, kind_of


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


def checked(
    inputs: LossInputs,
    objective: str,
    *,
    dim: int | None,
    num_classes: int | None,
    takes_tuples: bool,
    takes_weights: bool,
) -> LossInputs:
    """Validate and convert the inputs of the named objective. `dim`, `num_classes`: those it expects, None: any."""
    rows, labels, tuples, weights, roles, generator, _ = inputs
    _check_batch(rows, labels, objective, dim)
    if not isinstance(generator, torch.Generator):
        raise BadInput(f"Objective '{objective}' got {kind_of(generator)} as generator; expected a torch.Generator.")
    rows, labels = working(rows), labels_of_call(labels)
    if num_classes is not None:
        check_classes(labels, num_classes, objective)
    if tuples is not None:
        if not takes_tuples:
            raise BadInput(f"Objective '{objective}' takes no tuples: it uses the whole batch.")
        tuples = _indices(tuples, len(labels), objective)
    if weights is not None:
        if not takes_weights:
            raise BadInput(f"Objective '{objective}' takes no weights per anchor.")
        if not isinstance(weights, Tensor) or weights.shape != labels.shape:
            raise BadInput(
                f"Objective '{objective}' got {kind_of(weights)} as weights for {len(labels)} embeddings; expected "
                "a tensor with one weight per embedding."
            )
        weights = weights.to(rows.dtype)
    return LossInputs(rows, labels, tuples, weights, roles, generator)


def check_classes(labels: Tensor, num_classes: int, objective: str) -> None:
    """Refuse labels out of range. Waits for the device unless the labels have a copy on the host (`on_device`)."""
    if labels.numel():
        low, high = (int(bound) for bound in torch.aminmax(on_host(labels)))
        if low < 0 or high >= num_classes:
            raise BadInput(
                f"Objective '{objective}' has {num_classes} classes but got the label {low if low < 0 else high}: "
                f"labels must be 0 to {num_classes - 1}."
            )


def check_rows(rows: Tensor, batch: int, objective: str, what: str, *, least: int = 0) -> None:
    """Refuse rows out of range. On other devices torch's own check applies, to avoid synchronisation."""
    if rows.device.type == "cpu" and rows.numel():
        low, high = (int(bound) for bound in torch.aminmax(rows))
        if low < least or high >= batch:
            wrong = low if low < least else high
            raise BadInput(
                f"Objective '{objective}' got row {wrong} in the {what}; the batch has rows 0 to {batch - 1}."
            )


def _check_batch(rows: Tensor, labels: Tensor, objective: str, dim: int | None) -> None:
    check_batch(rows, labels, f"Objective '{objective}'")
    if dim is not None and rows.shape[1] != dim:
        raise BadInput(
            f"Objective '{objective}' was created with dim={dim} but got embeddings with {rows.shape[1]} dimensions."
        )


def _indices(tuples: Tuples, batch: int, objective: str) -> Tuples:
    """The tuples as int64: one tensor (t, columns), or two tensors of positive and negative pairs."""
    if isinstance(tuples, Tensor):
        return _rows(tuples, batch, objective)
    if not (isinstance(tuples, tuple | list) and [isinstance(pairs, Tensor) for pairs in tuples] == [True, True]):
        raise BadInput(
            f"Objective '{objective}' got {kind_of(tuples)} as tuples; expected one tensor, such as triplets (t, 3), "
            "or two tensors of pairs, positive (p, 2) and negative (q, 2). To join columns: torch.stack((a, p, n), 1)."
        )
    first, second = (_rows(pairs.reshape(-1, 2) if not pairs.numel() else pairs, batch, objective) for pairs in tuples)
    for pairs in (first, second):
        if pairs.dim() != 2 or pairs.shape[1] != 2:
            raise BadInput(
                f"Objective '{objective}' got pairs of shape {tuple(pairs.shape)}; expected positive (p, 2) and "
                "negative "
                "(q, 2)."
            )
    return first, second


def _rows(tuples: Tensor, batch: int, objective: str) -> Tensor:
    """Convert to int64; an empty list may be float, the dtype of `torch.tensor([])`."""
    if tuples.is_floating_point() and tuples.numel():
        raise BadInput(f"'tuples' must be integer indices into the batch, not {tuples.dtype}.")
    tuples = tuples.long()
    fourth = tuples.dim() == 2 and tuples.shape[1] == 4  # quadruplets: -1 means no fourth sample
    check_rows(tuples, batch, objective, "tuples", least=-1 if fourth else 0)
    return tuples
