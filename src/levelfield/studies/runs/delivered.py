"""The stored model of a run: all scores are computed from it alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from levelfield.data.loader import Loader
from levelfield.embedder import Embedder, Trunk
from levelfield.embedder.model import Model, load
from levelfield.embedder.model_files import read_weights
from levelfield.embedder.trunk.blocks import BLOCK
from levelfield.errors import Unfair
from levelfield.progress import SILENT
from levelfield.studies.runs.inputs import RunInputs
from levelfield.studies.runs.shipped import shipped_data
from levelfield.studies.runs.training import Trained
from levelfield.training.audit import may_change

SAME = 1e-3  # relative to a row's length: smaller differences come from the order of sums
_chance = random.SystemRandom()

Embed = Callable[..., np.ndarray]


def delivered(folder: Path, inputs: RunInputs, trained: Trained) -> Embed:
    """A function that embeds images with the stored model in `folder`: `embed(indices, progress, text)`.

    Raises if the frozen part of the model differs from the common start.
    """
    if trained.facts.own_head:
        bare = Embedder(_trunk(folder, inputs), torch.nn.Identity())
        _check_frozen(bare.trunk, inputs, trains=trained.facts.trains)
        return lambda indices, progress, text="embedding": trained.headed(inputs.embed(bare, indices, progress, text))
    model = load(folder, device=inputs.device)
    assert isinstance(model, Model)
    _check_frozen(model.embedder.trunk, inputs, trains=trained.facts.trains)
    if shipped_data(inputs.data_digest) is None:  # else this machine has no images
        _check_some(folder, model, inputs)
    return lambda indices, progress, text="embedding": inputs.embed(model.embedder, indices, progress, text)


def _trunk(folder: Path, inputs: RunInputs) -> Trunk:
    stored, trunk, prefix = read_weights(folder), inputs.new_trunk(), "trunk."
    trunk.load_state_dict({k.removeprefix(prefix): v for k, v in stored.items() if k.startswith(prefix)}, strict=True)
    return trunk.to(inputs.device).eval()


def _check_frozen(trunk: Trunk, inputs: RunInputs, *, trains: bool) -> None:
    """Check that the network is that of the conditions, and that its frozen part is unchanged."""
    if trunk.settings != inputs.still_trunk.settings:
        raise Unfair("The model uses another network than the conditions specify.")
    loaded, now = inputs.still_trunk.state_dict(), trunk.state_dict()
    moving = may_change(trunk) if trains else set()
    for name in now.keys() - moving:
        if not torch.equal(loaded[name], now[name]):
            raise Unfair(
                f"The method changed '{name}' of the network, which is frozen under these conditions: the stored model "
                "is not the trained one."
            )


def _check_some(folder: Path, model: Model, inputs: RunInputs) -> None:
    """Embed some random images with the whole stored model, as a user would, and compare."""
    parts = [part.tolist() for part in (inputs.fold.test, inputs.fold.train)]
    chosen = np.array([image for part in parts for image in _chance.sample(part, min(BLOCK // 2, len(part)))])
    ours = inputs.embed(model.embedder, chosen, SILENT, coded=False)
    pictures = Loader([inputs.catalog.paths[image] for image in chosen], model.view, device=model.device)
    theirs = model.embedder.embed(pictures, from_images=True, coded=False).cpu().numpy()
    away = np.linalg.norm(ours - theirs, axis=1)
    if not (away <= SAME * np.maximum(np.linalg.norm(theirs, axis=1), 1e-12)).all():
        raise Unfair(
            f"The model in {folder} does not reproduce the embeddings to be evaluated: {(away > 0).sum()} of "
            f"{len(chosen)} images embedded again differ, by up to {away.max():.3g}. Either the cached features are "
            "damaged (run `levelfield cache --clear`), or the method changed them or the network."
        )
