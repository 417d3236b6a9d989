"""Light commands stay light: the packages they import, the facts they duplicate, and progress bars that move."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from cli_room import Levelfield

from levelfield import index
from levelfield.cli import check, datasets, export, toy
from levelfield.cli import index as index_command
from levelfield.cli.app import PANELS, app
from levelfield.cli.console import StudyBars, bars
from levelfield.data.checks.leaks import RADIUS
from levelfield.data.official import VARIABLE
from levelfield.errors import MissingExtra, UnknownName
from levelfield.papers.toy import PREFERRED_SWITCH
from levelfield.shipping.formats import FORMATS
from levelfield.shipping.index.approximate import LIBRARIES
from levelfield.studies.execution.events import Event
from levelfield.studies.specification.methods import check_names
from levelfield.studies.specification.study import parse_study
from levelfield.testing import CLASSES, DIM

HEAVY = ("torch", "torchvision", "timm", "scipy", "sklearn", "numba", "matplotlib")
HEAVY += ("onnx", "onnxruntime", "faiss", "usearch")
LIGHT = ("numpy", "PIL", "multiprocessing")  # light beside torch, and more than a message needs
# each command in turn in one process: what a command imports first is what it is blamed for
SCRIPT = """
import contextlib, io, json, sys
from levelfield.cli import main
ended = []
for words in json.loads(sys.argv[1]):
    before, printed = set(sys.modules), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            main(words)
        except SystemExit as end:
            code = end.code
    heavy = [name for name in json.loads(sys.argv[2]) if name in sys.modules and name not in before]
    ended.append([words, code, heavy, printed.getvalue()])
