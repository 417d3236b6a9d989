"""model.json: everything that somebody without levelfield needs to use an exported model, as plain data.

The test view that it describes is computed here without torch, to the same bits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from levelfield.data.views.basic import TestView
from levelfield.data.views.named import StepsView, described_view
from levelfield.errors import BadInput, Damaged, LevelfieldError
from levelfield.files.reading import MEGABYTE, digest, read_json
from levelfield.files.writing import write_json
from levelfield.settings import whole

DESCRIPTION = "model.json"
View: TypeAlias = TestView | StepsView
FORMAT = 1
STEPS = ("resize", "centre")  # of a view that needs neither torch nor random numbers
MOST_NUMBERS = 1_000_000  # of an embedding, which may join those of several models
INPUT, OUTPUT = "images", "rows"
_KEYS = ("format", "file", "weights", "codes", "dim", "input", "output", "preprocessing", "about", "checksum")
_ORDER = (
    "decode (levelfield: a JPEG at 1/2, 1/4 or 1/8 where twice the resized shorter side remains), turn upright (EXIF), "
    "transparency on white, RGB; then resize, crop, divide by 255, (x - mean) / std"
)


def describe(
    file: str, *, weights: str, codes: str, dim: int, view: Mapping[str, Any], about: Mapping[str, Any]
) -> dict[str, Any]:
    """The description of a model in `file`, without its checksum. view: `description` of the test view."""
    side = int(view["image"])
    return {
        "format": FORMAT,
        "file": file,
        "weights": weights,
        "codes": codes,
        "dim": dim,
        "input": {"name": INPUT, "shape": ["batch", 3, side, side], "dtype": "float32"},
        "output": {"name": OUTPUT, "shape": ["batch", dim], "dtype": "float32", "normalized": False},
        "preprocessing": {**view, "order": _ORDER},
        "about": dict(about),
    }


def write_description(folder: Path, facts: Mapping[str, Any]) -> None:
    """Write model.json with a checksum of the description and of the file that it names."""
    content = (folder / facts["file"]).read_bytes()
    write_json(folder / DESCRIPTION, {**facts, "checksum": _checksum(facts, content)})


def read_description(path: Path, content: bytes) -> dict[str, Any]:
    """The description beside the file `path` with this content, after checking that neither has changed."""
    beside = path.with_name(DESCRIPTION)
    if not beside.is_file():
        raise BadInput(f"{beside} is missing: it says how images are prepared for {path.name}. Copy both files.")
    facts = read_json(beside, most=MEGABYTE)
    if not isinstance(facts, dict) or not set(_KEYS) <= set(facts):
        raise Damaged(f"{beside} does not describe an exported model.")
    if facts["format"] != FORMAT:
        raise BadInput(f"{beside} has format {facts['format']}; this levelfield reads {FORMAT}.")
    if facts["file"] != path.name:
        raise BadInput(f"{beside} describes {facts['file']}, not {path.name}: do not rename exported files.")
    if facts["checksum"] != _checksum(facts, content):
        raise Damaged(
            f"{path} or {DESCRIPTION} beside it was changed: the checksum does not match. Copy both files again, or "
            "export the run again."
        )
    return facts


def view_of(facts: Mapping[str, Any], path: Path) -> View:
    """The test view that a description names."""
    try:
        whole("dim", facts["dim"], least=1, most=MOST_NUMBERS)
        return described_view({key: value for key, value in facts["preprocessing"].items() if key != "order"})
    except (LevelfieldError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise Damaged(f"{path.with_name(DESCRIPTION)} has invalid settings: {error}") from error


def pixels(view: View, image: Image.Image) -> NDArray[np.float32]:
    """RGB image to float32 (3, side, side), as `view(image)` gives it.

    >>> view = TestView(image=4, mean=(0.5,) * 3, std=(0.5,) * 3)
    >>> pixels(view, Image.new("RGB", (9, 7), "white"))[:, 0, 0]
    array([1., 1., 1.], dtype=float32)
    """
    numbers = np.asarray(view.picture(image)).transpose(2, 0, 1).astype(np.float32) * np.float32(1 / 255)
    middle, spread = (np.array(values, dtype=np.float32)[:, None, None] for values in (view.mean, view.std))
    return np.ascontiguousarray((numbers - middle) / spread)


def check_view(view: View) -> None:
    """Refuse a view with a step that needs torch or random numbers."""
    for step in view.steps if isinstance(view, StepsView) else ():
        if step.name not in STEPS:
            raise BadInput(
                f"The test view has the step '{step.name}'; an exported model can have {' and '.join(STEPS)}."
            )


def _checksum(facts: Mapping[str, Any], content: bytes) -> str:
    plain = json.dumps({key: value for key, value in facts.items() if key != "checksum"}, sort_keys=True)
    return digest(plain.encode() + content, size=16)
