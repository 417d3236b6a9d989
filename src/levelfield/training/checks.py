"""Checks of the loop: divided batches, the terms of a loss, and missing gradients."""

from __future__ import annotations

from torch import Tensor

from levelfield.errors import BadSpecification, RunFailed
from levelfield.methods import Method
from levelfield.training.conditions import Conditions
from levelfield.training.state import TrainingState


def check_division(method: Method, conditions: Conditions) -> None:
    """Refuse to divide a batch (`accumulate`, `processes`) if an image's row depends on the other images."""
    if conditions.accumulate > 1 and not method.divisible:
        raise BadSpecification(
            f"accumulate: {conditions.accumulate} embeds a batch in pieces, but this method mixes hidden states of the "
            "whole batch. Set accumulate: 1."
        )
    for name, count in (("accumulate", conditions.accumulate), ("processes", conditions.processes)):
        if count > 1 and conditions.batch_norm == "train" and conditions.cut != "frozen":
            raise BadSpecification(
                f"{name}: {count} cannot be combined with batch_norm: train, which computes statistics over all images "
                "of a batch. Set batch_norm: statistics."
            )


def check_terms(terms: dict[str, Tensor]) -> None:
    """Refuse a step that does not return named scalar terms."""
    if not isinstance(terms, dict) or not terms:
        came = "no term" if isinstance(terms, dict) else f"a {type(terms).__name__}"
        raise RunFailed(f"A step must return the terms of its loss as a dict of scalar tensors; it returned {came}.")
    for name, term in terms.items():
        if not isinstance(term, Tensor) or term.numel() != 1:
            came = f"a tensor {tuple(term.shape)}" if isinstance(term, Tensor) else f"{type(term).__name__} {term!r}"
            raise RunFailed(f"The term '{name}' of the loss is {came}; expected a scalar tensor.")


def check_trained(state: TrainingState) -> None:
    """Refuse a run whose loss never depended on a weight: it trained nothing."""
    if state.step and state.without_gradient == state.step:
        raise RunFailed(
            f"None of the {state.step} steps had a gradient: the loss does not depend on the network. Does it "
            "detach the embeddings, or compute under torch.no_grad()?"
        )