print(json.dumps(ended))
"""


def ran(
    commands: list[list[str]], folder: Path, looked_for: tuple[str, ...] = HEAVY
) -> list[tuple[list[str], int, list[str], str]]:
    """For each command: its words, its exit code, the heavy packages that it was the first to import, its output."""
    script = [sys.executable, "-c", SCRIPT, json.dumps(commands), json.dumps(looked_for)]
    done = subprocess.run(script, capture_output=True, text=True, check=True, cwd=folder)
    return [tuple(entry) for entry in json.loads(done.stdout)]


def every_help() -> list[list[str]]:
    commands: Any = typer.main.get_command(app)
    result = [["--help"], ["--version"]]
    for name, command in commands.commands.items():
        result += [[name, "--help"], *([name, inner, "--help"] for inner in getattr(command, "commands", {}))]
    return result


WRONG = {
    "unknown command": (["compar"], 2, "compare"),
    "unknown option": (["compare", "--job", "2"], 2, "--jobs"),
    "no such study": (["compare", "studdy.yaml"], 1, "study.yaml"),
    "misspelt key": (["compare", "key.yaml"], 1, "Did you mean 'dim'?"),
    "misspelt override": (["compare", "study.yaml", "conditions.dimm=3"], 1, "Did you mean 'dim'?"),
    "wrong type": (["compare", "study.yaml", "conditions.dim=many"], 1, "conditions.dim"),
    "no YAML": (["compare", "broken.yaml"], 1, "broken.yaml is not valid YAML"),
    "unknown method": (["compare", "method.yaml"], 1, "Did you mean 'margin'?"),
    "unknown format": (["export", "runs/none", "--to", "onx", "--out", "x"], 1, "Did you mean 'onnx'?"),
    "unknown library": (["index", "runs/none", "x", "--out", "x", "--approximate", "fais"], 1, "Did you mean 'faiss'?"),
    "unknown method to train": (["train", "study.yaml", "--method", "tripet"], 1, "Did you mean 'triplet'?"),
}


def test_help_and_wrong_usage_import_nothing_heavy_and_lists_torch_at_most(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text("{data: emoji, methods: [triplet], conditions: {dim: 8, batch: 4x2}}")
    (tmp_path / "key.yaml").write_text("{data: emoji, methods: [triplet], conditions: {dimm: 8}}")
    (tmp_path / "method.yaml").write_text("{data: emoji, methods: [margn]}")
    (tmp_path / "broken.yaml").write_text("{data: emoji, methods: [")
    lists = [["list", kind] for kind in ("objectives", "metrics", "methods")]
    expected = [*((words, 0, "") for words in every_help()), *WRONG.values(), *((words, 0, "") for words in lists)]
    ended = ran([words for words, _, _ in expected], tmp_path, HEAVY + LIGHT)
    for (_, code, text), (words, exit_code, heavy, printed) in zip(expected, ended, strict=True):
        assert (words, exit_code) == (words, code)
        assert set(heavy) <= ({"torch", *LIGHT} if words in lists else set()), words
        assert text in " ".join(printed.split())


def test_a_report_needs_no_network_and_no_drawing(compared: Path, levelfield: Levelfield) -> None:
    """With a page that is there already, and without one."""
    assert levelfield("report", "runs/small", "--page").code == 0
    for _, code, heavy, _ in ran([["report", "runs/small"], ["report", "runs/small", "--no-page"]], compared):
        assert code == 0
        assert set(heavy) <= {"torch", "scipy"}


def test_the_first_help_fits_on_a_screen(levelfield: Levelfield, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 100)
    lines = levelfield("--help").printed.splitlines()
    assert len(lines) <= 48
    for panel, commands in PANELS.items():
        assert any(f" {panel} " in line for line in lines)
        assert all(re.search(rf"\b{command}\b", "\n".join(lines)) for command in commands)


def test_a_file_that_the_index_does_not_list_may_have_the_method(monkeypatch: pytest.MonkeyPatch) -> None:
    study = parse_study({"data": "emoji", "methods": ["of_a_new_file"]})
    with pytest.raises(UnknownName, match="of_a_new_file"):
        check_names(study)
    listed = index.modules_of("levelfield.methods")
    monkeypatch.setattr(index, "modules_of", lambda package: [*listed, "levelfield.methods.new_file"])
    index.registered.cache_clear()
    check_names(study)
    index.registered.cache_clear()


def test_a_method_of_a_plugin_is_not_refused_before_the_plugin_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    study = parse_study({"data": "emoji", "methods": ["from_a_plugin"]})
    monkeypatch.setattr("levelfield.studies.specification.methods.entry_points", lambda group: [group])
    check_names(study)


def _default(command: Any, name: str) -> Any:
    return inspect.signature(command).parameters[name].default


def test_defaults_that_the_command_line_repeats_are_those_of_the_rooms() -> None:
    assert _default(check.check, "num_classes") == CLASSES
    assert _default(check.check, "dim") == DIM
    assert _default(toy.toy, "switch") == PREFERRED_SWITCH
    assert _default(datasets.leaks, "radius") == RADIUS
    assert VARIABLE in inspect.getsource(datasets)
    assert tuple(FORMATS) == export.FORMATS
    assert tuple(LIBRARIES) == index_command.LIBRARIES


def test_embedded_images_that_are_not_installed_are_refused_before_torch_is_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    study = parse_study({"data": "emoji", "methods": ["lda"]})
    check_names(study)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install \"levelfield\[demo\]\""):
        check_names(study)
    check_names(parse_study({"data": "photos", "methods": ["lda"]}))


def test_features_move_the_bar_of_all_runs() -> None:
    drawn = bars()
    progress = StudyBars(drawn, ["margin, seed 0", "margin, seed 1"])
    [everything] = drawn.tasks
    assert everything.description == "all 2 runs: starting"
    moved = []
    for event in (
        Event("start", 0),
        Event("progress", 0, "features", 50, 100),
        Event("progress", 0, "features", 100, 100),
        Event("progress", 0, "training", 1, 100),
        Event("progress", 0, "training", 100, 100),
        Event("done", 0),
    ):
        progress.on_event(event)
        moved.append(everything.completed)
    assert everything.description == "all 2 runs"
    assert moved == sorted(moved)
    assert moved[1] > 0
    assert moved[-1] == 1
