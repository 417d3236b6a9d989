"""The threshold of an index and its rate of matched unknowns: chosen and measured on the model's own classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from levelfield.errors import BadInput, LevelfieldError
from levelfield.files.reading import MEGABYTE, read_bytes
from levelfield.files.writing import finite
from levelfield.progress import SILENT, Progress
from levelfield.shipping.description import DESCRIPTION, read_description
from levelfield.shipping.onnx_model import OnnxModel

if TYPE_CHECKING:
    from levelfield.embedder import Ensemble, Model
    from levelfield.evaluation import Threshold, Unknowns
    from levelfield.studies.runs.folder.items import Items

_TRAINED = "training.json"  # that of levelfield.studies.runs.folder.files, known without torch

Decision = dict[str, Any]
"""`threshold` (value, low, high, chosen_on) and `unknowns` (as `levelfield.evaluation.Unknowns`); None: not known."""


def choose(
    run: Path, model: Model | Ensemble | OnnxModel, choose_on: str, *, progress: Progress = SILENT
) -> tuple[Decision, str]:
    """The decision for an index of photos, and a sentence if something is not known.

    Args:
        run: folder of a run, whose classes choose the threshold; or an exported model, whose export measured one.
        model: the one loaded from `run`.
        choose_on: "validation" or "training" classes.
    """
    if run.is_file() or ((run / DESCRIPTION).is_file() and not (run / _TRAINED).exists()):
        if choose_on == "training":
            raise BadInput(
                f"--choose-on training needs the training images, which the exported model {run} does not know: give "
                "the run instead."
            )
        return _of_export(run, model)
    from levelfield.evaluation import same_or_not
    from levelfield.studies.runs.finished import PARTS, embed_part, stored_test

    if choose_on not in PARTS:
        raise BadInput(f"--choose-on {choose_on}: must be {' or '.join(PARTS)}.")
    try:
        chosen = same_or_not(*embed_part(run, choose_on, progress=progress), progress=progress)
    except LevelfieldError as error:
        return {}, f"No threshold for 'same class'. {error}"
    low, high = finite(chosen.interval)
    threshold = {"value": chosen.value, "low": low, "high": high, "chosen_on": f"{choose_on} classes"}
    try:
        rows, items = stored_test(run)
        rate = unknowns_among(chosen, items, rows, progress=progress)
    except LevelfieldError as error:
        return {"threshold": threshold}, f"The rate of matched unknowns is not known. {error}"
    return {"threshold": threshold, "unknowns": finite(asdict(rate))}, ""


def _of_export(path: Path, model: Model | Ensemble | OnnxModel) -> tuple[Decision, str]:
    """What `levelfield export` measured."""
    if isinstance(model, OnnxModel):
        measured = model.measured
    else:
        file = path / "model.yaml"
        measured = read_description(file, read_bytes(file, most=MEGABYTE)).get("measured")
    if measured is None:
        return {}, (
            "No threshold for 'same class': the model was exported with --no-measure. Export it again without that "
            "option, or index with the run."
        )
    if measured.get("threshold") is None:
        reason = measured.get("no_threshold") or "The run of the exported model has no validation classes."
        return {}, f"No threshold for 'same class'. {reason}"
    threshold = {"value": measured["threshold"], "low": None, "high": None, "chosen_on": "validation classes"}
    return {"threshold": threshold, "unknowns": measured.get("unknowns")}, ""


def unknowns_among(threshold: Threshold, items: Items, rows: NDArray[np.float32], *, progress: Progress) -> Unknowns:
    """How many test images the threshold matches although their class is left out of the gallery."""
    arrays = {name: array for name, array in items.arrays(rows).items() if name != "lone"}
    return threshold.unknowns(**arrays, progress=progress)


def unknowns_text(figures: Mapping[str, Any], *, level: float = 0.95) -> str:
    """The rate in one sentence. figures: the fields of `Unknowns`, with None for NaN."""
    low, high = figures["low"], figures["high"]
    ends = "" if low is None else f" ({100 * level:g} % interval {100 * low:.3g} to {100 * high:.3g} %)"
    return (
        f"Unknown classes: {100 * figures['value']:.3g} %{ends} of the images whose class is not in the gallery are "
        f"matched wrongly: {figures['matched']:,} of {figures['images']:,} test images of {figures['classes']:,} "
        f"classes, each searched among the {figures['gallery']:,} images, its own class left out. A larger gallery has "
        "more."
    )
