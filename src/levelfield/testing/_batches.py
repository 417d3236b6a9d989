"""Batches for testing the laws: an ordinary one, and degenerate ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from levelfield.errors import BadInput
from levelfield.randomness import stream

CLASSES = 4
"""Number of classes for which laws call factories."""
DIM = 8
"""Dimension for which laws call factories."""
_made_for = ContextVar("made_for", default=(CLASSES, DIM))


@contextmanager
def made_for(*, classes: int = CLASSES, dim: int = DIM) -> Iterator[None]:
    """Context that sets the number of classes (the batches have 4 of them) and the dimension of the objectives.

    >>> with made_for(dim=3):
    ...     ordinary()[0].shape
    torch.Size([12, 3])
    """
    if classes < CLASSES or dim < 1:
        raise BadInput(f"Laws need at least {CLASSES} classes and 1 dimension, not {classes} and {dim}.")
    token = _made_for.set((classes, dim))
    try:
        yield
    finally:
        _made_for.reset(token)


def classes_made_for() -> int:
    """Number of classes of the objectives under test."""
    return _made_for.get()[0]


def ordinary(*, dtype: torch.dtype = torch.float32, name: str = "ordinary") -> tuple[Tensor, Tensor]:
    """12 rows, uneven classes, one of them with a single row; classes overlap, so that losses are not 0.

    >>> embeddings, labels = ordinary()
    >>> embeddings.shape, labels.bincount().tolist()
    (torch.Size([12, 8]), [5, 4, 2, 1])
    """
    generator, (_, dim) = stream(0, "levelfield.testing", name), _made_for.get()
    labels = torch.tensor([0, 1, 0, 2, 1, 0, 3, 1, 0, 2, 1, 0])
    centres = torch.randn(CLASSES, dim, generator=generator, dtype=torch.float64)
    noise = torch.randn(len(labels), dim, generator=generator, dtype=torch.float64)
    return (centres[labels] + noise).to(dtype), labels


def layouts() -> dict[str, tuple[Tensor, Tensor]]:
    """Batches of every shape for which two implementations of a loss must agree.

    >>> {name: labels.bincount().tolist() for name, (_, labels) in layouts().items() if "each" in name}
    {'two each': [2, 2, 2, 2], 'three each': [3, 3, 3, 3]}
    """
    rows, _ = ordinary(name="layouts")
    unlike = degenerate()
    return {
        "two each": (rows[:8], torch.arange(8) % CLASSES),
        "three each": (rows, torch.arange(12) % CLASSES),
        "two classes": (rows, torch.arange(12) % 2),
        **{name: unlike[name] for name in ("one class", "singletons only", "coincident across classes", "zero rows")},
    }


def degenerate() -> dict[str, tuple[Tensor, Tensor]]:
    """Batches on which a loss must still be finite, attached to the graph, with finite gradients.

    >>> sorted(degenerate())[:3]
    ['all equal', 'coincident across classes', 'empty']
    """
    rows, labels = ordinary()
    same = rows[:1].expand(12, -1).clone()
    some_zero = rows.clone()
    some_zero[::3] = 0
    coincident = rows.clone()
    coincident[1], coincident[2], coincident[4] = rows[0], rows[0], 3 * rows[0]
    return {
        "one class": (rows, torch.zeros_like(labels)),
        "singletons only": (rows[:CLASSES], torch.arange(CLASSES)),
        "two of one class": (rows[:2], torch.tensor([1, 1])),
        "two of two classes": (rows[:2], torch.tensor([0, 1])),
        "one row": (rows[:1], labels[:1]),
        "empty": (rows[:0], labels[:0]),
        "all equal": (same, labels),
        "coincident across classes": (coincident, labels),
        "zero rows": (some_zero, labels),
        "nothing but zeros": (torch.zeros_like(rows), labels),
        "opposite rows": (torch.cat((rows[:6], -rows[:6])), labels),
        "huge": (rows * 1e6, labels),
        "tiny": (rows * 1e-6, labels),
        "huge beside tiny": (rows * torch.logspace(-6, 6, 12)[:, None], labels),
    }
