"""The file of a method's learned parts besides the embedder, such as proxies or a message-passing network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from levelfield import methods
from levelfield.distributed.ranks import ALONE, Ranks
from levelfield.errors import BadInput, Damaged
from levelfield.files.writing import write_whole
from levelfield.methods import Method
from levelfield.randomness import isolated, stream
from levelfield.studies.runs.folder.files import check
from levelfield.studies.runs.folder.store import read_spec
from levelfield.studies.runs.spec import RunSpec
from levelfield.trust import trusting

WEIGHTS = "method.safetensors"


def make_method(spec: RunSpec, *, num_classes: int, ranks: Ranks = ALONE) -> Method:
    """The method of a run before its first step, for one of the processes that train it."""
    with isolated(spec.training_seed, "method"):  # user code may draw from the global generator
        return methods.create(
            spec.method.name,
            num_classes=num_classes,
            dim=spec.conditions.dim,
            generator=stream(spec.training_seed, "proxies"),
            ranks=ranks,
            **spec.settings,
        )


def save_method(folder: Path, state: Mapping[str, Any], *, num_classes: int, width: int) -> None:
    """Write the weights and buffers of a method, with the shards of all processes; no file if there are none."""
    if not state:
        return
    # copies: the format refuses tensors that share memory
    kept = {name: value.cpu().clone().contiguous() for name, value in state.items() if isinstance(value, Tensor)}
    facts = {"num_classes": num_classes, "width": width, "left_out": sorted(state.keys() - kept.keys())}
    # one entry: the order of several is not fixed, and the same run must give the same bytes
    content = safetensors.torch.save(kept, metadata={"levelfield": json.dumps(facts)})
    write_whole(folder / WEIGHTS, lambda file: file.write(content))


@trusting()
def load_method(folder: Path, *, device: str = "cpu") -> Method:
    """The trained method of a finished run, in evaluation mode. A user-defined loss is loaded from its trusted file."""
    if not (folder / "training.json").exists():
        raise BadInput(f"{folder} is not a finished run, so it has no trained method.")
    spec, path = read_spec(folder), folder / WEIGHTS
    if spec.joined:
        raise BadInput(f"{folder} joins finished runs and has no trained method: name one of its members.")
    check(folder, WEIGHTS)
    facts, weights = _read(path)
    method = make_method(spec, num_classes=facts["num_classes"])
    if facts["left_out"]:
        raise BadInput(
            f"The method of {folder} has state that is not a tensor ({', '.join(facts['left_out'])}) and was not "
            "stored."
        )
    try:
        method.load_state_dict(weights, strict=True)
    except RuntimeError as error:
        raise BadInput(f"{path} does not match the method of its run: {error}") from error
    return method.to(device).eval()


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    if not path.is_file():
        return {"num_classes": 2, "width": 0, "left_out": []}, {}
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            facts: dict[str, Any] = json.loads(file.metadata()["levelfield"])
        return facts, safetensors.torch.load_file(path)
    except (safetensors.SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise Damaged(f"{path} is damaged or was made by another version: {error}") from error
