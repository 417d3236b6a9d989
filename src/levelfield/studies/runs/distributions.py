"""Class means and spreads that HIST learned, beside those of the training embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from levelfield.embedder import Model, load
from levelfield.embedder.devices import requested, usable
from levelfield.objectives import Hist
from levelfield.progress import SILENT
from levelfield.studies.runs.folder.method_file import load_method
from levelfield.studies.runs.folder.store import class_means, spec_at_its_place
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
    rows = _unit(inputs.embed(model.embedder, inputs.fold.train, SILENT).astype(np.float64))
    labels = inputs.train_labels
    centres = np.zeros((inputs.num_classes, rows.shape[1]))
    np.add.at(centres, labels, rows)
    centres /= np.bincount(labels)[:, None]
    spreads, _ = class_means(np.square(rows - centres[labels]).sum(axis=1), labels)
    means, log_vars = (part.detach().double().numpy() for part in (objective.means, objective.log_vars))
    variances = np.exp(log_vars.clip(*objective.log_var_clamp))
    return Distributions(_unit(means), _unit(centres), np.linalg.norm(variances, axis=1), spreads)


def _unit(rows: np.ndarray) -> np.ndarray:
    length: np.ndarray = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(length > 0, length, 1)
