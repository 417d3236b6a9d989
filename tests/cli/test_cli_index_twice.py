"""Two `levelfield index` at once into one folder: the second waits, and then does what it would do afterwards."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from levelfield.cli import main
from levelfield.errors import BadInput
from levelfield.shipping import Index
from levelfield.shipping.searching import remembered

LONGEST = 30.0  # seconds on a busy machine
FORK = multiprocessing.get_context("fork")
Start = Callable[..., BaseProcess]


@pytest.fixture
def start(trained: Path) -> Iterator[Start]:
    """Start `levelfield index` in a process of its own, whose output is in the file `log`."""
    started = []

    def begin(log: str, *arguments: str) -> BaseProcess:
        Path(log).touch()
        process = FORK.Process(target=command, args=(Path(log), ["index", str(trained), *arguments]))
        process.start()
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.join()


def command(log: Path, arguments: list[str]) -> None:
    with log.open("w", buffering=1) as file:
        sys.stdout = sys.stderr = file
        main(arguments)


def wait_for(happened: Callable[[], bool]) -> None:
    until = time.monotonic() + LONGEST
    while not happened():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("end", "force", "images"), [("", [], 32), ("", ["--force"], 4), ("fail", [], 4), ("kill", [], 4)]
)
def test_a_second_first_build_waits_and_then_does_what_it_would_do_afterwards(
    start: Start, monkeypatch: pytest.MonkeyPatch, end: str, force: list[str], images: int
) -> None:
    begun, go = FORK.Event(), FORK.Event()

    def first_waits(*given: Any, **how: Any) -> Any:
        if not begun.is_set():
            begun.set()
            assert go.wait(LONGEST)
            if end == "fail":
                raise BadInput("An image is damaged.")
            if end == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
        return remembered(*given, **how)

    monkeypatch.setattr("levelfield.shipping.index.index.remembered", first_waits)
    first = start("first.log", "photos", "--out", "new/index")
    assert begun.wait(LONGEST)
    second = start("second.log", "photos/class 00", "--out", "new/index", *force)
    waiting = "Waiting for another process that changes the index new/index."
    wait_for(lambda: waiting in Path("second.log").read_text())
    go.set()
    first.join()
    second.join()
    refused = images == 32
    assert (first.exitcode, second.exitcode) == ({"": 0, "fail": 1, "kill": -9}[end], int(refused))
    assert ("new/index/index.json already exists. Add photos" in Path("second.log").read_text()) == refused
    assert len(Index.open("new/index")) == images
    assert sorted(path.suffix for path in Path("new/index").iterdir()) == ["", ".csv", ".json", ".npy"]


def test_a_first_build_that_fails_leaves_no_folder_of_its_own(start: Start) -> None:
    Path("photos/class 01/1.png").write_bytes(b"no image")
    Path("mine").mkdir()
    for out in ("new/index", "mine"):
        process = start("log", "photos", "--out", out)
        process.join()
        assert "class 01/1.png" in Path("log").read_text()
    assert not Path("new").exists()
    assert list(Path("mine").iterdir()) == []
