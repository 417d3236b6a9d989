"""The files of a model: model.yaml describes it, model.safetensors holds every weight. Data, never code.

The last line of model.yaml is a checksum of the text above it and of the weights.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import yaml
from torch import Tensor

from levelfield.data.views.basic import LARGEST_INPUT
from levelfield.errors import BadInput, Damaged
from levelfield.files.plain_yaml import read_written
from levelfield.files.reading import checksum, digest, read_text
from levelfield.files.writing import write_text, write_whole
from levelfield.settings import whole

WEIGHTS, DESCRIPTION, MEMBERS = "model.safetensors", "model.yaml", "members"
FORMAT = 1
_KEYS = {"format", "trunk", "head", "codes", "view", "about", MEMBERS, "checksum"}
_MAX_VALUES = {"trunk.image": LARGEST_INPUT, "head.width": 10_000_000, "head.dim": 65_536, "head.branches": 65_536}
_MOST_MEMBERS = 1000
_CHECKSUM = re.compile(r"^checksum: '?([0-9a-f]{32})'?\n\Z", re.MULTILINE)
_MEMBER = re.compile(rf"{MEMBERS}/\d{{1,6}}")


def write_model(folder: Path, facts: Mapping[str, Any], tensors: Mapping[str, Tensor] | None = None) -> None:
    """Write a model's description, and its weights unless it consists of members. The description is written last."""
    text = yaml.safe_dump({"format": FORMAT, **facts}, sort_keys=False, allow_unicode=True)
    if tensors is not None:
        content = safetensors.torch.save(dict(tensors))
        write_whole(folder / WEIGHTS, lambda file: file.write(content))
    written = _checksum(text, None if tensors is None else folder / WEIGHTS)
    write_text(folder / DESCRIPTION, f"{text}checksum: '{written}'\n")


def read_description(home: Path) -> dict[str, Any]:
    """The facts of a model, after checking the checksum of its files."""
    if not (home / DESCRIPTION).is_file():
        raise _missing(home, DESCRIPTION)
    facts, text = read_written(home / DESCRIPTION), read_text(home / DESCRIPTION)
    if not isinstance(facts, dict) or "format" not in facts:
        raise Damaged(f"{home / DESCRIPTION} does not describe a model.")
    if facts["format"] != FORMAT:
        raise BadInput(f"{home / DESCRIPTION} has format {facts['format']}; this levelfield reads {FORMAT}.")
    if strange := [str(key) for key in facts if key not in _KEYS]:
        raise Damaged(f"{home / DESCRIPTION} has the unknown key '{strange[0]}': damaged or another version.")
    weights = None if MEMBERS in facts else home / WEIGHTS
    if weights is not None and not weights.is_file():
        raise _missing(home, WEIGHTS)
    line = _CHECKSUM.search(text)
    if line is None or line[1] != _checksum(text[: line.start()], weights):
        parts = DESCRIPTION if weights is None else f"{DESCRIPTION} and {WEIGHTS}"
        raise Damaged(
            f"The model in {home} is damaged: the checksum of {parts} does not match. Copy it again from its source, "
            "or train it again."
        )
    return facts


def check_numbers(facts: Mapping[str, Any]) -> None:
    """Refuse numbers of a network that no memory is enough for; those of the view are checked when it is made."""
    for key, most in _MAX_VALUES.items():
        part, name = key.split(".")
        if (value := (facts[part] or {}).get(name)) is not None:
            whole(key, value, least=1, most=most)


def read_weights(home: Path) -> dict[str, Tensor]:
    """Every weight by name."""
    try:
        return safetensors.torch.load_file(home / WEIGHTS)
    except (safetensors.SafetensorError, OSError, KeyError, ValueError) as error:
        raise Damaged(f"{home / WEIGHTS} is not a valid safetensors file: {error}.") from error


def member_folders(home: Path, facts: Mapping[str, Any]) -> list[Path]:
    """The folders of a model's members, which must be inside its own folder."""
    named = facts[MEMBERS]
    if not isinstance(named, list) or not named:
        raise Damaged(f"{home / DESCRIPTION} names no member.")
    if len(named) > _MOST_MEMBERS:
        raise Damaged(f"{home / DESCRIPTION} names {len(named):,} members; {_MOST_MEMBERS:,} are the most.")
    for name in named:
        if not isinstance(name, str) or not _MEMBER.fullmatch(name):
            raise Damaged(f"{home / DESCRIPTION} names the member {name!r}; members are {MEMBERS}/0, {MEMBERS}/1, ...")
    if len(set(named)) < len(named):
        raise Damaged(f"{home / DESCRIPTION} names a member twice.")
    return [within(home, name) for name in named]


def within(home: Path, name: str) -> Path:
    """The file or folder `name` in a folder; a link that points outside is refused."""
    path = home / name
    if path.resolve() != home.resolve() / name:
        raise BadInput(f"{path} is a link to {path.resolve()}. All files of a run must be inside its folder.")
    return path


def _missing(home: Path, name: str) -> BadInput:
    return BadInput(f"{home} contains no trained model: {name} is missing. Pass the folder of a finished run.")


def _checksum(text: str, weights: Path | None) -> str:
    both = text if weights is None else f"{text}{checksum(weights)}"
    return digest(both, size=16)
