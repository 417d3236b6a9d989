"""The stored model of a run: all scores are computed from it alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from levelfield.embedder import Embedder, Trunk
from levelfield.embedder.model import Model, load
from levelfield.embedder.model_files import read_weights
from levelfield.errors import Unfair
from levelfield.studies.runs.inputs import RunInputs
from levelfield.studies.runs.training import Trained
from levelfield.training.audit import may_change

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
