"""Checks of the loop: divided batches, the terms of a loss, and missing gradients."""

from __future__ import annotations

from torch import Tensor

from levelfield.embedder import Trunk
from levelfield.errors import BadSpecification, RunFailed
from levelfield.methods import Method
from levelfield.training.conditions import Conditions
from levelfield.training.state import TrainingState


def check_division(method: Method, conditions: Conditions, trunk: Trunk) -> None:
    """Refuse `accumulate` if neither the batch nor the network can be divided."""
    if conditions.pieces > 1 and not method.divisible:
        raise BadSpecification(
            f"accumulate: {conditions.accumulate} embeds a batch in pieces, but this method mixes hidden states of the "
            "whole batch. Set accumulate: 1."
        )
    if conditions.accumulate > conditions.pieces and conditions.compile:
        raise BadSpecification(
            f"accumulate: {conditions.accumulate} with batch_norm: train computes the network block by block, which "
            "cannot be compiled. Set compile: false."
        )
    if conditions.accumulate > conditions.pieces and trunk.blocks < 2:
        raise BadSpecification(
            f"accumulate: {conditions.accumulate} with batch_norm: train computes the network block by block, but "
            f"'{trunk.backbone_name}' is one block above the cut '{conditions.cut}'. Divide the batch among processes "
            "(--processes), or set batch_norm: statistics."
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
