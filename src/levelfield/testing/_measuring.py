"""What laws measure with: batches, and functions that create an objective, measure it and compare results.

`factory(**extra)` creates an objective for CLASSES classes and DIM dimensions, always with the same parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn

from levelfield.contexts import holding
from levelfield.errors import BadInput
from levelfield.objectives import Objective, as_objective
from levelfield.randomness import stream

Factory = Callable[..., nn.Module]  # makes a new objective; takes keywords such as `miner`
Law = Callable[[Factory], None]  # raises AssertionError if the law is broken

CLASSES = 4  # number of classes and dimension for which laws call factories
DIM = 8
_made_for = ContextVar("made_for", default=(CLASSES, DIM))


def made_for(*, classes: int = CLASSES, dim: int = DIM) -> AbstractContextManager[None]:
    """Context that sets the number of classes (the batches have 4 of them) and the dimension of the objectives."""
    if classes < CLASSES or dim < 1:
        raise BadInput(f"Laws need at least {CLASSES} classes and 1 dimension, not {classes} and {dim}.")
    return holding(_made_for, (classes, dim))


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
    """Batches of every shape for which two implementations of a loss must agree."""
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


def make(factory: Factory, dtype: torch.dtype = torch.float32, **extra: Any) -> Objective:
    return as_objective(factory(**extra)).to(dtype)


def measure(objective: Objective, embeddings: Tensor, labels: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
    """Loss and gradient of the rows, with a fresh generator; gradients of parameters are left in the objective."""
    objective.zero_grad()
    rows = embeddings.clone().requires_grad_()
    value = objective(rows, labels, generator=stream(0, "law"), **options)
    assert value.requires_grad, "the loss does not depend on the embeddings"
    value.backward()
    assert rows.grad is not None, "the embeddings got no gradient"
    return value.detach(), rows.grad


def without_chance(factory: Factory) -> tuple[Objective, Tensor, Tensor, Tensor, Tensor]:
    """An objective in float64, the ordinary batch, and its loss and gradient. The objective takes all tuples if it has
    a miner, which may be random: a shuffled batch would draw different tuples."""
    objective = make(factory, torch.float64)
    if objective.miner is not None:
        objective = make(factory, torch.float64, miner="all")
    rows, labels = ordinary(dtype=torch.float64)
    return objective, rows, labels, *measure(objective, rows, labels)


def close(first: Tensor, second: Tensor, what: str, *, rtol: float = 1e-9, atol: float = 1e-10) -> None:
    torch.testing.assert_close(first, second, rtol=rtol, atol=atol, msg=lambda text: f"{what}: {text}")


def check_finite(objective: Objective, rows: Tensor, labels: Tensor) -> None:
    value, gradient = measure(objective, rows, labels)
    assert value.isfinite(), f"the loss is {value.item()}"
    assert gradient.isfinite().all(), "a gradient is not finite"
    for name, parameter in objective.named_parameters():
        finite = parameter.grad is None or parameter.grad.isfinite().all()
        assert finite, f"a gradient of '{name}' is not finite"


def per_class(objective: nn.Module) -> list[Tensor]:
    """State of an objective per class, as views (classes, k, ...): rows, or columns as in PML.

    k is 1, or `centers_per_class` (PML: `sub_centers`) if a class has several.
    """
    classes, views = classes_made_for(), []
    named = [getattr(part, name, 1) for part in objective.modules() for name in ("centers_per_class", "sub_centers")]
    several = max(named)
    for tensor in (*objective.parameters(), *objective.buffers()):
        for view in (tensor, tensor.T) if tensor.dim() == 2 else (tensor,) if tensor.dim() else ():
            if len(view) in (classes, classes * several):
                views.append(view.unflatten(0, (classes, -1)))
                break
    return views
