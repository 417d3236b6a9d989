"""What an objective is handed in one call: checked once, and in the form that all of them compute with."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from levelfield.errors import BadInput
from levelfield.geometry import working
from levelfield.miners import Tuples


class Given(NamedTuple):
    """One call's input, checked: rows (b, d) in float32 or float64, labels (b,) int64."""

    embeddings: Tensor
    labels: Tensor
    tuples: Tuples | None
    weights: Tensor | None
    roles: Any
    generator: torch.Generator


def checked(given: Given, objective: str, *, dim: int | None, takes_tuples: bool, takes_weights: bool) -> Given:
    """`given` as the objective of that name computes with it. `dim`: the only width it can have, None for any."""
    rows, labels, tuples, weights, roles, generator = given
    _check_batch(rows, labels, objective, dim)
    if not isinstance(generator, torch.Generator):
        raise BadInput(f"Objective '{objective}' got {_kind(generator)} as generator; a torch.Generator is needed.")
    rows, labels = working(rows), labels.long().contiguous()
    if tuples is not None:
        if not takes_tuples:
            raise BadInput(f"Objective '{objective}' takes no tuples: it uses the whole batch by its own rule.")
        tuples = _indices(tuples, len(labels), objective)
    if weights is not None:
        if not takes_weights:
            raise BadInput(f"Objective '{objective}' takes no weights per anchor.")
        if not isinstance(weights, Tensor) or weights.shape != labels.shape:
            raise BadInput(
                f"Objective '{objective}' got {_kind(weights)} as weights for {len(labels)} embeddings: one weight per "
                "embedding is needed, as a tensor."
            )
        weights = weights.to(rows.dtype)
    return Given(rows, labels, tuples, weights, roles, generator)


def check_rows(rows: Tensor, batch: int, objective: str, what: str, *, least: int = 0) -> None:
    """Refuse rows that the batch does not have. On other devices torch's own check applies: reading would wait."""
    if rows.device.type == "cpu" and rows.numel():
        low, high = (int(bound) for bound in torch.aminmax(rows))
        if low < least or high >= batch:
            wrong = low if low < least else high
            raise BadInput(f"Objective '{objective}' got row {wrong} among the {what}; the batch has 0 to {batch - 1}.")


def _check_batch(rows: Tensor, labels: Tensor, objective: str, dim: int | None) -> None:
    if not isinstance(rows, Tensor) or not isinstance(labels, Tensor):
        raise BadInput(
            f"Objective '{objective}' got {_kind(rows)} as embeddings and {_kind(labels)} as labels: "
            "tensors are needed."
        )
    if rows.dim() != 2 or labels.dim() != 1 or not rows.is_floating_point():
        raise BadInput(
            f"Objective '{objective}' got embeddings of shape {tuple(rows.shape)} ({rows.dtype}) and "
            f"labels of shape {tuple(labels.shape)}: floating rows (batch, dim) and labels (batch,) are needed."
        )
    if len(rows) != len(labels):
        raise BadInput(
            f"Objective '{objective}' got {len(rows)} embeddings but {len(labels)} labels: "
            "one label per embedding is needed."
        )
    if labels.is_floating_point() or labels.is_complex():
        raise BadInput(f"Objective '{objective}' got labels of type {labels.dtype}; integers are needed.")
    if dim is not None and rows.shape[1] != dim:
        raise BadInput(f"Objective '{objective}' was made for dim={dim} and got embeddings of {rows.shape[1]} numbers.")


def _indices(tuples: Tuples, batch: int, objective: str) -> Tuples:
    """The tuples as int64: one tensor (t, columns), or two of pairs, which miners call positive and negative."""
    if isinstance(tuples, Tensor):
        return _rows(tuples, batch, objective)
    if not (isinstance(tuples, tuple | list) and [isinstance(pairs, Tensor) for pairs in tuples] == [True, True]):
        raise BadInput(
            f"Objective '{objective}' got {_kind(tuples)} as tuples: one tensor is needed, such as triplets (t, 3), or "
            "two of pairs, positive (p, 2) and negative (q, 2). Columns that came apart: torch.stack((a, p, n), 1)."
        )
    first, second = (_rows(pairs.reshape(-1, 2) if not pairs.numel() else pairs, batch, objective) for pairs in tuples)
    for pairs in (first, second):
        if pairs.dim() != 2 or pairs.shape[1] != 2:
            raise BadInput(
                f"Objective '{objective}' got pairs of shape {tuple(pairs.shape)}: positive (p, 2) and negative (q, 2) "
                "are needed."
            )
    return first, second


def _rows(tuples: Tensor, batch: int, objective: str) -> Tensor:
    """As int64; an empty list may have come as float, which is torch's type for `torch.tensor([])`."""
    if tuples.is_floating_point() and tuples.numel():
        raise BadInput(f"'tuples' are indices into the batch; they came as {tuples.dtype}.")
    tuples = tuples.long()
    fourth = tuples.dim() == 2 and tuples.shape[1] == 4  # of quadruplets, -1 where there is none
    check_rows(tuples, batch, objective, "tuples", least=-1 if fourth else 0)
    return tuples


def _kind(value: Any) -> str:
    """What came, in words.

    >>> _kind(torch.ones(2, 3)), _kind(7), _kind((torch.ones(2), torch.ones(2)))
    ('a tensor of shape (2, 3)', 'a value of type int', 'a tuple of 2')
    """
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    name = type(value).__name__
    return f"a {name} of {len(value)}" if isinstance(value, tuple | list) else f"a value of type {name}"
