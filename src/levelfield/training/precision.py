"""The numbers of a run: their format, deterministic kernels, and memory that is not enough."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from levelfield.errors import BadSpecification, RunFailed
from levelfield.geometry import tf32
from levelfield.training.conditions import Conditions

_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory")  # as MPS and the CPU say it
_LEAST_SCALE = 1.0  # it starts at 65,536 and halves with every overflow
_BF16 = (8, 0)  # the least compute capability with bf16: NVIDIA Ampere


class Precision:
    """How a loop computes its gradients in one of the formats of `Conditions.precision`. The embedder itself calls its
    network under autocast.

    "fp16" multiplies the loss by a factor, so that small gradients do not become 0. The factor halves after a step
    whose gradients overflow, which changes no weight, and grows after many steps that do not. The other formats change
    nothing here.

    >>> weight = torch.nn.Parameter(torch.ones(1))
    >>> optimiser, precision = torch.optim.SGD([weight], lr=0.5), Precision("float32")
    >>> precision.scaled(weight.sum()).backward()
    >>> precision.step([optimiser])
    >>> weight.item()
    0.5
    """

    def __init__(self, name: str = "float32", device: str | torch.device = "cpu") -> None:
        self.name = name
        self._scaler = torch.amp.GradScaler(torch.device(device).type, enabled=name == "fp16")

    def context(self) -> AbstractContextManager[None]:
        """Context of the steps: products and convolutions of float32 are float32, unless the format is tf32."""
        return tf32(self.name == "tf32")

    def scaled(self, loss: Tensor) -> Tensor:
        """The loss whose backward pass gives the gradients for `unscale_` and `step`."""
        return self._scaler.scale(loss)

    def unscale_(self, optimisers: Sequence[Optimizer]) -> None:
        """Divide the gradients by the factor, before they are clipped."""
        for optimiser in self._scaled(optimisers):
            self._scaler.unscale_(optimiser)

    def step(self, optimisers: Sequence[Optimizer]) -> None:
        """Update the weights; without a wait for the device if the optimisers are fused."""
        stepped = self._scaled(optimisers)
        for optimiser in stepped:
            self._scaler.step(optimiser)
        if stepped:
            self._scaler.update()

    def check(self) -> None:
        """Refuse to go on if gradients overflow in step after step, which changes no weight. Waits for the device."""
        if self._scaler.is_enabled() and (scale := self._scaler.get_scale()) < _LEAST_SCALE:
            raise RunFailed(
                f"The gradients are not finite in fp16, step after step (the scale of the loss fell to {scale:g}), so "
                "nothing trains. Use precision: bf16 or float32, or a lower learning rate."
            )

    def state_dict(self) -> dict[str, Any]:
        return self._scaler.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self._scaler.is_enabled():
            self._scaler.load_state_dict(state)

    def _scaled(self, optimisers: Sequence[Optimizer]) -> Sequence[Optimizer]:
        """The optimisers for the scaler, which refuses one without any gradient, as in a batch without pairs."""
        if not self._scaler.is_enabled():
            return optimisers
        return [each for each in optimisers if any(p.grad is not None for g in each.param_groups for p in g["params"])]


def check_precision(name: str, device: str) -> None:
    """Refuse a format that the device does not have.

    >>> check_precision("fp16", "cpu")
    Traceback (most recent call last):
    ...
    levelfield.errors.BadSpecification: precision: fp16 needs an NVIDIA GPU (--device cuda), but this study computes ...
    """
    kind = torch.device(device).type
    if name in ("fp16", "tf32") and kind != "cuda":
        raise BadSpecification(
            f"precision: {name} needs an NVIDIA GPU (--device cuda), but this study computes on {device}. Use "
            "precision: bf16 or float32."
        )
    if name == "bf16" and kind == "cuda" and torch.version.hip is None:
        capability, gpu = torch.cuda.get_device_capability(device), torch.cuda.get_device_name(device)
        if capability < _BF16:
            raise BadSpecification(
                f"precision: bf16 needs a GPU of compute capability 8.0 or higher, but {gpu} has {capability[0]}."
                f"{capability[1]}. Use precision: fp16 or float32."
            )


@contextmanager
def numerics(conditions: Conditions, device: str) -> Iterator[None]:
    """Context of all computations of a run; says what to do about too little memory and missing kernels."""
    try:
        with _deterministic(conditions.deterministic and torch.device(device).type == "cuda"):
            yield
    except RuntimeError as error:
        if (message := _explanation(error, conditions, device)) is None:
            raise
        raise RunFailed(message) from error


def _explanation(error: RuntimeError, conditions: Conditions, device: str) -> str | None:
    """The message for too little memory or for a kernel that is not deterministic; None for other errors."""
    text = str(error)
    if isinstance(error, torch.OutOfMemoryError) or any(sign in text for sign in _OUT_OF_MEMORY):
        size, pieces = conditions.layout.batch_size, conditions.accumulate
        more = next((k for k in range(2 * pieces, size) if size % k == 0), size)  # it has to divide the batch
        return (
            f"The memory of {device} is not enough for a batch of {size} images "
            f"({conditions.batch}) of {conditions.image} pixels, embedded in {pieces} piece(s). Ways "
            f"out: more pieces with the same result (conditions.accumulate={more}), a smaller "
            f"conditions.batch, a smaller conditions.image, or fewer --jobs{'' if device == 'cpu' else ' per GPU'}."
        )
    if "does not have a deterministic implementation" in text:
        operation = text.split(" does not", 1)[0]
        return (
            f"deterministic: true cannot be kept: {operation} has no deterministic kernel on {device}. Leave the "
            "condition out; bits can then differ between two runs."
        )
    return None


def same_bits(deterministic: bool, device: str) -> bool:
    """Whether a run gives the same bits again on the same machine."""
    kind = torch.device(device).type
    return kind == "cpu" or (kind == "cuda" and deterministic)


@contextmanager
def _deterministic(wanted: bool) -> Iterator[None]:
    if not wanted:
        yield
        return
    cudnn = torch.backends.cudnn
    before = torch.are_deterministic_algorithms_enabled(), cudnn.deterministic, cudnn.benchmark
    os.environ.setdefault(_WORKSPACE, ":4096:8")  # read by cuBLAS when the process first uses it
    try:
        torch.use_deterministic_algorithms(True)
        cudnn.deterministic, cudnn.benchmark = True, False
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        _, cudnn.deterministic, cudnn.benchmark = before
