"""What torchrun tells the processes that it starts. Does not import torch."""

from __future__ import annotations

import os


def started() -> tuple[int, int]:
    """Rank and number of the processes that torchrun started; (0, 1) without it.

    >>> started()
    (0, 1)
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return 0, 1
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
