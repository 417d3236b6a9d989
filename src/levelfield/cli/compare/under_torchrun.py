"""`levelfield compare` under torchrun: the first process leads, the others follow. Imports torch when called."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from levelfield.studies.runs.spec import PlannedRun


def follow(device: str) -> None:
    """Take part in the runs of the first process."""
    from levelfield.embedder.devices import usable
    from levelfield.studies.execution.under_torchrun import following

    following(usable(device))


def lead(runs: list[PlannedRun], device: str) -> AbstractContextManager[None]:
    """Context in which runs are executed together with the other processes."""
    from levelfield.studies.execution.under_torchrun import leading

    return leading(runs, device)
