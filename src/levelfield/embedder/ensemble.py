"""Several models as one: a folder that holds every member, and an object that embeds like a single model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from levelfield.data.images import Picture, listed
from levelfield.data.loader import Loader
from levelfield.data.views.basic import View
from levelfield.embedder.model import Model
from levelfield.embedder.model_files import DESCRIPTION, MEMBERS, WEIGHTS, member_folders, read_description, write_model
from levelfield.embedder.trunk.blocks import in_blocks
from levelfield.errors import BadInput
from levelfield.evaluation.search.distances import joined
from levelfield.files.writing import copy_whole, link_whole
from levelfield.progress import SILENT, Progress
from levelfield.wording import Shown


def save_ensemble(folder: Path, folders: Sequence[Path], about: Mapping[str, Any]) -> None:
    """Write the models of `folders` into `folder`, which is then independent of them.

    Weights are hard links to the members' files if possible. `about`: any other facts that YAML can hold.
    """
    names = [f"{MEMBERS}/{index}" for index in range(len(folders))]
    for name, source in zip(names, folders, strict=True):
        copy_model(Path(source), folder / name, put=link_whole)
    write_model(folder, {MEMBERS: names, "about": dict(about)})


def copy_model(source: Path, target: Path, *, put: Callable[[Path, Path], None] = copy_whole) -> None:
    """Copy the files of a model, which may be an ensemble, into another folder. put: makes a file of another."""
    facts = read_description(source)
    if MEMBERS in facts:
        for member in member_folders(source, facts):
            copy_model(member, target / member.relative_to(source), put=put)
    else:
        put(source / WEIGHTS, target / WEIGHTS)
    put(source / DESCRIPTION, target / DESCRIPTION)


@dataclass(frozen=True, repr=False)
class Ensemble(Shown):
    """Models whose rows are normalised to length 1 and concatenated. Used like a Model.

    A member may be an ensemble itself. Images are opened and transformed once for all members with the same view, and
    layers that members share below the cut are computed once.
    """

    members: tuple[Model | Ensemble, ...]
    about: Mapping[str, Any]

    @property
    def dim(self) -> int:
        return sum(member.dim for member in self.members)

    @property
    def view(self) -> View:
        """The test view, if all members have the same one."""
        if len(self._views) > 1:
            raise BadInput(f"The members use {len(self._views)} different test views; embed with each member.")
        return self._views[0]

    @property
    def device(self) -> torch.device:
        return self.models[0].device

    @property
    def checksum(self) -> str:
        """Those of its members, in order; empty if one of them has none."""
        each = [member.checksum for member in self.members]
        return f"({' '.join(each)})" if all(each) else ""

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), "members": len(self.members), "dim": self.dim, "device": str(self.device)}

    @cached_property
    def models(self) -> tuple[Model, ...]:
        """The single models, including those of inner ensembles."""
        each = [(member,) if isinstance(member, Model) else member.models for member in self.members]
        return sum(each, ())

    def embed(
        self,
        images: Picture | Sequence[Picture],
        *,
        normalize: bool = True,
        exact: bool = True,
        progress: Progress = SILENT,
    ) -> NDArray[np.float32]:
        """The embeddings of images, float32 (images, dim); a joined run stores the same bits.

        normalize: divide each row by its length; otherwise each member's part has length 1. The other arguments are
        those of `Model.embed`.
        """
        together = joined(self.embed_apart(images, exact=exact, progress=progress))
        return functional.normalize(torch.from_numpy(together), dim=1).numpy() if normalize else together

    def embed_apart(
        self, images: Picture | Sequence[Picture], *, exact: bool = True, progress: Progress = SILENT
    ) -> list[np.ndarray]:
        """The rows of each member, as its own `embed(images, normalize=False)` gives them."""
        loader = Loader(listed(images), *self._views, device=self.device)

        def one_block(*views: Tensor) -> tuple[Tensor, ...]:
            """The raw rows of every model; `views`: the images under each view."""
            stored: dict[int, tuple[Tensor, ...]] = {}
            rows = []
            for model, (view, owner) in zip(self.models, self.shared_below, strict=True):
                embedder = model.embedder
                if owner not in stored:
                    # `contiguous`: the layout of stored tensors
                    stored[owner] = tuple(part.contiguous() for part in embedder.trunk.below(views[view]))
                rows.append(embedder.coded(embedder.head(embedder.trunk.above(*stored[owner]))))
            return tuple(rows)

        with torch.no_grad():
            stage = progress.stage("embedding", len(loader))
            rows = in_blocks(one_block, loader, padded=exact, stage=stage)
        return self._apart(iter([part.cpu().numpy() for part in rows]))

    @cached_property
    def _views(self) -> tuple[View, ...]:
        """The distinct views, in order of first appearance."""
        return tuple({model.view.key: model.view for model in self.models}.values())

    @cached_property
    def shared_below(self) -> list[tuple[int, int]]:
        """For each model the index of its view, and the first model with the same network below the cut."""
        shared: list[tuple[int, int]] = []
        keys = [view.key for view in self._views]
        for index, model in enumerate(self.models):
            view, trunk = keys.index(model.view.key), model.embedder.trunk
            same_view = (first for first, (other, _) in enumerate(shared) if other == view)
            same = (first for first in same_view if trunk.equals_below(self.models[first].embedder.trunk))
            shared.append((view, next(same, index)))
        return shared

    def _apart(self, rows: Iterator[np.ndarray]) -> list[np.ndarray]:
        """The members' rows, assembled from those of the models in order."""
        return [next(rows) if isinstance(member, Model) else joined(member._apart(rows)) for member in self.members]
