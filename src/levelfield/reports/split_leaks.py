"""Leaks across the split of a study's data, beside the leaderboard; stored in `leaks.json` in the study's folder."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from levelfield.data import read_image
from levelfield.data.checks.leaks import RADIUS, Leaks, Pair, find_leaks
from levelfield.errors import BadInput, Damaged, LevelfieldError
from levelfield.files.reading import MEGABYTE, read_json
from levelfield.files.writing import write_json, write_whole
from levelfield.progress import SILENT, Progress
from levelfield.studies import Leaderboard, PlannedRun, RunSpec
from levelfield.studies.runs.folder.store import spec_at_its_place
from levelfield.studies.runs.inputs import inputs_for
from levelfield.studies.specification.choices import EMBEDDED
from levelfield.trust import trusting

FILE = "leaks.json"
_SIZE = 50 * MEGABYTE  # maximum bytes of leaks.json
_SIDE, _GAP, _TEXT = 128, 8, 16  # pixels of a sheet: an image, the space around it, a line of text
_ACROSS = 4  # pairs in a line
_LETTERS = 44  # characters that fit under a pair
_SHEET = re.compile(r"leaks(-\d+)?\.png")


@dataclass(frozen=True)
class Crossing:
    """Leaks across the split of one test set. reason: why they are unknown. new: searched now, not read from a file."""

    test_set: str
    division: dict[str, Any]
    leaks: Leaks | None
    reason: str = ""
    sheet: str = "leaks.png"  # name of the drawing of its pairs, which exists if near-duplicates were searched for
    new: bool = True

    @property
    def has_sheet(self) -> bool:
        return self.leaks is not None and self.leaks.near is not None and bool(self.leaks.pairs)


def crossings(
    board: Leaderboard, runs: Sequence[PlannedRun], folder: Path, *, near: bool = False, progress: Progress = SILENT
) -> list[Crossing]:
    """Leaks of each test set, read from the study's folder if stored there, else searched for now.

    near: also search for near-duplicates. Without it the embedded data is skipped, and missing data gives a reason
    instead of an error.
    """
    specs = {run.row: run.spec for run in reversed(runs)}
    of_set = {row.test_set: specs[row.label] for row in reversed(board.rows)}
    stored = {} if near else _stored(folder)
    leaks = []
    for number, test_set in enumerate(board.signatures, 1):
        spec = of_set[test_set]
        if spec.data.name == EMBEDDED and not near:
            continue
        crossing = stored.get(test_set)
        if crossing is None or crossing.division != _division(spec):
            crossing = _search(test_set, spec, folder, near, progress)
        leaks.append(crossing if len(board.signatures) == 1 else replace(crossing, sheet=f"leaks-{number}.png"))
    return leaks


def write_crossings(crossings: Sequence[Crossing], folder: Path) -> list[Path]:
    """Write leaks.json and the sheets of a new search, and delete sheets of an earlier one; returns the paths."""
    paths, sets = [], []
    renamed = [crossing.test_set for crossing in crossings if crossing.leaks is not None] != list(_stored(folder))
    sheets = [crossing.sheet for crossing in crossings if crossing.has_sheet]
    for sheet in folder.glob("leaks*.png") if crossings else ():
        if _SHEET.fullmatch(sheet.name) and sheet.name not in sheets:
            sheet.unlink()
    for crossing in crossings:
        if crossing.leaks is None:
            continue
        sets.append({"test_set": crossing.test_set, "division": crossing.division, **crossing.leaks.as_data()})
        sheet = folder / crossing.sheet
        if crossing.has_sheet and (crossing.new or renamed or not sheet.is_file()):
            sheet.unlink(missing_ok=True)  # of another test set
            with nullcontext() if crossing.new else suppress(LevelfieldError):  # the images may be gone since
                pair_sheet(crossing.leaks.pairs, sheet)
                paths.append(sheet)
    if sets:
        write_json(folder / FILE, {"test_sets": sets})
        paths.append(folder / FILE)
    return paths


def with_leaks(
    board: Leaderboard, crossings: Sequence[Crossing], folder: Path, tables: Path | None = None
) -> Leaderboard:
    """The board with `facts["leaks"]`: for each test set counts, a sentence, and the path from the tables to the sheet.

    folder: the study's folder. tables: the folder of the tables, if different.
    """
    facts = [_fact(crossing, folder, tables or folder) for crossing in crossings]
    return replace(board, facts={**board.facts, "leaks": facts}) if facts else board


def leak_lines(board: Leaderboard) -> list[str]:
    """One line for each test set; empty if nothing was searched."""
    several = len(board.signatures) > 1
    return [(f"{fact['test_set']}: " if several else "") + fact["text"] for fact in board.facts.get("leaks", [])]


def leak_links(board: Leaderboard) -> list[str]:
    """Markdown lines that link to the sheets."""
    return [
        f"[Pairs of images on both sides of the split]({fact['picture']}): training image left, test image right."
        for fact in board.facts.get("leaks", [])
        if fact.get("picture")
    ]


@trusting()
def _search(test_set: str, spec: RunSpec, folder: Path, near: bool, progress: Progress) -> Crossing:
    run_folder = next((file.parent for file in folder.glob(f"*/{spec.folder_name}/run.yaml")), folder)
    try:
        inputs = inputs_for(spec_at_its_place(run_folder, spec), None, "cpu")
        leaks = find_leaks(inputs.catalog, inputs.fold, radius=RADIUS if near else -1, progress=progress)
    except LevelfieldError as error:
        if near:  # explicitly requested
            raise
        return Crossing(test_set, _division(spec), None, reason=str(error).splitlines()[0])
    return Crossing(test_set, _division(spec), leaks)


def _fact(crossing: Crossing, folder: Path, tables: Path) -> dict[str, Any]:
    leaks = crossing.leaks
    if leaks is None:
        return {"test_set": crossing.test_set, "text": f"Leaks across the split are unknown. {crossing.reason}"}
    sheet = folder / crossing.sheet
    picture = Path(os.path.relpath(sheet, tables)).as_posix() if crossing.has_sheet and sheet.is_file() else None
    return {
        "test_set": crossing.test_set,
        "closed": leaks.closed,
        "classes": len(leaks.classes),
        "identical": len(leaks.identical),
        "near": None if leaks.near is None else len(leaks.near),
        "train_images": leaks.train_images,
        "test_images": leaks.test_images,
        "picture": picture,
        "text": " ".join(leaks.sentences()) + (f" See {picture}." if picture else ""),
    }


def _division(spec: RunSpec) -> dict[str, Any]:
    """The keys that determine the split."""
    return {"data_digest": spec.data_digest, "protocol": spec.protocol.model_dump(mode="json")}


def _stored(folder: Path) -> dict[str, Crossing]:
    """The content of leaks.json by test set; empty if it is missing or damaged."""
    try:
        sets = read_json(folder / FILE, most=_SIZE)["test_sets"]
        return {
            entry["test_set"]: Crossing(entry["test_set"], entry["division"], Leaks.from_data(entry), new=False)
            for entry in sets
        }
    except (Damaged, KeyError, TypeError, ValueError):
        return {}


def pair_sheet(pairs: Sequence[Pair], path: Path, *, most: int = 60) -> int:
    """Write the first `most` pairs as a PNG, training image left, test image right. Returns their number, not 0."""
    if path.suffix.lower() != ".png":
        raise BadInput(f"Cannot write the sheet to '{path.name}': the file name must end with .png.")
    shown = list(pairs[:most])
    wide, high = 2 * _SIDE + 3 * _GAP, _SIDE + _TEXT * 2 + _GAP
    across = min(_ACROSS, len(shown))
    sheet = Image.new("RGB", (across * wide, -(-len(shown) // across) * high), "white")
    draw = ImageDraw.Draw(sheet)
    for number, pair in enumerate(shown):
        left, top = number % across * wide + _GAP, number // across * high + _GAP
        for column, path_of_image in enumerate((pair.train, pair.test)):
            image = read_image(path_of_image)
            image.thumbnail((_SIDE, _SIDE))
            sheet.paste(image, (left + column * (_SIDE + _GAP) + (_SIDE - image.width) // 2, top))
        for line, text in enumerate(pair.caption.split("; ", 1)):
            short = text if len(text) <= _LETTERS else f"{text[: _LETTERS - 3]}..."
            draw.text((left, top + _SIDE + line * (_TEXT - 3)), short, fill="black")
    write_whole(path, lambda file: sheet.save(file, format="PNG"))
    return len(shown)
