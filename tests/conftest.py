"""Fixtures of all tests: reset logging between commands in one process, exclude imported modules from garbage
collection, and measure coverage only in fast tests."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# `make test` draws the same examples each time, so that a red run can be repeated; `make fuzz` draws others.
settings.register_profile("repeatable", derandomize=True)
settings.register_profile("fuzz", max_examples=300)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# Files that take longest: each is one piece of work for one process, and none may be begun when all else is done.
LONG = (
    "docs/test_commands.py",
    "studies/test_kill_and_resume.py",
    "cli/test_cli_compare.py",
    "studies/test_execution.py",
    "cli/test_cli_bad_input.py",
    "studies/test_teacher.py",
    "studies/test_papers.py",
    "benchmarks/test_training_benchmark.py",
)
# What `make check` runs: files and folders, one per line.
FAST = [Path(__file__).parents[1] / line for line in (Path(__file__).parent / "fast.txt").read_text().split()]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.path.as_posix().endswith(LONG))


def pytest_collection_finish() -> None:
    """Every training begins with a search for garbage, and what was collected and imported until now is none."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """With `--cov` the tracer of Python 3.11 takes 60 to 70 % of a test's time again: too much for all of them."""
    plugin = item.config.pluginmanager.getplugin("_cov")
    control = plugin and plugin.cov_controller
    measured = any(item.path.is_relative_to(place) for place in FAST)
    if control and measured != control.started:
        control.resume() if measured else control.pause()


@pytest.fixture(autouse=True)
def _level_of_the_log() -> Iterator[None]:
    """The command line sets it for its process (`--quiet`), and here many commands share one."""
    logging.getLogger().setLevel(logging.WARNING)
    logging.getLogger("levelfield").setLevel(logging.NOTSET)
    yield
    logging.getLogger().setLevel(logging.WARNING)
    logging.getLogger("levelfield").setLevel(logging.NOTSET)
