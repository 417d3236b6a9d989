"""`--device` of every command that computes with a network."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from cli_room import Levelfield

import levelfield as library
from levelfield.embedder import Embedder
from levelfield.errors import BadSpecification
from levelfield.studies.runs.run import Options

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
def test_a_gpu_that_is_not_there_is_refused(
    levelfield: Levelfield, compared: Path, trained: Path, command: str
) -> None:
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
