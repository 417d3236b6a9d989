"""Several processes of one run, as forks of this one: they start in milliseconds."""

from __future__ import annotations

import io
import multiprocessing
import tempfile
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from levelfield.distributed.ranks import Ranks, current


class Failed(str):
    """The traceback of a process."""


LONGEST = 120  # seconds that a process may take on a busy machine


def together(size: int, work: Callable[..., Any], *arguments: Any) -> list[Any]:
    """What `work(ranks, *arguments)` returns in each of `size` processes."""
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        pipes = [fork.Pipe(duplex=False) for _ in range(size)]
        processes = [
            fork.Process(target=_live, args=(rank, size, Path(folder) / "store", pipe, work, arguments))
            for rank, (_, pipe) in enumerate(pipes)
        ]
        for process in processes:
            process.start()
        for _, theirs in pipes:
            theirs.close()
        try:
            answers = [ours.recv_bytes() if ours.poll(LONGEST) else None for ours, _ in pipes]
            assert None not in answers, "no answer"
            results = [torch.load(io.BytesIO(entry), weights_only=False) for entry in answers]
            assert not [result for result in results if isinstance(result, Failed)]
            return results
        except EOFError as error:
            raise AssertionError("a process ended without an answer") from error
        finally:
            for process in processes:
                process.kill()
                process.join()


def _live(
    rank: int, size: int, store: Path, pipe: Connection, work: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    torch.set_num_threads(1)
    shared = distributed.FileStore(str(store), size)
    distributed.init_process_group("gloo", store=shared, rank=rank, world_size=size, timeout=timedelta(seconds=LONGEST))
    ranks = current()
    assert ranks == Ranks(rank, size)
    try:
        result = work(ranks, *arguments)
    except Exception:
        result = Failed(traceback.format_exc())
    content = io.BytesIO()
    torch.save(result, content)  # by value: a plain pipe would pass on handles of this process's memory
    pipe.send_bytes(content.getvalue())
    pipe.close()
    distributed.barrier()
