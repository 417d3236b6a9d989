"""Compute in blocks of fixed size.

On a CPU the last bits of a network's output depend on the batch size, which selects the kernels. In a block of fixed
size they depend neither on the position nor on the other rows (measured for all families of trunks and for the head;
tested). So everything that is stored or compared is computed in blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import version
from typing import Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor

from levelfield.progress import SILENT_STAGE, Stage

# lite0 at 64 px, ms an image in blocks of 4, 8, 16, 32, 64: 2.7, 2.0, 1.55, 1.45, 1.9; at 224 px 2 to 8 are fastest.
# With 16 rows, one and two threads give the same bits (with 8 they do not).
BLOCK = 16
"""Rows of a block on a CPU."""

_ELSEWHERE = 128  # rows of a block on other devices, which are idle with few


def block_size(device: torch.device) -> int:
    """Rows of a block on `device`."""
    return BLOCK if device.type == "cpu" else _ELSEWHERE


# Everything besides network and image that affects bits: part of every cache key.
_VERSIONS = " ".join(f"{name}={version(name)}" for name in ("torch", "timm", "pillow"))
COMPUTED_BY = f"block={BLOCK} {_VERSIONS} cpu={torch.backends.cpu.get_cpu_capability()}"


@runtime_checkable
class Source(Protocol):
    """Rows that are fetched on demand: a cache on disk, or images that are not decoded yet."""

    def __len__(self) -> int: ...

    def __getitem__(self, indices: Sequence[int], /) -> tuple[Tensor, ...]: ...


Tensors: TypeAlias = Tensor | tuple[Tensor, ...]


def in_blocks(
    function: Callable[..., Tensors],
    rows: Tensors | Source | Iterable[Tensors],
    size: int | None = None,
    *,
    padded: bool = True,
    stage: Stage = SILENT_STAGE,
) -> tuple[Tensor, ...]:
    """Apply `function(*tensors)` to blocks of exactly `size` rows and join the results.

    size: by default the `block_size` of the device of the rows.
    rows: a tensor, a tuple of tensors, a Source, or an iterable of batches of any size (a loader). The last block is
    padded by repeating its last row; without `padded` it stays short, which is faster, and its rows differ in the last
    bits from those of a full block. The steps of `stage` are rows. Returns a tuple.

    >>> in_blocks(lambda x: x.sum(1) + len(x), torch.ones(5, 2), size=4)
    (tensor([6., 6., 6., 6., 6.]),)
    """
    results = []
    for block, count in _blocks(rows, size, padded):
        result = function(*block)
        results.append([part[:count] for part in ((result,) if isinstance(result, Tensor) else result)])
        stage.advance(count)
    return tuple(torch.cat(parts) for parts in zip(*results, strict=True))


def _blocks(
    rows: Tensors | Source | Iterable[Tensors], size: int | None, padded: bool
) -> Iterator[tuple[tuple[Tensor, ...], int]]:
    """Blocks and their numbers of real rows. Without rows: one block of zeros with no real row."""
    last: tuple[Tensor, ...] = ()
    any_block = False
    for batch in _batches(rows, size or _ELSEWHERE):
        size = size or block_size(batch[0].device)
        last = tuple(torch.cat(pair) for pair in zip(last, batch, strict=True)) if last and len(last[0]) else batch
        while len(last[0]) >= size:
            yield tuple(part[:size].clone() for part in last), size
            last, any_block = tuple(part[size:] for part in last), True
    if last and (len(last[0]) or not any_block):
        count = len(last[0])
        full = size if size and (padded or not count) else count
        real = torch.arange(full).clamp_max(max(count - 1, 0)).to(last[0].device)
        yield tuple(part[real] if count else part.new_zeros((full, *part.shape[1:])) for part in last), count


def _batches(rows: Tensors | Source | Iterable[Tensors], size: int) -> Iterator[tuple[Tensor, ...]]:
    if isinstance(rows, Tensor):
        rows = (rows,)
    if isinstance(rows, tuple):
        # the copy in `_blocks` aligns the address of each block
        yield from (tuple(part[i : i + size] for part in rows) for i in range(0, max(len(rows[0]), 1), size))
    elif isinstance(rows, Source) and not isinstance(rows, list):
        yield from (rows[range(i, min(i + size, len(rows)))] for i in range(0, max(len(rows), 1), size))
    else:
        yield from ((batch,) if isinstance(batch, Tensor) else tuple(batch) for batch in rows)
