"""The processes that train one run together: their shares of a batch, and what they exchange.

A process is a *rank* in a group of several (`torch.distributed`). With one process nothing is exchanged.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed

from levelfield.errors import BadSpecification, LostProcess, RunFailed

BUCKET = 2**22  # numbers that are summed at once: large enough for the latency, small beside a network's activations

GPUS = "cpu:gloo,cuda:nccl"  # NCCL for tensors on GPUs; gloo for numbers of the host, which then waits for no GPU
ROUNDING = 1e-3  # relative difference of a loss that kernels of a GPU compute in another order
PATIENCE = timedelta(hours=12)  # one rank validates while the others wait; a rank that ends is noticed at once


@dataclass(frozen=True)
class Ranks:
    """One of `size` processes.

    >>> [Ranks(rank, 3).share(10) for rank in range(3)]
    [slice(0, 4, None), slice(4, 7, None), slice(7, 10, None)]
    """

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this process writes the files of the run."""
        return self.rank == 0

    def sizes(self, count: int) -> list[int]:
        """Rows of each rank among `count`; they differ by at most one, and nothing is padded or left out."""
        each, more = divmod(count, self.size)
        return [each + (rank < more) for rank in range(self.size)]

    def share(self, count: int) -> slice:
        """The rows of this rank among `count`."""
        sizes = self.sizes(count)
        start = sum(sizes[: self.rank])
        return slice(start, start + sizes[self.rank])

    def gathered(self, rows: Tensor, sizes: Sequence[int]) -> Tensor:
        """The rows of all ranks in the order of the ranks, without gradient. sizes: rows of each rank."""
        if self.size == 1:
            return rows
        if rows.dtype == torch.bfloat16:  # gloo knows neither it nor int16; the bits travel unchanged
            return self.gathered(rows.detach().view(torch.float16), sizes).view(torch.bfloat16)
        most = max(sizes)
        rows = _padded(rows.detach(), most)
        blocks = rows.new_empty(self.size * most, *rows.shape[1:])
        with _collective() as group:
            group.all_gather(list(blocks.split(most)), rows)
        if min(sizes) == most:
            return blocks
        return torch.cat([part[:size] for part, size in zip(blocks.split(most), sizes, strict=True)])

    def at_first(self, rows: Tensor, sizes: Sequence[int]) -> Tensor:
        """On rank 0 the rows of all ranks, as `gathered` but in main memory; elsewhere the rows themselves.

        Rows travel in blocks, so that a device need not have room for those of all ranks.
        """
        if self.size == 1:
            return rows
        rows, most = rows.detach(), max(sizes)
        each = max(1, BUCKET // max(1, rows[:1].numel()))
        whole = torch.empty(sum(sizes) if self.first else 0, *rows.shape[1:], dtype=rows.dtype)
        shares = whole.split(list(sizes)) if self.first else ()
        for start in range(0, most, each):
            block = _padded(rows[start : start + each], min(each, most - start))
            received = [torch.empty_like(block) for _ in shares]
            with _collective() as group:
                group.gather(block, received or None, dst=0)
            for share, part in zip(shares, received, strict=True):
                target = share[start : start + each]
                target.copy_(part[: len(target)])
        return whole if self.first else rows

    def summed_(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by its sum over all ranks; all ranks get the same bits."""
        if self.size == 1:
            return
        for bucket in _buckets(tensors):
            flat = torch.cat([tensor.reshape(-1) for tensor in bucket])
            with _collective() as group:
                group.all_reduce(flat)
            for tensor, total in zip(bucket, flat.split([tensor.numel() for tensor in bucket]), strict=True):
                tensor.copy_(total.view_as(tensor))

    def any(self, flags: Sequence[bool]) -> list[bool]:
        """Which flags are set on at least one rank."""
        if self.size == 1:
            return list(flags)
        counts = torch.tensor(flags, dtype=torch.float32, device=_device())
        self.summed_([counts])
        return [count > 0 for count in counts.tolist()]

    def from_first(self, compute: Callable[[], float]) -> float:
        """The number that rank 0 computes, on all ranks."""
        if self.size == 1:
            return compute()
        value = torch.tensor([compute() if self.first else 0.0], dtype=torch.float64, device=_device())
        with _collective() as group:
            group.broadcast(value, src=0)
        return float(value)

    def check_equal(self, what: str, value: float) -> None:
        """Raise if a number is not the same on all ranks: bit for bit, or nearly if kernels of a GPU may add in any
        order. The weights are the same in any case, since all ranks add the same gradients."""
        if self.size == 1:
            return
        bits = torch.tensor([value], dtype=torch.float64, device=_device()).view(torch.int64)
        every = self.gathered(bits, [1] * self.size).cpu()
        values = every.view(torch.float64)
        exact = _device() == "cpu" or torch.are_deterministic_algorithms_enabled()
        close = not exact and torch.allclose(values, values[:1], rtol=ROUNDING, atol=1e-6)
        if (every != every[0]).any() and not close:
            per_rank = ", ".join(f"{value!r} on rank {rank}" for rank, value in enumerate(values.tolist()))
            raise RunFailed(
                f"The processes of this run disagree on {what}: {per_rank}. Use machines with equal CPUs and library "
                "versions, and methods whose random numbers come from the generator they are given."
            )

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """Context that rank 0 executes first and the others afterwards, for files that rank 0 makes and all read."""
        if not self.first:
            self.wait()
        yield
        if self.first:
            self.wait()

    def wait(self) -> None:
        """Wait until all ranks are here."""
        if self.size > 1:
            with _collective() as group:
                group.barrier()

    def counts(self, count: int) -> list[int]:
        """The `count` of each rank."""
        if self.size == 1:
            return [count]
        return self.gathered(torch.tensor([count], device=_device()), [1] * self.size).tolist()


ALONE = Ranks()


def current() -> Ranks:
    """The ranks of this process's group; `ALONE` without one."""
    if not distributed.is_available() or not distributed.is_initialized():
        return ALONE
    return Ranks(distributed.get_rank(), distributed.get_world_size())


@contextmanager
def joined(device: str, ranks: Ranks | None = None, store: Path | None = None) -> Iterator[Ranks]:
    """Context in which this process belongs to the group of all ranks.

    ranks: this process, one of several on this machine that meet in the file `store`; None: one of torchrun's.
    """
    meeting: dict[str, Any] = {}
    if ranks is None:
        number, size = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    else:
        number, size = ranks.rank, ranks.size
        meeting = {"init_method": f"file://{store}", "rank": number, "world_size": size}
    backend = backend_for(device, size)
    distributed.init_process_group(backend, timeout=PATIENCE, **meeting)
    if backend == GPUS:
        torch.cuda.set_device(number)
    yield current()
    distributed.destroy_process_group()  # not after an error: the other processes may not answer


def backend_for(device: str, processes: int) -> str:
    """The backends of torch.distributed for `processes` on one machine; process k of a machine uses GPU k.

    >>> backend_for("cpu", 2)
    'gloo'
    >>> backend_for("cuda:1", 2)
    Traceback (most recent call last):
    ...
    levelfield.errors.BadSpecification: --device cuda:1 is one GPU, but each of 2 processes needs its own. Use ...
    """
    if processes > 1 and device.startswith(("cuda:", "mps")):
        more = "--device cpu" if device == "mps" else "--device cuda; CUDA_VISIBLE_DEVICES=1,3 chooses the GPUs"
        raise BadSpecification(
            f"--device {device} is one GPU, but each of {processes} processes needs its own. Use {more}."
        )
    if torch.device(device).type != "cuda":
        return "gloo"
    there = torch.cuda.device_count()
    if there < processes:
        raise BadSpecification(
            f"{processes} processes with --device {device} need {processes} GPUs (NCCL), but this machine has {there}. "
            + (f"Use --processes {there}, or" if there > 1 else "Use")
            + " --device cpu."
        )
    return GPUS


def _padded(rows: Tensor, count: int) -> Tensor:
    """`count` rows, the last ones 0: the messages of all ranks must have one size."""
    more = count - len(rows)
    return torch.cat([rows, rows.new_zeros(more, *rows.shape[1:])]) if more else rows.contiguous()


def _buckets(tensors: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    """Tensors of one type and device together, up to `BUCKET` numbers."""
    bucket: list[Tensor] = []
    size = 0
    for tensor in tensors:
        other_kind = bool(bucket) and (bucket[0].dtype, bucket[0].device) != (tensor.dtype, tensor.device)
        if other_kind or (bucket and size + tensor.numel() > BUCKET):
            yield bucket
            bucket, size = [], 0
        bucket.append(tensor)
        size += tensor.numel()
    if bucket:
        yield bucket


def _device() -> str:
    """Where the group expects numbers of the host: in main memory if it can, so that no process waits for its GPU."""
    return "cpu" if "cpu:" in distributed.get_backend_config() else "cuda"


@contextmanager
def _collective() -> Iterator[Any]:
    """Context with the functions of torch.distributed; the end of another process becomes `LostProcess`."""
    try:
        yield distributed
    except RuntimeError as error:  # gloo reports a closed connection, NCCL a remote error
        reason = str(error).strip().splitlines()[0]
        raise LostProcess(f"Another process of this run has ended: {reason}") from error
