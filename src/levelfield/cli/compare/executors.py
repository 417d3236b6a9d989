"""Choose who executes the runs of a command: worker processes, or Ray with `--ray`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

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


def get_ready(ray: str | None, *, jobs: int, threads: int, ship_features: bool, timed: bool = False) -> None:
    """Start what takes long before it is needed, and refuse an address where no Ray answers.

    timed: steps are measured before the runs, which the start of a Ray would disturb.
    """
    if ray is None:
        if ship_features:
            raise BadSpecification("--ship-features sends features to the nodes of a cluster: give --ray, too.")
        from levelfield.distributed import processes

        processes.warm_up()
        return
    from levelfield.distributed.ray_connection import LOCAL, address_of, check_address, import_ray, start_early
    from levelfield.studies.execution.cluster import preloaded

    import_ray()
    address = address_of(ray)
    if address != LOCAL:
        check_address(address)
    elif not timed:
        start_early(jobs * threads, preloaded(threads))


@contextmanager
def executor_on(ray: str | None, *, jobs: int, threads: int, ship_features: bool = False) -> Iterator[Executor | None]:
    """The executor that `--ray` chooses; None: worker processes."""
    if ray is None:
        yield None
        return
    from levelfield.studies.execution.cluster.on_ray import on_ray

    with on_ray(ray, jobs=jobs, threads=threads, ship_features=ship_features) as executor:
        yield executor
