"""Named streams: what a thing draws depends on its names alone, never on what was drawn before."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def _number(seed: int, names: tuple[int | str, ...]) -> int:
    """63 bits from the seed and the names; 1 and "1" are different names."""
    text = repr((int(seed), *(int(n) if not isinstance(n, str) else n for n in names)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def stream(seed: int, *names: int | str) -> torch.Generator:
    """An independent torch generator for `(seed, *names)`.

    >>> first = torch.rand(2, generator=stream(0, "miner", 3))
    >>> torch.equal(first, torch.rand(2, generator=stream(0, "miner", 3)))
    True
    >>> torch.equal(first, torch.rand(2, generator=stream(0, "miner", 4)))
    False
    """
    return reseed(torch.Generator(), seed, *names)


def reseed(generator: torch.Generator, seed: int, *names: int | str) -> torch.Generator:
    """Turn `generator` into the stream `(seed, *names)`: for a loop, which needs another one at every step."""
    return generator.manual_seed(_number(seed, names))


def numpy_stream(seed: int, *names: int | str) -> np.random.Generator:
    """An independent numpy generator for `(seed, *names)`.

    >>> int(numpy_stream(0, "view").integers(1000)) == int(numpy_stream(0, "view").integers(1000))
    True
    """
    return np.random.Generator(np.random.PCG64(_number(seed, names)))


@contextmanager
def isolated(seed: int, *names: int | str) -> Iterator[None]:
    """Inside, torch's global generator is the named stream; afterwards it is as it was before.

    Our own parts never draw globally. Dropout and other people's modules do, and inside this block they
    too draw the same numbers after an interruption.

    >>> with isolated(0, "step", 7):
    ...     first = torch.rand(1)
    >>> with isolated(0, "step", 7):
    ...     torch.equal(first, torch.rand(1))
    True
    """
    before = torch.get_rng_state()
    reseed(torch.default_generator, seed, *names)
    try:
        yield
    finally:
        torch.set_rng_state(before)
