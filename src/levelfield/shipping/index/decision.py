"""The threshold of an index and its rate of matched unknowns: chosen and measured on the model's own classes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from levelfield.errors import BadInput, LevelfieldError
from levelfield.progress import SILENT, Progress
from levelfield.shipping.onnx_model import OnnxModel

Decision = dict[str, Any]
"""`threshold` (value, low, high, chosen_on) and `unknowns` (as `levelfield.evaluation.Unknowns`); None: not known."""


def of_run(run: Path, *, choose_on: str = "validation", progress: Progress = SILENT) -> tuple[Decision, str]:
    """The threshold that a run's validation (or training) classes choose, the rate of matched unknowns among its test
    classes, and a sentence if there is no threshold."""
    from levelfield.evaluation import same_or_not
    from levelfield.studies.runs.finished import PARTS, embed_part, stored_test

    if choose_on not in PARTS:
        raise BadInput(f"--choose-on {choose_on}: must be {' or '.join(PARTS)}.")
    try:
        chosen = same_or_not(*embed_part(run, choose_on, progress=progress), progress=progress)
    except LevelfieldError as error:
        return {}, f"No threshold for 'same class'. {error}"
    low, high = (_known(bound) for bound in chosen.interval)
    told = {"value": chosen.value, "low": low, "high": high, "chosen_on": f"{choose_on} classes"}
    try:
        rows, items = stored_test(run)
        arrays = {name: array for name, array in items.arrays(rows).items() if name != "lone"}
        found = chosen.unknowns(**arrays, progress=progress)
    except LevelfieldError as error:
        return {"threshold": told}, f"The rate of matched unknowns is not known. {error}"
    return {"threshold": told, "unknowns": plain(found)}, ""


def of_export(model: OnnxModel) -> tuple[Decision, str]:
    """What `levelfield export` measured."""
    measured = model.measured or {}
    if measured.get("threshold") is None:
        return (
            {},
            "No threshold for 'same class': the exported model has none, because its run has no validation classes.",
        )
    told = {"value": measured["threshold"], "low": None, "high": None, "chosen_on": "validation classes"}
    return {"threshold": told, "unknowns": measured.get("unknowns")}, ""


def plain(found: Any) -> dict[str, Any]:
    """A dataclass of figures as data; JSON has no NaN."""
    return {key: _known(value) for key, value in asdict(found).items()}


def unknowns_text(found: Mapping[str, Any], *, level: float = 0.95) -> str:
    """The rate in one sentence. found: as `plain` gives it."""
    low, high = found["low"], found["high"]
    ends = "" if low is None else f" ({100 * level:g} % interval {100 * low:.3g} to {100 * high:.3g} %)"
    return (
        f"Unknown classes: {100 * found['value']:.3g} %{ends} of the images whose class is not in the gallery are "
        f"matched wrongly: {found['matched']:,} of {found['images']:,} test images of {found['classes']:,} classes, "
        f"each searched among {found['gallery']:,} images without its own class. A larger gallery has more."
    )


def _known(value: float) -> float | None:
    return None if isinstance(value, float) and not math.isfinite(value) else value
