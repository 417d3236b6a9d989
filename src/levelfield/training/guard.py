"""The guard: checks at every step that only the loop's optimisers change the network, and that they are unchanged.

Checksums are cheap enough for every step (0.01 ms for a head, 5 ms for 4 million weights).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules import module as modules
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import Optimizer, optimizer

from levelfield.embedder import Embedder, Trunk
from levelfield.errors import RunFailed, Unfair

_GLOBAL_HOOKS: tuple[Mapping[int, Any], ...] = (
    optimizer._global_optimizer_pre_hooks,
    modules._global_forward_hooks,
    modules._global_forward_pre_hooks,
    modules._global_backward_hooks,
    modules._global_backward_pre_hooks,
)
_KNOWN = [set(hooks) for hooks in _GLOBAL_HOOKS]  # at import time: before any user code runs


class Guard:
    """Guard of one run. The loop announces its weight updates; any other change of the weights is refused."""

    def __init__(self, embedder: Embedder, optimisers: Sequence[Optimizer]) -> None:
        self._embedder, self._optimisers = embedder, list(optimisers)
        self._members = [[list(map(id, group["params"])) for group in each.param_groups] for each in optimisers]
        self._after_step: set[int] = set()
        self._settings = process_settings()
        moving = may_change(embedder.trunk)
        self._frozen = {name: each for name, each in embedder.trunk.state_dict().items() if name not in moving}
        self._loaded = marks(self._frozen)
        own = dict(embedder.named_parameters())
        self._own = {name: each for name, each in own.items() if name.removeprefix("trunk.") not in self._frozen}
        self._rates: list[list[dict[str, Any]]] = []
        self._best: dict[str, int] | None = None
        self._now = marks(self._moving())

    def begin(self, *, resumed: bool) -> None:
        """Record the initial weights, or those of a checkpoint."""
        self._after_step = set(optimizer._global_optimizer_post_hooks)
        if resumed:
            self.updated()
        self.check_weights()

    def begin_step(self) -> None:
        """Record the learning rates, which must not change until the optimiser step."""
        self._rates = self._options()

    def check_gradients(self) -> None:
        """Check that there are no gradients before the backward pass."""
        for name, parameter in self._own.items():
            if parameter.grad is not None:
                raise Unfair(
                    f"The method's step leaves a gradient on the weights '{name}'. A step must only return a loss; "
                    "the loop computes its gradients."
                )

    def before_update(self) -> None:
        """Check that nothing that determines the update was changed."""
        check_process(self._settings)
        if self._options() != self._rates:
            raise Unfair(f"The method's step changes optimiser settings: {self._what_changed()}.")
        members = [[list(map(id, group["params"])) for group in each.param_groups] for each in self._optimisers]
        if members != self._members:
            raise Unfair("The method changes which weights the optimiser trains.")
        self._check_hooks()
        self.check_weights()

    def updated(self) -> None:
        """Record the weights after the optimiser step."""
        self._now = marks(self._moving())

    def check_weights(self) -> None:
        """Check that weights and optimiser state are unchanged since the last update."""
        for name, mark in marks(self._moving()).items():
            if self._now.get(name) != mark:
                what = f"the optimiser state {name}" if name not in self._own else f"the weights '{name}'"
                raise Unfair(f"The method's step changes {what}; only the loop may update it.")

    def remember_best(self) -> None:
        """Record the current weights as the ones to restore at the end."""
        self.check_weights()
        self._best = marks(self._own)

    def end(self) -> None:
        """Check after the last step, with the best weights restored if there are any."""
        if self._best is not None and marks(self._own) != self._best:
            raise Unfair("The kept weights are not the ones that validated best: the method changed them.")
        self.updated()
        self.check_frozen()

    def check_frozen(self) -> None:
        """Check that everything below the cut and the BatchNorm statistics are unchanged, and that no weight was
        replaced."""
        there = {id(parameter) for parameter in self._embedder.parameters()}
        for name, parameter in self._own.items():
            if id(parameter) not in there:
                raise Unfair(f"The method replaces the weights '{name}'.")
        for name, mark in marks(self._frozen).items():
            if self._loaded[name] != mark:
                raise Unfair(f"The method changes '{name}' of the network, which is frozen under these conditions.")

    def check_saved(self, stored: Mapping[str, Tensor]) -> None:
        """Check that the saved model equals the trained one."""
        self.check_weights()
        self.check_frozen()
        now = {**dict(self._embedder.named_parameters()), **dict(self._embedder.named_buffers())}
        for name, tensor in stored.items():
            if not torch.equal(now[name].detach().cpu(), tensor):
                raise Unfair(
                    f"The saved model differs from the trained model in '{name}': the method changed what is saved."
                )

    def _moving(self) -> dict[str, Tensor]:
        found: dict[str, Tensor] = dict(self._own)
        for number, each in enumerate(self._optimisers):
            for place, kept in enumerate(each.state.values()):
                tensors = {key: value for key, value in kept.items() if isinstance(value, Tensor)}
                found |= {f"'{key}' of weight {place} in optimiser {number}": value for key, value in tensors.items()}
        return found

    def _options(self) -> list[list[dict[str, Any]]]:
        return [
            [{key: value for key, value in group.items() if key != "params"} for group in each.param_groups]
            for each in self._optimisers
        ]

    def _what_changed(self) -> str:
        pairs = [
            (now, then)
            for news, thens in zip(self._options(), self._rates, strict=True)
            for now, then in zip(news, thens, strict=True)
        ]
        told = [
            f"{key} of '{then.get('name')}' is {now.get(key)} instead of {then.get(key)}"
            for now, then in pairs
            for key in sorted({*now, *then})
            if now.get(key) != then.get(key)
        ]
        return ", ".join(told)

    def _check_hooks(self) -> None:
        """Check that nothing hooks into the optimiser step."""
        own = any(each._optimizer_step_pre_hooks or each._optimizer_step_post_hooks for each in self._optimisers)
        own = own or any({"step", "zero_grad"} & vars(each).keys() for each in self._optimisers)
        everywhere = set(optimizer._global_optimizer_post_hooks) != self._after_step
        if own or everywhere or any(set(now) - known for now, known in zip(_GLOBAL_HOOKS, _KNOWN, strict=True)):
            raise Unfair(
                "The method hooks into the optimiser's step or into all modules, where the ledger cannot see it. "
                "Remove the hook: a step only computes a loss."
            )


def may_change(trunk: Trunk) -> set[str]:
    """Names in the trunk's state that training may change: parameters above the cut, and BatchNorm statistics if the
    conditions allow it."""
    found = {name for name, _ in trunk.trainable()}
    if trunk.batch_norm == "train":
        for place, module in trunk.named_modules():
            if isinstance(module, _BatchNorm) and not f"{place}.".startswith(trunk.frozen_prefixes):
                found |= {f"{place}.{name}" for name, _ in module.named_buffers(recurse=False)}
    return found


def marks(tensors: Mapping[str, Tensor]) -> dict[str, int]:
    """Checksum of each tensor.

    >>> weights = torch.zeros(3)
    >>> before = marks({"w": weights})
    >>> weights.data[1] += 1e-6
    >>> before == marks({"w": weights})
    False
    """
    return {name: _mark(tensor) for name, tensor in tensors.items()}


def _mark(tensor: Tensor) -> int:
    """Sum of the tensor's bits as integers, in words of eight bytes if possible."""
    if not tensor.numel():
        return 0
    tensor = tensor.detach()
    if not tensor.is_contiguous():
        # in memory order, whatever the order of the axes
        tensor = tensor.permute(sorted(range(tensor.ndim), key=tensor.stride, reverse=True)).contiguous()
    flat = tensor.view(-1).view(torch.uint8)
    even = flat.numel() // 8 * 8 if flat.storage_offset() % 8 == 0 else 0
    total = int(flat[:even].view(torch.int64).sum()) if even else 0
    return total + int(flat[even:].sum(dtype=torch.int64))


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
    for name in changed_keys(before, now):
        raise Unfair(f"The method changed torch's {name} for the whole process, from {before[name]} to {now[name]}.")


def changed_keys(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterable[str]:
    return (name for name in before if before[name] != now[name])
