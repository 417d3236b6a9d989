"""A study under torchrun: the first process plans and reports, and all of them train every run together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from levelfield.distributed.ranks import joined
from levelfield.errors import BadSpecification
from levelfield.studies.runs.custom_code import data_is_custom_code, names_custom_code
from levelfield.studies.runs.several_processes import follow, send
from levelfield.studies.runs.spec import PlannedRun


@contextmanager
def leading(runs: list[PlannedRun], device: str) -> Iterator[None]:
    """Context in which this process, the first, executes runs together with the others."""
    for run in runs:
        if names_custom_code(run.spec) or data_is_custom_code(run.spec):
            raise BadSpecification(
                f"'{run.label}' uses code of your own, which trains in processes of its own: use "
                f"--processes {run.spec.conditions.processes} instead of torchrun."
            )
    with joined(device):
        yield
        send(None)


def following(device: str) -> None:
    """Take part in all runs of the first process, then return."""
    with joined(device) as ranks:
        follow(ranks)
