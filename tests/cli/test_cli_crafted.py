"""Malicious and damaged folders: a command ends with its result or one message, without side effects."""

from __future__ import annotations

import io
import json
import os
import pickle
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from cli_room import COMMANDS, Levelfield, placed

from levelfield.studies.runs.folder.files import read_finished, read_training, write_finished, write_training

MODEL = ("embed", "search", "export", "maps", "corrupt", "threshold", "ensemble")
SPECIFICATION = ("corrupt", "threshold", "refine", "ensemble", "export")
STUDY = ("report", "leaks", "figure", "ranks", "train")
ARRAYS = ("evaluate", "refine", "corrupt", "ensemble")


class Canary:
    """What a pickle would do."""

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, ("touch canary",)


TAGGED = "!!python/object/apply:os.system ['touch canary']\n"
OBJECTS = np.array([Canary()], dtype=object)


def saved(array: np.ndarray) -> bytes:
    content = io.BytesIO()
    np.save(content, array, allow_pickle=True)
    return content.getvalue()


def packed(**arrays: np.ndarray) -> bytes:
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


def with_yaml(path: Path, change: Callable[[Any], object]) -> None:
    content = yaml.safe_load(path.read_text())
    content.pop("checksum", None)
    change(content)
    path.write_text(yaml.safe_dump(content))


def linked(path: Path, target: Path) -> None:
    path.unlink()
    path.symlink_to(target)


def seal(run: Path) -> None:
    """Write the checksums of the crafted files, as a stranger would."""
    write_training(run, read_training(run))
    write_finished(run, read_finished(run))


def with_label(study: Path, label: str) -> None:
    entries = json.loads((study / "runs.json").read_text())
    (study / "runs.json").write_text(json.dumps([{**entry, "label": label} for entry in entries]))


Craft = Callable[[Path, Path], object]  # changes a run and its study


def written(name: str, content: str | bytes) -> Craft:
    """A file of the run with other content."""
    return lambda run, _: (run / name).write_bytes(content.encode() if isinstance(content, str) else content)


def described(change: Callable[[Any], object]) -> Craft:
    """Other facts about the model of the run."""
    return lambda run, _: with_yaml(run / "model.yaml", change)


def both(first: Craft, second: Craft) -> Craft:
    return lambda run, study: (first(run, study), second(run, study))


# the change, and the commands that read what was changed
CRAFTED: dict[str, tuple[Craft, tuple[str, ...]]] = {
    "tag in run.yaml": (written("run.yaml", TAGGED), (*SPECIFICATION, "report")),
    "tag in model.yaml": (written("model.yaml", TAGGED), MODEL),
    "tag in study.yaml": (lambda _, study: (study / "study.yaml").write_text(f"name: {TAGGED}"), STUDY),
    "tag in ensemble.yaml": (written("ensemble.yaml", TAGGED), SPECIFICATION),
    "pickle as model.safetensors": (written("model.safetensors", pickle.dumps(Canary())), MODEL),
    "oversized header": (
        both(written("model.safetensors", struct.pack("<Q", 2**62) + b"{}"), described(lambda facts: None)),
        MODEL,
    ),
    "pickle as method.safetensors": (written("method.safetensors", pickle.dumps(Canary())), ("refine", "figure")),
    "objects in embeddings.npy": (written("embeddings.npy", saved(OBJECTS)), ARRAYS),
    "objects in per_query.npz": (
        written("per_query.npz", packed(lone=OBJECTS, labels=OBJECTS)),
        ("report", "ranks", "ensemble"),
    ),
    "objects in corrupted": (
        lambda run, _: (
            (run / "corrupted").mkdir(),
            (run / "corrupted" / "jpeg.npy").write_bytes(saved(OBJECTS)),
            (run / "corrupted" / "jpeg.json").write_text('{"corruption": "jpeg", "values": {}}'),
        ),
        ("corrupt", "report"),
    ),
    "members outside": (described(lambda facts: facts.update(members=["../../.."])), MODEL),
    "backbone from the network": (described(lambda f: f["trunk"].update(backbone="hf-hub:timm/resnet18")), MODEL),
    "backbone from a folder": (described(lambda f: f["trunk"].update(backbone="local-dir:photos")), MODEL),
    "weights that are a link": (lambda run, _: linked(run / "model.safetensors", Path("/etc/hostname")), MODEL),
    "embeddings that are a link": (lambda run, _: linked(run / "embeddings.npy", Path("/etc/hostname")), ARRAYS),
    "corrupted is a link": (lambda run, _: (run / "corrupted").symlink_to(run.parents[3]), ("corrupt", "report")),
    "labels that lead elsewhere": (lambda _, study: with_label(study, "../../.."), STUDY),
}


