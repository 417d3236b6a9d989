"""An exported model is measured again: its own rows of the run's test images, beside those that the run stored."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from levelfield.errors import BadInput, LevelfieldError
from levelfield.evaluation import Evaluation, Threshold, Unknowns, evaluate, same_or_not
from levelfield.files.writing import finite
from levelfield.progress import Progress
from levelfield.shipping.description import View
from levelfield.shipping.formats import PlainNetwork, Rows, RowsOf, noise
from levelfield.shipping.index.decision import unknowns_among
from levelfield.shipping.onnx_model import embedded, unit
from levelfield.studies.runs.finished import inputs_of, stored_test
from levelfield.studies.runs.folder.items import Items
from levelfield.studies.runs.inputs import RunInputs
from levelfield.studies.runs.joined.members import spec_of

METRICS = ("recall@1", "map@r")
BATCHES = (1, 2, 17)  # one image, the traced number, more than a block


@dataclass(frozen=True)
class Tolerance:
    """The largest allowed difference of a number of a unit row (or share of other bits, for binary codes), and of a
    figure. One query more or less is always allowed."""

    number: float
    bits: float
    figure: float

    def limit(self, binary: bool) -> float:
        return self.bits if binary else self.number


# float32: onnxruntime and torch differ by 1e-7 to 1e-5, from the order of sums. int8: a weight is rounded by up to
# 1/254 of the largest of its channel; the demo's rows differ by up to 0.03 in 665,856 numbers.
TOLERANCES = {"float32": Tolerance(1e-4, 0.002, 0.002), "int8": Tolerance(0.05, 0.05, 0.02)}


@dataclass(frozen=True)
class TestImages:
    """The test images of a run where they are now, and the rows that the run stored."""

    __test__ = False  # not a test case, despite its name

    inputs: RunInputs
    items: Items
    rows: Rows

    @classmethod
    def of(cls, run: Path) -> TestImages:
        try:
            rows, items = stored_test(run)
            inputs = inputs_of(run)
            if len(inputs.fold.test) != len(rows):
                raise BadInput(f"There are {len(inputs.fold.test):,} test images, but {len(rows):,} stored rows.")
        except LevelfieldError as error:
            raise BadInput(
                f"The exported model cannot be measured on the run's test images. {error} To export without "
                "measuring: --no-measure"
            ) from error
        return cls(inputs, items, rows)

    def embed(self, indices: NDArray[np.int64], rows_of: RowsOf, view: View, progress: Progress) -> Rows:
        """The rows that an exported model gives for some images of the run's catalog."""
        paths = [self.inputs.catalog.paths[i] for i in indices]
        return embedded(paths, view, rows_of, self.rows.shape[1], stage=progress.stage("measuring", len(paths)))


@dataclass(frozen=True)
class Measured:
    """Figures of the run and of the exported model on the same images. `difference`: of the rows, see there."""

    original: Evaluation
    exported: Evaluation
    difference: float
    limit: float
    binary: bool
    threshold: Threshold | None
    unknowns: Unknowns | None = None
    no_threshold: str = ""  # the reason, a sentence

    @property
    def difference_text(self) -> str:
        what = "Share of bits that differ" if self.binary else "Largest difference of a number of the unit rows"
        return f"{what}: {self.difference:.2g} (limit {self.limit:g})."

    def as_data(self) -> dict[str, Any]:
        """What model.json says about the measurement."""
        data = {
            "figures": {name: {"run": run, "exported": now} for name, (run, now) in self.figures.items()},
            "largest_difference": self.difference,
            "limit": self.limit,
            "threshold": None if self.threshold is None else self.threshold.value,
            "unknowns": None if self.unknowns is None else asdict(self.unknowns),
            **({"no_threshold": self.no_threshold} if self.threshold is None else {}),
        }
        return dict(finite(data))

    @property
    def figures(self) -> dict[str, tuple[float, float]]:
        """Each figure of the run and of the exported model."""
        return {name: (self.original[name], self.exported[name]) for name in self.original}


