"""Named random streams: draws depend only on the names of a stream, never on earlier draws."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # importing torch takes seconds, and numpy streams do not need it
    import torch

__all__ = ["drawn_from", "isolated", "numpy_stream", "reseed", "seed_globals", "stream"]


def _number(seed: int, names: tuple[int | str, ...]) -> int:
    """63-bit hash of the seed and the names; 1 and "1" are different names."""
    text = repr((int(seed), *(int(n) if not isinstance(n, str) else n for n in names)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def stream(seed: int, *names: int | str) -> torch.Generator:
    """An independent torch generator for `(seed, *names)`.

    >>> import torch
    >>> first = torch.rand(2, generator=stream(0, "miner", 3))
    >>> torch.equal(first, torch.rand(2, generator=stream(0, "miner", 3)))
    True
    >>> torch.equal(first, torch.rand(2, generator=stream(0, "miner", 4)))
    False
    """
    import torch

    return reseed(torch.Generator(), seed, *names)


def reseed(generator: torch.Generator, seed: int, *names: int | str) -> torch.Generator:
    """Reset `generator` to the stream `(seed, *names)`, for loops that need a new stream at every step."""
    return generator.manual_seed(_number(seed, names))


def numpy_stream(seed: int, *names: int | str) -> np.random.Generator:
    """An independent numpy generator for `(seed, *names)`.

    >>> int(numpy_stream(0, "view").integers(1000)) == int(numpy_stream(0, "view").integers(1000))
    True
    """
    return np.random.Generator(np.random.PCG64(_number(seed, names)))


def seed_globals(seed: int, *names: int | str) -> None:
    """Seed the global generators of torch, numpy and Python with named streams. For use inside `isolated`."""
    import torch

    number = _number(seed, names)
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(number)
    np.random.seed(number % 2**32)  # noqa: NPY002
    random.seed(number)


@contextmanager
def isolated(seed: int, *names: int | str) -> Iterator[None]:
    """Context in which the global generators are named streams; restores their state afterwards.

    levelfield's own parts never use the global generators, but dropout and third-party modules do; inside this context
    they too draw the same numbers after an interruption. Saving and restoring is slow: enter once per loop and call
    `seed_globals` at each step.

    >>> import torch
    >>> with isolated(0, "step", 7):
    ...     first = torch.rand(1)
    >>> with isolated(0, "step", 7):
    ...     torch.equal(first, torch.rand(1))
    True
    """
    import torch

    before = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
    on_gpu = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    seed_globals(seed, *names)
    try:
        yield
    finally:
        torch.set_rng_state(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        random.setstate(before[2])
        if on_gpu:
            torch.cuda.set_rng_state_all(on_gpu)


@contextmanager
def drawn_from(generator: torch.Generator) -> Iterator[None]:
    """Context in which the global generators are seeded from `generator`, for third-party parts that use them.

    >>> import torch
    >>> def draw():
    ...     with drawn_from(stream(0, "miner")):
    ...         return torch.rand(1)
    >>> torch.equal(draw(), draw())
    True
    """
    import torch

    number = int(torch.randint(2**62, (), generator=generator, device=generator.device))
    with isolated(number, "drawn"):
        yield
