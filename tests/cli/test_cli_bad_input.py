"""Bad input or a device that is not there gives one clear message and a non-zero exit code, and loses nothing."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from cli_room import Levelfield, make_photos

import levelfield as library
from levelfield.embedder import Embedder
from levelfield.errors import BadSpecification
from levelfield.studies.runs.run import Options

TINY = ["seeds=1", "conditions.steps=2", "conditions.image=32", "methods=[start, contrastive]", "conditions.dim=4"]
TINY += ["conditions.backbone=test_resnet", "conditions.weights=random", "conditions.taps=final", "metrics=recall@1"]


@pytest.mark.parametrize(
    ("words", "right"),
    [
        (["methods=[{margin: {bta: 1}}]"], "'beta'"),
        (["metrics=[recal@1]"], "recall@"),
        (["metrics=[rho]"], "descriptive metrics cannot rank embeddings"),
        (["conditions.select=density", "protocol.validation=0.2"], "descriptive metrics cannot rank embeddings"),
        (["conditions.backbone=test_resnt"], "'test_resnet'"),
        (["conditions.taps=layr4"], "'layer4'"),
        (["data=photo"], "'photos'"),
        (["data=./fotos"], "photos"),
        (["data.skip_unreadble=true"], "'skip_unreadble'"),
        (["condition.steps=3"], "'conditions'"),
        (["steps=3"], "'conditions.steps'"),
        (["protocol=standrd"], "'standard'"),
        (["conditions.select=mapr", "protocol.validation=0.5"], "map"),
        (["methods.contrastve.lr=1"], "'contrastive'"),
        (["methods=[{triplet: {miner: semihrad}}]"], "'semihard'"),
        (["conditions.cut=last-9"], "last-"),
        (["conditions.weights=gone.safetensors"], "gone.safetensors"),
        (["conditions.weights=small.yaml"], "small.yaml"),
        (["conditions.pooling=middle"], "average"),
        (["--device", "cuba"], "cuba"),
        (["conditions.precision=fp16"], "precision: fp16 needs an NVIDIA GPU (--device cuda)"),
        (["conditions.batch=30x2"], "A batch of 60 is too large for 16 images"),
        (["conditions.accumulate=2", "conditions.cut=last-1", "conditions.batch_norm=train"], "contrastive"),
        (["conditions.processes=5"], "the nearest that does is 4"),
        (["vary={conditions.dmi: [1]}"], "'dim'"),
        (["vary={methods.contrastve.lr: [1]}"], "'contrastive'"),
    ],
)
def test_an_unknown_or_unusable_name_is_one_line_with_the_nearest(
    levelfield: Levelfield, room: Path, words: list[str], right: str
) -> None:
    message = levelfield("compare", "small.yaml", *words).error
    assert right in message
    assert "\n" not in message
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("class Own(:\n", "SyntaxError"),
        ("import nothing_like_this\n", "nothing_like_this"),
        ("Own = 3\n", "expected a class or a function"),
        ("from torch import nn\nclass Own(nn.Module):\n    def __init__(self, scale): ...\n", "scale"),
        ("class Own:\n    def __init__(self): raise ValueError('not today')\n", "ValueError: not today"),
        ("class Own: ...\n", "Own"),
    ],
)
def test_an_own_loss_that_cannot_be_made_is_told_before_anything_runs(
    levelfield: Levelfield, room: Path, text: str, reason: str
) -> None:
    Path("own.py").write_text(text)
    message = levelfield("compare", "small.yaml", "methods=[own.py:Own]").error
    assert reason in message
    assert "\n" not in message
    assert not Path("runs").exists()


def test_without_test_classes_nothing_is_compared(levelfield: Levelfield, room: Path) -> None:
    assert "has no test classes" in levelfield("compare", "small.yaml", "protocol=all-classes").error
    assert levelfield("-q", "train", "small.yaml", "protocol=all-classes", "--method", "lda").code == 0


def test_a_study_that_is_not_there_names_the_nearest(levelfield: Levelfield, room: Path) -> None:
    assert "Did you mean small.yaml?" in levelfield("compare", "smal.yaml").error
    assert "Name a study (levelfield compare demo), its file" in levelfield("compare").error
    assert "Did you mean photos?" in levelfield("compare", "--data", "photo").error


def test_folders_without_classes_are_refused(levelfield: Levelfield, room: Path) -> None:
    Path("empty").mkdir()
    assert "empty is empty" in levelfield("compare", "--data", "empty").error
    assert "no sub-folders" in levelfield("compare", "--data", "photos/class 00").error
    make_photos(room / "few", classes=3)
    assert "has 3 classes" in levelfield("compare", "--data", "few").error
    make_photos(room / "single", classes=8, each=1)
    assert "two images" in levelfield("compare", "--data", "single", *TINY).error
    make_photos(room / "half", classes=8, each=[3, 3, 3, 3, 1, 1, 1, 1])
    assert "No test class of 'half' has two images" in levelfield("compare", "--data", "half", *TINY).error
    assert not Path("runs").exists()


def test_a_class_with_one_image_is_noted_and_the_study_runs(levelfield: Levelfield, room: Path) -> None:
    make_photos(room / "uneven", classes=8, each=[3, 1, 3, 3, 3, 1, 3, 3])
    printed = " ".join(levelfield("compare", "--data", "uneven", *TINY).printed.split())
    assert "2 classes have only one image and cannot be a query: class 01, class 05." in printed
    assert "9 queries (1 more is left out: no other image of its class) against 10 images" in printed


def test_damaged_images_are_named_and_counted_or_skipped(levelfield: Levelfield, room: Path) -> None:
    for name in ("class 00/1.png", "class 06/2.png"):
        path = Path("photos") / name
        path.write_bytes(path.read_bytes()[:70])
    for words in (["small.yaml"], ["--data", "photos", *TINY]):
        text = levelfield("compare", *words).error
        assert "2 of 32 images of 'photos' cannot be read" in text
        assert "class 00/1.png" in text
        assert "class 06/2.png" in text
        assert "--skip-unreadable" in text
    assert not Path("runs").exists()
    text = " ".join(levelfield("compare", "--data", "photos", *TINY, "--skip-unreadable").printed.split())
    assert "Skipped 2 images that cannot be read: photos/class 00/1.png, photos/class 06/2.png." in text
    assert "15 queries" in text
    assert levelfield("compare", "small.yaml", "seeds=1", "methods=[lda]", "--skip-unreadable").code == 0
    assert "lda" in levelfield("report", "runs/small").printed


def test_a_place_below_a_file_is_refused(levelfield: Levelfield, room: Path) -> None:
    Path("file").write_text("mine")
    for words in (
        ["compare", "small.yaml", "--out", "file"],
        ["compare", "small.yaml", "--out", "file/deeper"],
        ["train", "small.yaml", "--method", "lda", "--out", "file"],
        ["init", "photos", "--out", "file/study.yaml"],
    ):
        message = levelfield(*words).error
        assert "Cannot write file/" in message
        assert "a parent of this path is a file, not a folder" in message
    assert Path("file").read_text() == "mine"


def full_disk(monkeypatch: pytest.MonkeyPatch, full: Callable[[str], bool]) -> None:
    """Files whose path `full` chooses do not fit on the disk."""

    def flush(handle: int) -> None:
        if full(os.readlink(f"/proc/self/fd/{handle}")):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", flush)


@pytest.mark.parametrize(
    "part",
    [
        *("study.yaml", "run.yaml", "cache", "checkpoint", "model.safetensors", "embeddings.npy", "metrics.json"),
        "leaderboard.md",
        "seed0",  # every file of the run, the note of its error among them
    ],
)
def test_a_full_disk_is_one_message_and_leaves_no_half_file(
    levelfield: Levelfield, room: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    words = ["-q", "compare", "small.yaml", "methods=[contrastive]", "seeds=1", "--cache", str(room / "cache")]
    with monkeypatch.context() as patch:
        full_disk(patch, lambda path: part in path.removeprefix(str(room)))
        message = levelfield(*words).error
    assert "No space left on device" in message
    assert "\n" not in message
    assert not list(room.rglob("*.tmp"))
    for path in room.rglob(f"{part}*"):
        assert path.is_dir() or part == "cache"
    assert "best first by recall@1" in levelfield(*words).printed  # with room again, the same command goes on


def test_verbose_shows_where_an_error_came_from(levelfield: Levelfield, room: Path) -> None:
    ended = levelfield("-v", "compare", "gone.yaml")
    assert ended.code == 1
    assert "Traceback" in ended.err
    assert ended.err.rstrip().splitlines()[-1].startswith("Error: Study file not found: gone.yaml.")


def test_a_weights_file_of_another_network_is_refused(levelfield: Levelfield, room: Path) -> None:
    message = levelfield("compare", "small.yaml", "conditions.backbone=test_efficientnet").error
    assert "does not fit 'test_efficientnet'" in message


COMMANDS = {
    "compare": ["small.yaml", "--dry-run"],
    "tune": ["small.yaml", "--dry-run"],
    "train": ["small.yaml", "--method", "contrastive"],
    "embed": ["RUN", "photos"],
    "index": ["RUN", "photos", "--out", "made"],
    "search": ["RUN", "PHOTO", "--gallery", "photos"],
    "export": ["RUN", "--out", "exported", "--to", "safetensors"],
    "maps": ["RUN", "--image", "PHOTO"],
    "evaluate": ["RUN"],
    "corrupt": ["RUN", "--only", "gaussian_noise"],
    "report": ["runs/small"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_missing_gpu_is_refused(levelfield: Levelfield, compared: Path, trained: Path, command: str) -> None:
    names = {"RUN": str(trained), "PHOTO": str(next((compared / "photos").rglob("*.png")))}
    words = [command, *(names.get(word, word) for word in COMMANDS[command])]
    assert "The device 'cuda' cannot be used here" in levelfield(*words, "--device", "cuda").error


def test_too_little_memory_of_a_gpu_is_one_message(
    levelfield: Levelfield, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def embed(*_: object, **__: object) -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")

    monkeypatch.setattr(Embedder, "embed", embed)
    assert "The memory of the GPU is not enough. Use --device cpu" in levelfield("embed", trained, "photos").error


def test_python_takes_the_device_as_an_argument_and_in_the_options(room: Path) -> None:
    for arguments in ({"device": "cuda"}, {"options": Options(device="cuda")}):
        with pytest.raises(BadSpecification, match="'cuda' cannot be used here"):
            library.compare("small.yaml", **arguments)
