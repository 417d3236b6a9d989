"""Help for every command, with an example that can be typed; versions, wrong usage, Ctrl-C."""

from __future__ import annotations

import re
import shlex

import pytest
from cli_room import Levelfield

from levelfield.cli.app import PANELS

COMMANDS = [command for commands in PANELS.values() for command in commands]
INNER = ["datasets check", "datasets leaks", "cluster check"]


@pytest.mark.parametrize("command", [*COMMANDS, *INNER])
def test_help_has_an_example_of_the_command(levelfield: Levelfield, command: str) -> None:
    printed = " ".join(levelfield(*command.split(), "--help").printed.split())
    example = re.search(r"Example: (levelfield .*)", printed)
    assert example
    assert shlex.split(example[1])[1:][: len(command.split())] == command.split()


@pytest.mark.parametrize("words", [["compar"], ["list", "things"], ["compare", "--jobs", "-1"], ["embed"]])
def test_wrong_usage_ends_with_2_and_says_where_to_look(levelfield: Levelfield, words: list[str]) -> None:
    ended = levelfield(*words)
    assert ended.code == 2
    assert "--help" in ended.err
    assert "Traceback" not in ended.err


def test_a_reader_who_closes_the_pipe_is_told_nothing(levelfield: Levelfield, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*args: object, **kwargs: object) -> None:
        try:
            raise BrokenPipeError
        except BrokenPipeError:
            raise SystemExit(1) from None  # as rich does

    monkeypatch.setattr("levelfield.cli.app.app", closed)
    ended = levelfield("compare", "--help")
    assert (ended.code, ended.err) == (1, "")
