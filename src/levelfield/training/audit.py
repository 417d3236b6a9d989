"""The audit of a run: what the conditions freeze is frozen, only declared parameters train, the stored model is the
trained one.

Checks run at the start, at log lines, at checkpoints and at the end. They find mistakes, not attacks: changes that are
reverted between two checks, or made outside torch, are not detected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from levelfield.embedder import Embedder, Trunk
from levelfield.embedder.trunk.blockwise import BATCH_NORM
from levelfield.errors import BadSpecification, RunFailed, Unfair
from levelfield.methods import Method
from levelfield.training.checkpoint import TrainingState
from levelfield.training.conditions import Conditions

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Audit:
    """The audit of one run, created before its first step."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._settings = process_settings()
        moving = may_change(embedder.trunk)
        self._frozen = [name for name in embedder.trunk.state_dict() if name not in moving]
        self._loaded = self._checksums()
        parameters = dict(embedder.named_parameters())
        self._trained = {name: p for name, p in parameters.items() if name.removeprefix("trunk.") not in self._frozen}

    def check_gradients(self) -> None:
        """Check before the backward pass that the method's step left no gradient. Does not wait for the device."""
        for name, parameter in self._trained.items():
            if parameter.grad is not None:
                raise Unfair(
                    f"The method's step leaves a gradient on the weights '{name}'. A step must only return a loss; "
                    "the loop computes its gradients."
                )

    def check(self) -> None:
        """Check that everything below the cut and frozen BatchNorm statistics are unchanged, and that the process-wide
        settings are those of the start."""
        check_process(self._settings)
        for name, checksum in self._checksums().items():
            if self._loaded[name] != checksum:
                raise Unfair(f"The method changes '{name}' of the network, which is frozen under these conditions.")

    def _checksums(self) -> dict[str, int]:
        state = self._embedder.trunk.state_dict()
        return checksums({name: state[name] for name in self._frozen})

    def check_saved(self, stored: Mapping[str, Tensor]) -> None:
        """Check that the saved model equals the trained one."""
        self.check()
        now = {**dict(self._embedder.named_parameters()), **dict(self._embedder.named_buffers())}
        for name, tensor in stored.items():
            if not torch.equal(now[name].detach().cpu(), tensor):
                raise Unfair(
                    f"The saved model differs from the trained model in '{name}': the method changed what is saved."
                )


def check_leaves(loss: Tensor, optimisers: Sequence[Optimizer], known: Iterable[Tensor] = ()) -> None:
    """Check that every trainable tensor the loss depends on is in an optimiser group, or among the `known`."""
    declared = {id(p) for optimiser in optimisers for group in optimiser.param_groups for p in group["params"]}
    declared |= {id(tensor) for tensor in known}
    waiting, seen = [loss.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None and id(leaf) not in declared:
            raise Unfair(
                f"The loss depends on a trainable tensor {tuple(leaf.shape)} that is in no optimiser group: "
                "a hidden extra parameter. Return it from `groups()`."
            )
        waiting += [following for following, _ in node.next_functions]


def may_change(trunk: Trunk) -> set[str]:
    """Names in the trunk's state that training may change: parameters above the cut, and BatchNorm statistics if the
    conditions allow it."""
    names = {name for name, _ in trunk.trainable()}
    if trunk.batch_norm == "train":
        for path, module in trunk.named_modules():
            if isinstance(module, BATCH_NORM) and not f"{path}.".startswith(trunk.frozen_prefixes):
                names |= {f"{path}.{name}" for name, _ in module.named_buffers(recurse=False)}
    return names


def checksums(tensors: Mapping[str, Tensor]) -> dict[str, int]:
    """Sum of the bits of each tensor, read from the device at once.

    >>> weights = torch.zeros(3)
    >>> before = checksums({"w": weights})
    >>> weights.data[1] += 1e-6
    >>> before == checksums({"w": weights})
    False
    """
    if not tensors:
        return {}
    sums = [each.detach().view(_INTEGERS[each.element_size()]).sum(dtype=torch.int64) for each in tensors.values()]
    return dict(zip(tensors, torch.stack(sums).tolist(), strict=True))


def process_settings() -> dict[str, Any]:
    """Process-wide settings of torch."""
    return {
        "gradients": torch.is_grad_enabled(),
        "threads": torch.get_num_threads(),
        "dtype": torch.get_default_dtype(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }


def check_process(before: Mapping[str, Any]) -> None:
    """Refuse to continue if the process-wide settings were changed."""
    now = process_settings()
    if before["gradients"] and not now["gradients"]:
        raise RunFailed(
            "The method disabled gradients for the whole process (torch.set_grad_enabled(False)), so "
            "nothing would train. Use `with torch.no_grad():` for a block."
        )
    for name, value in before.items():
        if value != now[name]:
            raise Unfair(f"The method changed torch's {name} for the whole process, from {value} to {now[name]}.")


def check_division(method: Method, conditions: Conditions, trunk: Trunk) -> None:
    """Refuse `accumulate` if neither the batch nor the network can be divided."""
    if conditions.pieces > 1 and not method.divisible:
        raise BadSpecification(
            f"accumulate: {conditions.accumulate} embeds a batch in pieces, but this method mixes hidden states of the "
            "whole batch. Set accumulate: 1."
        )
    if conditions.accumulate > conditions.pieces:
        in_blocks = f"accumulate: {conditions.accumulate} with batch_norm: train computes the network block by block"
        if conditions.compile:
            raise BadSpecification(f"{in_blocks}, which cannot be compiled. Set compile: false.")
        if trunk.blocks < 2:
            raise BadSpecification(
                f"{in_blocks}, but '{trunk.backbone_name}' is one block above the cut '{conditions.cut}'. Divide the "
                "batch among processes (--processes), or set batch_norm: statistics."
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
