"""A sheet of image pairs side by side, for visual inspection."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw

from levelfield.data import read_image
from levelfield.data.checks.leaks import Pair
from levelfield.errors import BadInput
from levelfield.files.writing import write_whole

_SIDE, _GAP, _TEXT = 128, 8, 16
_ACROSS = 4
_LETTERS = 44  # characters that fit under a pair


def pair_sheet(pairs: Sequence[Pair], path: Path, *, most: int = 60) -> int:
    """Write the first `most` pairs as a PNG, training image left, test image right. Returns their number."""
    shown = list(pairs[:most])
    if not shown:
        raise BadInput("No pairs to draw.")
    if path.suffix.lower() != ".png":
        raise BadInput(f"Cannot write the sheet to '{path.name}': the file name must end with .png.")
    wide, high = 2 * _SIDE + 3 * _GAP, _SIDE + _TEXT * 2 + _GAP
    across = min(_ACROSS, len(shown))
    sheet = Image.new("RGB", (across * wide, -(-len(shown) // across) * high), "white")
    draw = ImageDraw.Draw(sheet)
    for number, pair in enumerate(shown):
        left, top = number % across * wide + _GAP, number // across * high + _GAP
        for place, image in enumerate((pair.train, pair.test)):
            small = read_image(image)
            small.thumbnail((_SIDE, _SIDE))
            sheet.paste(
                small, (left + place * (_SIDE + _GAP) + (_SIDE - small.width) // 2, top + (_SIDE - small.height) // 2)
            )
        for line, text in enumerate(pair.caption.split("; ", 1)):
            short = text if len(text) <= _LETTERS else f"{text[: _LETTERS - 3]}..."
            draw.text((left, top + _SIDE + line * (_TEXT - 3)), short, fill="black")
    write_whole(path, lambda file: sheet.save(file, format="PNG"))
    return len(shown)
