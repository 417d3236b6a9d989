"""Helpers of the laws: create an objective, measure it, compare results.

`factory(**extra)` creates an objective for CLASSES classes and DIM dimensions, always with the same parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from levelfield.objectives import Objective, as_objective
from levelfield.randomness import stream
from levelfield.testing._batches import classes_made_for

Factory = Callable[..., nn.Module]
"""Makes a new objective; takes keywords such as `miner`."""
Law = Callable[[Factory], str | None]
"""Raises AssertionError if the law is broken; returns the reason why it does not apply, or None."""


def make(factory: Factory, dtype: torch.dtype = torch.float32, **extra: Any) -> Objective:
    return as_objective(factory(**extra)).to(dtype)


def without_chance(factory: Factory, dtype: torch.dtype = torch.float64) -> Objective:
    """Create the objective with all tuples if its miner is random: a shuffled batch would draw different tuples."""
    objective = make(factory, dtype)
    return objective if objective.miner is None else make(factory, dtype, miner="all")


def measure(objective: Objective, embeddings: Tensor, labels: Tensor, **given: Any) -> tuple[Tensor, Tensor]:
    """Loss and gradient of the rows, with a fresh generator; gradients of parameters are left in the objective."""
    objective.zero_grad()
    rows = embeddings.clone().requires_grad_()
    value = objective(rows, labels, generator=stream(0, "law"), **given)
    assert value.requires_grad, "the loss does not depend on the embeddings"
    value.backward()
    assert rows.grad is not None, "the embeddings got no gradient"
    return value.detach(), rows.grad


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
    classes, found = classes_made_for(), []
    named = [getattr(part, name, 1) for part in objective.modules() for name in ("centers_per_class", "sub_centers")]
    several = max(named)
    for tensor in (*objective.parameters(), *objective.buffers()):
        for view in (tensor, tensor.T) if tensor.dim() == 2 else (tensor,) if tensor.dim() else ():
            if len(view) in (classes, classes * several):
                found.append(view.unflatten(0, (classes, -1)))
                break
    return found
