"""`levelfield evaluate --sample`, `--jobs`, `--ray`, and files that are larger than memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from levelfield.errors import BadInput
from levelfield.evaluation import Evaluation
from levelfield.evaluation.large.shards import Shards, in_processes, on_ray
from levelfield.evaluation.search.budget import parse_memory

HERE = ("", "local")  # values of --ray that name no cluster


def check_options(
    sample: int | None, jobs: int | None, ray: str | None, subject: Any, memory: str, given: dict[str, bool]
) -> None:
    """Refuse options that do not apply to a sample, to blocks of queries, or to the memory limit."""
    others = [flag for flag, wanted in given.items() if wanted]
    if jobs is not None and ray is not None:
        raise BadInput("--jobs and --ray cannot be combined: Ray starts its own processes.")
    if sample is not None and others:
        raise BadInput(f"--sample and {others[0]} cannot be combined: {others[0]} needs all queries.")
    if divided := [flag for flag, wanted in {"--jobs": jobs, "--ray": ray}.items() if wanted is not None]:
        for flag in ("--compact", "--corrupt"):
            if given[flag]:
                raise BadInput(f"{divided[0]} and {flag} cannot be combined: leave out {divided[0]}.")
    rows = subject.arrays["embeddings"]
    for flag in ("--neighbours", "--page"):
        if given[flag] and rows.ndim == 2 and 4 * rows.size > parse_memory(memory):
            needed = -(-4 * rows.size // 10**6)
            raise BadInput(
                f"{flag} needs a copy of the embeddings, {needed:,} MB, but --memory is {memory}: leave out {flag} or "
                f"use --memory {needed + 100}MB."
            )


@contextmanager
def opened_shards(jobs: int | None, ray: str | None) -> Iterator[Shards | None]:
    """Who searches the blocks of queries; None: the threads of this process."""
    if ray is not None:
        with on_ray(os.environ.get("RAY_ADDRESS") if ray in HERE else ray) as shards:
            yield shards
    else:
        yield None if jobs is None else in_processes(jobs)


def sentences(result: Evaluation) -> list[str]:
    """What was sampled, and how much was in memory at a time."""
    lines = []
    if (sample := result.sample) is not None:
        gallery = next(iter(result.signatures.values())).definition.gallery
        lines.append(
            f"SAMPLE: a random {len(sample.rows):,} of {sample.of:,} queries (seed {sample.seed}), "
            f"each searched in all {gallery:,} rows."
        )
        if sample.intervals:
            lines.append("All queries: the interval of the score of all of them.")
    if (divided := result.divided) is not None:
        workers = "" if divided.workers == 1 else f" in each of {divided.workers} processes"
        lines.append(
            f"Memory limit {_size(divided.memory)} (beyond the program itself): at most {divided.queries:,} queries "
            f"and {divided.panel:,} gallery rows at a time{workers}."
        )
    return lines


def _size(count: int) -> str:
    return f"{count / 10**9:.3g} GB" if count >= 10**9 else f"{count / 10**6:.3g} MB"
