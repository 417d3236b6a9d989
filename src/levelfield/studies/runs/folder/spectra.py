"""Spectra of a run's training embeddings, stored after training (roth2020, section E)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from levelfield.errors import BadInput
from levelfield.evaluation import class_spectrum, spectral_decay, spectrum
from levelfield.files.arrays import read_arrays
from levelfield.files.reading import damaged
from levelfield.files.writing import write_whole
from levelfield.studies.runs.folder.files import of_a_run

FILE = "training_spectra.npz"


def record(rows: np.ndarray, labels: np.ndarray, folder: Path) -> float:
    """Normalise raw training rows (n, d), write their spectra, and return their spectral decay rho.

    The rows are embedded like the test images, in one pass over the training images.
    """
    length = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    unit = rows / np.where(length > 0, length, 1)
    spectra: dict[str, Any] = {"spectrum": spectrum(unit), "class_spectrum": class_spectrum(unit, labels)}
    write_whole(folder / FILE, lambda file: np.savez(file, **spectra))
    return spectral_decay(unit)


def read(folder: Path, kind: str) -> np.ndarray:
    """A stored spectrum of a run: of all rows, or the mean over classes."""
    if not (folder / FILE).exists():
        raise BadInput(f"{folder} has no {FILE}: the run trains nothing.")
    with of_a_run():
        stored = read_arrays(folder / FILE)
        if kind not in stored or stored[kind].ndim != 1:
            raise damaged(folder / FILE, f"lacks '{kind}', or it is not a list of numbers")
        return stored[kind]
