"""Class means and spreads that HIST learned, beside those of the training embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from torch import Tensor

from levelfield.embedder import Model, load
from levelfield.embedder.devices import requested, usable
from levelfield.objectives import Hist
from levelfield.progress import SILENT
from levelfield.studies.runs.folder.method_file import load_method
from levelfield.studies.runs.folder.store import spec_at_its_place
from levelfield.studies.runs.inputs import inputs_for
from levelfield.trust import trusting


class Distributions(NamedTuple):
    """One row, or one number, per training class; means have length 1."""

    learned_means: np.ndarray  # (C, d)
    found_means: np.ndarray  # (C, d), of the unit embeddings
    learned_spreads: np.ndarray  # (C,), Frobenius norm of the covariance, which is diagonal
    found_spreads: np.ndarray  # (C,), mean squared distance of the unit embeddings to their mean


@trusting()
def distributions_of(folder: Path) -> Distributions | None:
    """The distributions of a finished HIST run (lim2022, B.2); None if it has none. Embeds the images again."""
    objective = load_method(folder).objective
    if not isinstance(objective, Hist) or objective.means is None or objective.log_vars is None:
        return None
    device = usable(requested())
    inputs, model = inputs_for(spec_at_its_place(folder), None, device), load(folder, device=device)
    assert isinstance(model, Model)  # not an ensemble, since it trained
    rows = inputs.embed(model.embedder, inputs.fold.train, SILENT)
    low, high = objective.log_var_clamp
    means, variances = _numbers(objective.means), np.exp(_numbers(objective.log_vars).clip(low, high))
    return compared(means, variances, rows, inputs.train_labels)


def compared(means: np.ndarray, variances: np.ndarray, rows: np.ndarray, labels: np.ndarray) -> Distributions:
    """Learned `means` and `variances` (C, d) beside the raw embedding `rows` (n, d) of classes 0..C-1.

    >>> rows = np.array([[2.0, 0.0], [0.0, 1.0]])
    >>> compared(np.array([[3.0, 4.0]]), np.array([[3.0, 4.0]]), rows, np.array([0, 0])).found_spreads
    array([0.5])
    """
    rows = _unit(rows.astype(np.float64))
    counts = np.bincount(labels, minlength=len(means))
    sums = np.zeros((len(means), rows.shape[1]))
    np.add.at(sums, labels, rows)
    centres = sums / np.maximum(counts, 1)[:, None]
    squared = np.square(rows - centres[labels]).sum(axis=1)
    spreads = np.bincount(labels, squared, minlength=len(means)) / np.maximum(counts, 1)
    return Distributions(_unit(means), _unit(centres), np.linalg.norm(variances, axis=1), spreads)


def _numbers(parameter: Tensor) -> np.ndarray:
    array: np.ndarray = parameter.detach().double().numpy()
    return array


def _unit(rows: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(length > 0, length, 1)
