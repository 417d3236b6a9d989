"""The pretended device refuses what CUDA refuses and lists what makes the host wait."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from pretended_gpu import waits, without_float64

X = torch.randn(8, 4, device="cuda")
HERE = torch.randn(8, 4)
NUMBERS = torch.ones(2, 2, dtype=torch.int64, device="cuda")

REFUSED: dict[str, Callable[[], object]] = {
    "two devices": lambda: X + HERE,
    "a row of the CPU by an index of the device": lambda: HERE[torch.tensor([0], device="cuda")],
    "NumPy": lambda: X.numpy(),
    "a generator of the CPU": lambda: torch.rand(3, device="cuda", generator=torch.Generator()),
    "a product of integers": lambda: NUMBERS @ NUMBERS,
    "a network of another device": lambda: torch.nn.Linear(4, 2)(X),
}
WAITS: dict[str, tuple[int, Callable[[], object]]] = {
    "a number": (1, lambda: X.sum().item()),
    "a condition": (1, lambda: bool((X > 0).any())),
    "a boolean index": (1, lambda: X[X > 0]),
    "to the host": (1, lambda: X.cpu()),
    "to the device": (1, lambda: HERE.to("cuda")),
    "to the device without blocking": (0, lambda: HERE.to("cuda", non_blocking=True)),
    "a filled mask": (0, lambda: X.clone().masked_fill_(X > 0, 0)),
    "a number by a mask": (0, lambda: X.clone().__setitem__(X > 0, 0.0)),
    "arithmetic": (0, lambda: (X @ X.T).softmax(1).sum() * 2 + torch.tensor(1.0)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_the_device_refuses(what: str) -> None:
    with pytest.raises((RuntimeError, TypeError)):
        REFUSED[what]()


@pytest.mark.parametrize("what", WAITS)
def test_the_waits_are_counted(what: str) -> None:
    number, act = WAITS[what]
    with waits() as waited:
        act()
    assert len(waited) == number, waited


def test_a_device_without_float64_refuses_it() -> None:
    with without_float64(), pytest.raises(TypeError, match="float64"):
        X.double()
