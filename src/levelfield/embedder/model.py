"""A trained embedder as a folder: model.safetensors (every weight) and model.yaml (how to rebuild it)."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from levelfield.data.images import Picture, listed
from levelfield.data.loader import Loader
from levelfield.data.views.basic import View
from levelfield.data.views.named import described_view
from levelfield.embedder.best import run_folder
from levelfield.embedder.devices import usable
from levelfield.embedder.embedder import Embedder
from levelfield.embedder.head import Head
from levelfield.embedder.model_files import (
    DESCRIPTION,
    MEMBERS,
    WEIGHTS,
    check_numbers,
    member_folders,
    read_description,
    read_weights,
    write_model,
)
from levelfield.embedder.relation import RelationHead
from levelfield.embedder.trunk import backbones
from levelfield.embedder.trunk.trunk import Trunk
from levelfield.embedder.trunk.weights import is_own
from levelfield.errors import BadInput, BadSpecification, Damaged
from levelfield.progress import SILENT, Progress
from levelfield.trust import trusting
from levelfield.wording import Shown

if TYPE_CHECKING:
    from levelfield.embedder.ensemble import Ensemble

HEADS: dict[str, type[Head] | type[RelationHead]] = {"linear": Head, "relation": RelationHead}
"""Heads that a model can have. Each has `dim`, and `settings`: the keyword arguments that recreate it."""


def save_model(folder: Path, embedder: Embedder, description: Mapping[str, Any]) -> None:
    """Write the two files. `description` needs the view's `image`, `mean`, `std`, and may have `crop` (1.0) or `steps`,
    `interpolation` ("bicubic"), and any other facts that YAML can hold."""
    if missing := [name for name in ("image", "mean", "std") if name not in description]:
        raise BadSpecification(f"The description of a model lacks {', '.join(missing)}, needed to read images.")
    names = ("image", "mean", "std", "interpolation", "steps" if "steps" in description else "crop")
    view = described_view({name: description[name] for name in names if name in description}).description
    kind = next((name for name, kind in HEADS.items() if isinstance(embedder.head, kind)), None)
    head = None if isinstance(embedder.head, nn.Identity) else {"own": type(embedder.head).__name__}
    facts = {
        "trunk": embedder.trunk.settings,
        "head": head if kind is None else {"kind": kind, **embedder.head.settings},  # type: ignore[dict-item]
        **({} if embedder.codes == "float32" else {"codes": embedder.codes}),
        "view": view,
        "about": {name: value for name, value in description.items() if name not in view},
    }
    # one layout on disk; loading converts to the layout of the network
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in embedder.state_dict().items()}
    write_model(folder, facts, tensors)


@trusting()
def load(folder: Path | str, *, device: str = "cpu", head: nn.Module | None = None) -> Model | Ensemble:
    """The model in `folder`, ready to embed images. Nothing is downloaded: the folder holds every weight. Files
    whose checksum differs are refused. Code that the folder names is not run: a backbone from your own file needs
    `with levelfield.trusting(FILE):`.

    Args:
        folder: of a run, or of a study, meaning its best run (`runs/demo`, or `runs/demo/best`).
        device: where the model computes, as torch names it: "cpu", "cuda:0"; "auto": CUDA, else MPS, else the CPU.
        head: needed only for a model with a custom head; its weights are read from the folder.

    Returns:
        A `Model`; of a run that joins several runs an `Ensemble`, which is used in the same way.
    """
    home, device = run_folder(folder), usable(device)
    facts = read_description(home)
    if MEMBERS in facts:
        from levelfield.embedder.ensemble import Ensemble

        members = (load(member, device=device, head=copy.deepcopy(head)) for member in member_folders(home, facts))
        return Ensemble(tuple(members), facts.get("about", {}))
    weights = read_weights(home)
    try:
        check_numbers(facts)
        view = described_view(facts["view"])
        if not is_own(facts["trunk"]["backbone"]):
            _check_shapes(facts, weights)
        embedder = _rebuilt(facts, head)
        embedder.load_state_dict(weights, strict=True)
    except (AttributeError, LookupError, OverflowError, RuntimeError, TypeError, ValueError, BadSpecification) as error:
        raise Damaged(f"{home / DESCRIPTION} is damaged or was made by another version: {error}") from error
    return Model(embedder.to(device).eval(), view, facts.get("about", {}), str(facts["checksum"]))


def _check_shapes(facts: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
    """Refuse a description of another network than that of the weights, before memory is allocated for it."""
    try:
        with torch.device("meta"):
            described = _rebuilt(facts, nn.Identity()).state_dict()
    except (NotImplementedError, RuntimeError):  # a network that computes with its weights while it is made
        return
    custom = "own" in (facts["head"] or {})
    stored = {name: tensor.shape for name, tensor in weights.items() if not (custom and name.startswith("head."))}
    shapes = {name: tensor.shape for name, tensor in described.items()}
    if different := sorted(name for name in {*shapes, *stored} if shapes.get(name) != stored.get(name)):
        raise BadSpecification(f"'{different[0]}' of the trunk and head that it describes is another one in {WEIGHTS}.")


def _rebuilt(facts: Mapping[str, Any], head: nn.Module | None) -> Embedder:
    """The embedder that `facts` describe, with other weights. head: a custom one."""
    settings = dict(facts["trunk"])
    trunk = Trunk(backbones.blank(settings.pop("backbone"), settings.pop("weights_digest")), **settings)
    return Embedder(trunk, _head(facts["head"], head), codes=facts.get("codes", "float32"))


def _head(facts: dict[str, Any] | None, custom: nn.Module | None) -> nn.Module:
    """The head that `facts` describe."""
    if facts is None:
        return nn.Identity()
    if "own" not in facts:
        return HEADS[facts.get("kind", "linear")](**{name: facts[name] for name in facts if name != "kind"})
    if custom is None:
        raise BadInput(f"This model has a custom head; pass it: levelfield.load(RUN, head={facts['own']}(...)).")
    return custom


@dataclass(frozen=True, repr=False)
class Model(Shown):
    """An embedder with its test view. `about` holds the facts that its run stored, `checksum` that of its files."""

    embedder: Embedder
    view: View
    about: Mapping[str, Any]
    checksum: str = ""

    @property
    def dim(self) -> int:
        head = self.embedder.head
        return head.dim if isinstance(head, Head | RelationHead) else self.embedder.trunk.width

    @property
    def device(self) -> torch.device:
        return next(self.embedder.parameters()).device

    def facts(self) -> dict[str, Any]:
        return {
            **super().facts(),
            "backbone": self.embedder.trunk.settings["backbone"],
            "dim": self.dim,
            "image": getattr(self.view, "image", None),
            "device": str(self.device),
        }

    def embed(
        self,
        images: Picture | Sequence[Picture],
        *,
        normalize: bool = True,
        exact: bool = True,
        progress: Progress = SILENT,
    ) -> NDArray[np.float32]:
        """The embeddings of images. A row depends only on its image and is bit-identical to the one stored by its run.

        Args:
            images: paths, PIL images or uint8 arrays (height, width, 3), one or many; also one array
                (images, height, width, 3).
            normalize: divide each row by its length.
            exact: give the bits that runs store: a block with few images is filled up to its full size of 16. With
                `exact=False` one image costs only itself, and the last bits of a row may differ.
            progress: gets one stage, whose steps are images (`levelfield.progress`).

        Returns:
            float32 (images, dim); one image gives one row.
        """
        loader = Loader(listed(images), self.view, device=self.device)
        stage = progress.stage("embedding", len(loader))
        rows = self.embedder.embed(loader, from_images=True, normalize=normalize, exact=exact, stage=stage)
        return rows.cpu().numpy()
