"""Hostile values on the command line: each gives one error message, none an internal error (code 70)."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from cli_room import Levelfield

from levelfield.cli.app import UNEXPECTED

LONG = "x" * 5_000
DRY = ["compare", "small.yaml", "--dry-run"]
ARRAYS = ["evaluate", "--embeddings", "e.npy", "--labels", "y.npy", "--metrics"]
IMAGE = "photos/class 00/0.png"
HOSTILE: list[tuple[list[str], str]] = [
    # YAML in overrides and settings
    ([*DRY, "conditions.dim=!!int abc"], "is not valid YAML: invalid literal for int() with base 10: 'abc'"),
    ([*DRY, "conditions.dim=2024-13-01"], "conditions.dim"),
    ([*DRY, "data={2020-01-01: x}"], "data"),
    ([*DRY, "about=\udcff"], "is not valid YAML"),
    (["check", "triplet", "margin=["], "is not valid YAML"),
    # names, labels and paths
    ([*DRY, f"name={LONG}"], "use at most 200 bytes"),
    ([*DRY, f"methods=[{{label: {LONG}, lda: {{}}}}]"], "use at most 200 bytes"),
    ([*DRY, "name=\x1b[31m"], "is not valid YAML"),
    ([*DRY, "data=~nobody-of-this-name/x"], "no home folder"),
    ([*DRY, f"data={LONG}"], "a name in it contains NUL or has more than 255 bytes"),
    ([*DRY, "data={name: csv, path: 5}"], "Expected a path, got 5"),
    ([*DRY, "data={name: folder, path: [a]}"], "Expected a path, got ['a']"),
    ([*DRY, "data={name: cub, root: 5}"], "Expected a path, got 5"),
    ([*DRY, "--data", LONG], "is not a valid path"),
    (["embed", LONG, "photos"], "File name too long"),
    (["evaluate", LONG], "File name too long"),
    (["embed", "runs/none", "photos", "--out", "/"], "is not a file name"),
    (["embed", "runs/none", "loop"], "File or folder not found: loop"),
    (["embed", "runs/none", "big.csv"], "field larger than field limit (131072)"),
    (["compare", "--data", "big.csv", "--dry-run"], "field larger than field limit (131072)"),
    (["compare", "--data", "label.csv", "--dry-run"], "has 5,000 characters; the limit is 255"),
    # settings of another kind
    ([*DRY, "methods=5"], "must be a list of methods"),
    ([*DRY, "methods.contrastive.preset=[a]"], "has no preset"),
    ([*DRY, "corruptions=[1]"], "corruptions"),
    ([*DRY, "methods.contrastive.batching=mine.py:Loss"], "The batching 'mine.py:Loss' cannot be created: TypeError"),
    ([*DRY, "conditions.backbone=hf-hub:timm/resnet50"], "For your own weights, set weights: FILE.safetensors"),
    ([*DRY, "conditions.backbone=local-dir:/tmp"], "For your own weights, set weights: FILE.safetensors"),
    ([*DRY, "conditions.image=5000"], "less than or equal to 1024"),
    ([*DRY, "conditions.image=100000"], "less than or equal to 1024"),
    ([*DRY, "conditions.dim=99999999999999999999"], "less than or equal to 65536"),
    ([*DRY, "conditions.batch=100000x100000"], "at most 1,000,000 images"),
    ([*DRY, "conditions.test_view=[{resize: 100000}, {centre: 32}]"], "between 1 and 4096"),
    ([*DRY, "seeds=100000000"], "must be between 1 and 10,000"),
    ([*DRY, "--device", "gpu"], "Did you mean 'cuda'?"),
    ([*DRY, "--device", "meta"], "There is no device 'meta'"),
    # arrays, metrics, pictures
    ([*ARRAYS, "recall@" + "9" * 5_000], "recall@"),
    ([*ARRAYS, "recall@1", "--out", "/"], "Cannot write /: this is not a file name"),
    ([*ARRAYS, "recall@1", "--per-query", ""], "this is not a file name"),
    ([*ARRAYS, "recall@1", "--k", "9" * 5_000], "positive integers"),
    (["evaluate", "--embeddings", "pipe", "--labels", "y.npy"], "pipe is not a regular file"),
    (["evaluate", "--embeddings", "e.npy", "--labels", "pipe"], "pipe is not a regular file"),
    (["corruptions", "pipe"], "it is not a regular file"),
    (["evaluate", "--embeddings", "bad.npz", "--labels", "y.npy"], "not a valid .npz file, or it is truncated"),
    (["evaluate", "--labels", "y.npy"], "--embeddings and --labels must be given together"),
    (["evaluate", "--validation-labels", "y.npy"], "No such option"),
    (["threshold", *ARRAYS[1:-1], "--validation-labels", "y.npy"], "needs --validation and --validation-labels"),
    ([*ARRAYS, "nmi", "--seed", "-1"], "Invalid value for '--seed'"),
    (["train", "small.yaml", "--seed", "-1"], "Invalid value for '--seed'"),
    (["embed", "runs/none", "photos", "--out", "photos"], "photos is a folder: give a file"),
    (["corruptions", IMAGE, "--side", "100000"], "4096"),
    ([*ARRAYS, "nmi", "--starts", "1000000000"], "10000"),
    (["maps", "runs", "--image", IMAGE, "--channels", "999"], "100"),
    (["tune", "small.yaml", "--trials", "0"], "Invalid value for '--trials'"),
    (["tune", "small.yaml", "--folds", "1"], "Invalid value for '--folds'"),
    (["tune", "small.yaml", "--validation", "1.5"], "Invalid value for '--validation'"),
    ([*DRY, "conditions.lr=1" + "0" * 400], "conditions.lr"),
    (["check", "triplet", "margin=1" + "0" * 400], "expected a finite number"),
    (["tune", "small.yaml", "--search", f"lda.shrinkage=[1, 1{'0' * 400}, log]"], "expected a number"),
]


@pytest.fixture
def hostile_room(room: Path) -> Path:
    rows = np.random.default_rng(0).normal(size=(12, 4))
    np.save("e.npy", rows)
    np.save("y.npy", np.arange(12) // 3)
    Path("bad.npz").write_bytes(b"PK" + bytes(100))
    Path("big.csv").write_text(f"path,label\n{'x' * 200_000},a\n")
    Path("label.csv").write_text(f"path,label\n{IMAGE},{LONG}\n")
    Path("mine.py").write_text("import torch\n\nclass Loss(torch.nn.Module):\n    pass\n")
    os.mkfifo("pipe")
    Path("loop").symlink_to("loop")
    return room


@pytest.mark.parametrize(("words", "message"), HOSTILE, ids=[" ".join(words)[:60] for words, _ in HOSTILE])
@pytest.mark.usefixtures("hostile_room")
def test_a_hostile_value_is_one_message(levelfield: Levelfield, words: list[str], message: str) -> None:
    ended = levelfield(*words)
    assert ended.code not in (0, UNEXPECTED), ended
    assert "Traceback" not in ended.err
    assert message in ended.err


@pytest.mark.usefixtures("hostile_room")
def test_an_archive_with_one_array_is_taken(levelfield: Levelfield) -> None:
    np.savez_compressed("one.npz", e=np.load("e.npy"))
    assert "recall@1" in levelfield("evaluate", "--embeddings", "one.npz", "--labels", "y.npy").printed


def test_what_is_no_utf8_can_be_printed(levelfield: Levelfield, room: Path) -> None:
    assert "File or folder not found: \\udcff.png" in levelfield("embed", "runs/none", "\udcff.png").error


@pytest.mark.usefixtures("room")
def test_a_name_of_a_file_cannot_command_the_terminal(levelfield: Levelfield) -> None:
    for name in ("a", "b"):
        Path("pets", f"{name}\x1b[2J").mkdir(parents=True)
        Path("pets", f"{name}\x1b[2J", "\x1b]0;title\x07.png").write_bytes(b"no image")
    with zipfile.ZipFile("\x1b[31mpets.zip", "w") as archive:
        archive.writestr("a.png", b"no image")
    for words in (
        ["check", "folder", "pets"],
        ["leaks", "pets"],
        ["-v", "leaks", "pets"],
        ["check", "folder", "\x1b[31mpets.zip"],
    ):
        ended = levelfield("datasets", *words)
        assert ended.code == 1
        assert "\x1b" not in ended.out + ended.err, ended
        assert "\\x1b" in ended.out + ended.err


def test_a_fault_of_ours_ends_with_one_line_and_keeps_its_traceback(
    levelfield: Levelfield, room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object, **settings: object) -> None:
        raise ZeroDivisionError("made for this test")

    monkeypatch.setattr("levelfield.cli.compare.choose_study", broken)
    ended = levelfield(*DRY)
    assert ended.code == UNEXPECTED
    assert ended.err.startswith("Error: Internal error in levelfield (ZeroDivisionError: made for this test).")
    file = Path(ended.err.split()[-1])
    assert "made for this test" in file.read_text()
    file.unlink()