@pytest.mark.parametrize("name", CRAFTED)
def test_a_crafted_folder_gives_one_message_and_nothing_else(
    name: str, compared: Path, levelfield: Levelfield, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket.socket, "connect", _no_network)
    study = compared / "runs" / "small"
    run, other = (next(study.glob(f"{label}/seed0-*")) for label in ("contrastive", "normalized_softmax"))
    places = {"STUDY": str(study), "RUN": str(run), "OTHER": str(other)}
    craft, commands = CRAFTED[name]
    craft(run, study)
    seal(run)
    there = {path for path in compared.rglob("*") if study not in path.parents}
    for command in commands:
        ended = levelfield(*placed(COMMANDS[command], places))
        assert "Traceback" not in ended.err, (command, ended.err)
        assert ended.code == 0 or ended.error, command
    created = {path for path in compared.rglob("*") if study not in path.parents} - there
    expected = {compared / name for name in ("e.npy", "e.paths.txt", "m.png", "both")}
    assert {path for path in created if compared / "both" not in path.parents} <= expected
    assert not (compared / "both" / "model.yaml").is_symlink()


def _no_network(*_: object) -> None:
    raise AssertionError("the network was asked")


@pytest.fixture
def damaged(trained: Path) -> Path:
    """A run whose figures of each query are cut off."""
    stored = trained / "per_query.npz"
    stored.write_bytes(stored.read_bytes()[:-30])
    return trained


def test_a_report_keeps_the_other_runs_and_names_the_damaged_file(levelfield: Levelfield, damaged: Path) -> None:
    printed = levelfield("report", "runs/small").printed.replace("\n", " ")
    assert f"Missing: contrastive, seed 0: runs/small/contrastive/{damaged.name}/per_query.npz is" in printed
    assert "normalized_softmax" in printed


@pytest.mark.parametrize("command", [["ensemble"], ["ensemble", "--metrics", "mrr"]])
def test_a_damaged_run_is_not_joined(levelfield: Levelfield, damaged: Path, command: list[str]) -> None:
    [other] = Path("runs/small/lda").glob("seed0-*")
    message = levelfield(*command, damaged, other, "--out", "both").error
    assert "per_query.npz" in message
    assert "to make it again" in message


def test_rows_of_a_damaged_run_are_not_measured(levelfield: Levelfield, trained: Path) -> None:
    stored = trained / "embeddings.npy"
    content = bytearray(stored.read_bytes())
    content[-9] ^= 1
    stored.write_bytes(content)
    assert "embeddings.npy is damaged: its checksum differs" in levelfield("evaluate", trained).error


def test_compare_plans_and_makes_the_damaged_run_again(levelfield: Levelfield, damaged: Path) -> None:
    assert "contrastive" in levelfield("compare", "small.yaml", "--dry-run").printed
    assert "Missing" not in levelfield("-q", "compare", "small.yaml").printed
    assert "recall@1" in levelfield("evaluate", damaged).printed


@pytest.mark.parametrize("content", ["null", "{}", '[{"label": "../x"}]', "[" * 100_000, "\udcff"])
@pytest.mark.parametrize("command", ["report", "ranks"])
def test_a_damaged_plan_is_named(levelfield: Levelfield, compared: Path, content: str, command: str) -> None:
    Path("runs/small/runs.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    message = levelfield(command, "runs/small").error
    assert "runs/small/runs.json" in message
