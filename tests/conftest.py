"""For all tests: what one command says aloud is not silenced by another that ran in the same process before."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _level_of_the_log() -> Iterator[None]:
    """The command line sets it for its process (`--quiet`), and here many commands share one."""
    logging.getLogger().setLevel(logging.WARNING)
    logging.getLogger("levelfield").setLevel(logging.NOTSET)
    yield
    logging.getLogger().setLevel(logging.WARNING)
    logging.getLogger("levelfield").setLevel(logging.NOTSET)
