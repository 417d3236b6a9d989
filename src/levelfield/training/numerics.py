"""What a run sets and reports about its device: deterministic kernels, and the memory that was not enough."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from levelfield.errors import RunFailed
from levelfield.training.conditions import Conditions

_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory")  # as MPS and the CPU say it


@contextmanager
def numerics(conditions: Conditions, device: str) -> Iterator[None]:
    """Context of everything that a run computes. Its two errors have a message with a way out."""
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
    """Whether a run gives the same bits again on the same machine.

    >>> same_bits(False, "cpu"), same_bits(False, "cuda"), same_bits(True, "cuda")
    (True, False, True)
    """
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