def check_batches(network: PlainNetwork, rows_of: RowsOf, view: View, *, weights: str, binary: bool) -> None:
    """Raise if rows depend on the size of the batch, or differ from those of the network (unless weights are rounded).

    A traced network that keeps the batch of its example would otherwise return wrong rows without an error.
    """
    images = noise(view, max(BATCHES))
    limit = TOLERANCES["float32"].limit(binary)
    with torch.no_grad():
        expected = network(images).numpy()
    largest = rows_of(images.numpy())
    for count in BATCHES:
        rows = rows_of(images[:count].numpy())
        if rows.shape != (count, expected.shape[1]) or difference(rows, largest[:count], binary=binary) > limit:
            raise BadInput(
                f"This network cannot be exported: for a batch of {count} the exported model returns other rows than "
                f"for a batch of {max(BATCHES)}."
            )
    if weights == "float32" and (away := difference(largest, expected, binary=binary)) > limit:
        raise BadInput(
            f"This network cannot be exported: rows of the exported model differ by {away:.2g} from its own; the limit "
            f"is {limit:g}."
        )


def compare_with_run(
    images: TestImages, rows_of: RowsOf, view: View, *, run: Path, weights: str, binary: bool, progress: Progress
) -> Measured:
    """The figures of the exported model on the run's test images; raises if they differ by more than the tolerance.

    view: read from the written files, so that wrong preprocessing is noticed.
    """
    rows = images.embed(images.inputs.fold.test, rows_of, view, progress)
    allowed = TOLERANCES[weights]
    limit, away = allowed.limit(binary), difference(rows, images.rows, binary=binary)
    if away > limit:
        what = f"{away:.2g} of the bits" if binary else "numbers"
        by = "" if binary else f" by up to {away:.2g}"
        raise BadInput(
            f"The exported model is not the run's: {what} of its embeddings differ{by}; the limit for {weights} "
            f"weights is {limit:g}. Nothing was written."
        )
    original, exported = (evaluate(**images.items.arrays(r), metrics=METRICS, ci=0.95) for r in (images.rows, rows))
    for name in METRICS if original.counted.any() else ():  # without a query that counts there is no figure
        most = max(allowed.figure, 1.001 / int(original.counted.sum()))  # at least one query, and a little for rounding
        if not abs(original[name] - exported[name]) <= most:
            raise BadInput(
                f"The exported model is not the run's: {name} is {exported[name]:.4f} instead of {original[name]:.4f}; "
                f"the limit for {weights} weights is a difference of {most:.2g}. Nothing was written."
            )
    fold, catalog = images.inputs.fold, images.inputs.catalog
    if reason := _no_validation(run, images):
        return Measured(original, exported, away, limit, binary, None, no_threshold=reason)
    names = np.array(catalog.class_names)[catalog.labels[fold.validation]]
    validation = images.embed(fold.validation, rows_of, view, progress)  # an unreadable image stops the export
    try:
        chosen = same_or_not(validation, names, progress=progress)
    except LevelfieldError as error:
        return Measured(original, exported, away, limit, binary, None, no_threshold=str(error))
    matched = None if len(exported.classes) < 2 else unknowns_among(chosen, images.items, rows, progress=progress)
    return Measured(original, exported, away, limit, binary, chosen, matched)


def _no_validation(run: Path, images: TestImages) -> str:
    """Why the run has no validation classes to choose a threshold on; empty if it has some."""
    if not len(images.inputs.fold.validation):
        return "The run has no validation classes (protocol.validation)."
    try:
        spec_of(run)
    except LevelfieldError as error:  # members of other folds were trained on these classes
        return str(error)
    return ""


def difference(rows: Rows, expected: Rows, *, binary: bool) -> float:
    """The largest difference of a number of the unit rows; for binary codes the share of bits that differ.

    >>> difference(np.float32([[2, 0]]), np.float32([[1, 0]]), binary=False)
    0.0
    >>> difference(np.float32([[1, -1]]), np.float32([[1, 1]]), binary=True)
    0.5
    """
    if rows.shape != expected.shape or not len(rows):
        return 0.0 if rows.shape == expected.shape else float("inf")
    if binary:
        return float(((rows > 0) != (expected > 0)).mean())
    away = float(np.abs(unit(np.asarray(rows)) - unit(np.asarray(expected))).max())
    return away if np.isfinite(away) else float("inf")
