"""Choose who executes the runs of a command: worker processes, Ray with `--ray`, or all processes of torchrun."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from levelfield.cli.option_groups import Parallel
from levelfield.errors import BadSpecification

if TYPE_CHECKING:
    from levelfield.studies.execution.executor import Executor

_ADDRESS = re.compile(r"auto|local|ray://\S+|(\[[0-9a-fA-F:.]+\]|[\w.-]+):\d+")


def with_ray_address(arguments: list[str]) -> list[str]:
    """`--ray` without an address is `--ray=`: the next word may be a study or an override.

    >>> with_ray_address(["compare", "--ray", "demo", "seeds=5"])
    ['compare', '--ray=', 'demo', 'seeds=5']
    >>> with_ray_address(["compare", "demo", "--ray", "127.0.0.1:6379"])
    ['compare', 'demo', '--ray', '127.0.0.1:6379']
    """
    after = [*arguments[1:], ""]
    return [
        "--ray=" if word == "--ray" and not _ADDRESS.fullmatch(following) else word
        for word, following in zip(arguments, after, strict=False)
    ]


def get_ready(parallel: Parallel, *, threads: int, timed: bool = False) -> None:
    """Start what takes long before it is needed, and refuse an address where no Ray answers.

    threads: of a run. timed: steps are measured before the runs, which the start of a Ray would disturb.
    """
    if parallel.ray is None:
        if parallel.ship_features:
            raise BadSpecification("--ship-features sends features to the nodes of a cluster: give --ray, too.")
        from levelfield.distributed import processes

        processes.warm_up()
        return
    from levelfield.distributed.ray_connection import LOCAL, address_of, check_address, import_ray, start_early
    from levelfield.studies.execution.cluster import preloaded

    import_ray()
    address = address_of(parallel.ray)
    if address != LOCAL:
        check_address(address)
    elif not timed:
        start_early((parallel.jobs or os.cpu_count() or 1) * threads, preloaded(threads))


@contextmanager
def executor_on(parallel: Parallel, *, jobs: int, threads: int) -> Iterator[Executor | None]:
    """The executor that `--ray` chooses; None: worker processes."""
    if parallel.ray is None:
        yield None
        return
    from levelfield.studies.execution.cluster.on_ray import on_ray

    with on_ray(parallel.ray, jobs=jobs, threads=threads, ship_features=parallel.ship_features) as executor:
        yield executor


def follow(device: str) -> None:
    """Take part in the runs of torchrun's first process."""
    from levelfield.embedder.devices import usable
    from levelfield.studies.runs.several_processes import following

    following(usable(device))


def lead(device: str) -> AbstractContextManager[None]:
    """Context in which runs are executed together with the other processes of torchrun."""
    from levelfield.studies.runs.several_processes import leading

    return leading(device)
