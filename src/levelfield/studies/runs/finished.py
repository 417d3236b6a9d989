"""Use a finished run: its stored test embeddings, its other classes embedded by its model, and what HIST learned."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from levelfield import embedder as networks
from levelfield.embedder.devices import requested, usable
from levelfield.errors import BadInput, BadSpecification
from levelfield.evaluation.search.distances import unit_rows
from levelfield.methods import Method
from levelfield.methods.refine.passing import Refinement
from levelfield.objectives import Hist
from levelfield.progress import SILENT, Progress
from levelfield.studies.runs.folder.files import EMBEDDINGS, ITEMS, TRAINED, read_embeddings, read_training
from levelfield.studies.runs.folder.items import Items
from levelfield.studies.runs.folder.method_file import load_method
from levelfield.studies.runs.folder.store import class_means, read_spec, spec_at_its_place
from levelfield.studies.runs.inputs import RunInputs, inputs_for
from levelfield.studies.runs.joined.members import spec_of
from levelfield.trust import trusting

PARTS = ("validation", "training")


def stored_test(folder: Path) -> tuple[np.ndarray, Items]:
    """The stored test embeddings of a run and their images."""
    if not all(os.path.lexists(folder / name) for name in (EMBEDDINGS, ITEMS, TRAINED)):
        raise BadInput(f"{folder} has no test embeddings: it is not a finished run, or it was trained on every class.")
    return read_embeddings(folder), Items.read(folder)


def inputs_of(folder: Path, *, trained: bool = False, device: str = "cpu") -> RunInputs:
    """The data of a finished run where it is now. trained: its training images matter, too (see `spec_of`)."""
    return inputs_for(spec_at_its_place(folder, spec_of(folder, trained=trained)), None, device)


def how_refined(folder: Path) -> str:
    """How the run's method refined the embeddings at test time; empty if it did not."""
    return str(read_training(folder)["measured"].get("refined", ""))


def how_many_models(folder: Path) -> int:
    """The number of networks behind the run's embeddings: more than one if it joins others."""
    return int(read_training(folder)["measured"].get("members", 1))


def how_many_bits(folder: Path) -> int:
    """Bits per dimension of the run's embeddings: 1 for binary codes."""
    return int(read_training(folder)["measured"].get("bits", 32))


def refiner(folder: Path) -> Method:
    """The trained method of a run whose stored rows can be refined."""
    if how_refined(folder):
        raise BadInput(
            f"The stored embeddings of {folder} are already refined ({how_refined(folder)}), but --refine needs plain "
            "embeddings. Train without 'refine', then try any refinement with --refine."
        )
    if how_many_models(folder) > 1:
        raise BadInput(f"{folder} joins several runs, but message passing needs a single network: refine its members.")
    method = load_method(folder)
    try:
        Refinement().width(method.objective)
    except BadSpecification as error:
        label = read_spec(folder).method.label
        raise BadInput(f"{folder} ('{label}') cannot be refined. {error}") from error
    return method


@trusting()
def embed_part(
    folder: Path, part: str, *, cached: bool = False, progress: Progress = SILENT
) -> tuple[np.ndarray, np.ndarray]:
    """Raw embeddings of a run's validation or training classes, and the names of the classes. cached: raise if they
    cannot be computed from features in the cache, which takes hardly any time."""
    if part not in PARTS:
        raise BadInput(f"--choose-on {part}: must be {' or '.join(PARTS)}.")
    if how_refined(folder):
        raise BadInput(
            f"The method of {folder} refines embeddings at test time, which its stored model alone cannot repeat."
        )
    device = usable(requested())
    inputs = inputs_of(folder, trained=True, device=device)
    indices = inputs.fold.validation if part == "validation" else inputs.fold.train
    if not len(indices):
        raise BadInput(
            f"{folder} has no validation classes, and a threshold must not be chosen on the test classes. Train again "
            "with validation classes (levelfield compare STUDY protocol.validation=0.2), or use --choose-on training: "
            "the network has seen those classes, so the threshold will look better there than it is."
        )
    if cached and (how_many_models(folder) > 1 or not inputs.is_cached or inputs.missing(indices, inputs.views[1], 0)):
        raise BadInput(f"The features of the {part} classes of {folder} are not in the cache.")
    catalog, model = inputs.catalog, networks.load(folder, device=device)
    if isinstance(model, networks.Model):  # from stored features where there are some: the same bits
        rows = inputs.embed(model.embedder, indices, progress)
    else:
        rows = model.embed([catalog.paths[i] for i in indices], normalize=False, progress=progress)
    return rows, np.array(catalog.class_names)[catalog.labels[indices]]


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
    inputs, model = inputs_of(folder, trained=True, device=device), networks.load(folder, device=device)
    assert isinstance(model, networks.Model)  # not an ensemble, since it trained
    rows = inputs.embed(model.embedder, inputs.fold.train, SILENT)
    means, log_vars = (part.detach().double().numpy() for part in (objective.means, objective.log_vars))
    return compared(means, np.exp(log_vars.clip(*objective.log_var_clamp)), rows, inputs.train_labels)


def compared(means: np.ndarray, variances: np.ndarray, rows: np.ndarray, labels: np.ndarray) -> Distributions:
    """Learned `means` and `variances` (C, d) beside the raw embedding `rows` (n, d) of classes 0..C-1."""
    rows = unit_rows(rows, np.float64)
    centres = np.zeros((len(means), rows.shape[1]))
    np.add.at(centres, labels, rows)
    centres /= np.bincount(labels)[:, None]
    spreads, _ = class_means(np.square(rows - centres[labels]).sum(axis=1), labels)
    return Distributions(unit_rows(means), unit_rows(centres), np.linalg.norm(variances, axis=1), spreads)
