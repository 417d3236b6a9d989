"""Which regions make a query similar to its nearest image: the cosine as a sum over the cells of either image.

With average or grid pooling and a linear head an embedding is a sum over cells, so the cosine with another embedding is
one, too. The bias belongs to no cell and is spread evenly. A norm, and the cell that max pooling takes, are treated as
constants: the cells still sum to the cosine, but changing one cell would change the others.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from levelfield import embedder as networks  # imports timm on first use, beside the maps
from levelfield.data.loader import Loader
from levelfield.embedder.devices import requested
from levelfield.embedder.head.head import Head
from levelfield.embedder.trunk.pooling import pool
from levelfield.errors import LevelfieldError
from levelfield.randomness import numpy_stream
from levelfield.reports.figures.activation_maps import top_maps
from levelfield.reports.page.content import Array, Explained, Why
from levelfield.reports.page.image_set import ImageSet
from levelfield.reports.page.sections.neighbour_lists import SearchResult
from levelfield.studies.runs.finished import how_refined

QUERIES, METHODS = 12, 4
_CHANNELS = 3  # strongest channels whose mean is the activation map


@dataclass(frozen=True, eq=False)
class Subject:
    """A method of the test set: its index, label, folder of its first run, whether it trained, its search result."""

    method: int
    label: str
    folder: Path
    trained: bool
    result: SearchResult


def why(subjects: Sequence[Subject], images: ImageSet, lost: Sequence[int]) -> Why | None:
    """The explained queries; None if there is nothing to explain."""
    if not subjects:
        return None
    picked, notes, maps = _methods(subjects), [], []
    gone = set(lost)
    queries = _queries([one.result for one in picked], gone)
    if not len(queries):
        return None
    for one in picked:
        try:
            maps += _explained(one, images, [(image, near) for image, near in _pairs(one, queries) if near not in gone])
        except LevelfieldError as error:  # the page shows the other methods, and says why this one is missing
            notes.append(f"{one.label}: {error}")
    return Why(queries.tolist(), maps, notes) if maps or notes else None


def _methods(subjects: Sequence[Subject]) -> list[Subject]:
    """The best rows, among them the best one that trains nothing."""
    idle = [one for one in subjects if not one.trained][:1]
    best = [one for one in subjects if one not in idle][: METHODS - len(idle)]
    return sorted(best + idle, key=lambda one: one.method)


def _queries(results: Sequence[SearchResult], gone: set[int]) -> Array:
    """Queries where methods disagree, that all get wrong, and that all get right, a third each."""
    queries = results[0].queries
    right = np.stack([one.first_right == 1 for one in results])
    order = numpy_stream(0, "page", "why").permutation(len(queries))
    usable = np.array([image not in gone for image in queries.tolist()])
    kinds = [right.any(0) & ~right.all(0), ~right.any(0), right.all(0)]
    picked = [order[(kind & usable)[order]][: QUERIES // 3] for kind in kinds]
    more = [number for number in order[usable[order]] if not any(number in part for part in picked)]
    chosen = np.concatenate([*picked, np.array(more, np.int64)])[:QUERIES]
    return np.sort(queries[chosen])


def _pairs(one: Subject, queries: Array) -> list[tuple[int, int]]:
    """Each query with its nearest image."""
    lines = np.searchsorted(one.result.queries, queries)
    return list(zip(queries.tolist(), one.result.neighbours[lines, 0].tolist(), strict=True))


def _explained(one: Subject, images: ImageSet, pairs: list[tuple[int, int]]) -> list[Explained]:
    model = networks.load(one.folder, device=requested())
    how = _linear(model)
    assert isinstance(model, networks.Model)
    numbers = list(dict.fromkeys(image for pair in pairs for image in pair))
    loader = Loader([images.paths[image] for image in numbers], model.view, device=model.device)
    seen = torch.cat([part for (part,) in loader])
    maps = [tap.cpu() for tap in model.embedder.trunk.maps(seen)]
    position = {image: number for number, image in enumerate(numbers)}
    refined = how_refined(one.folder)
    caveats = [*how.caveats, *([f"the refinement at test time ({refined}) is left out"] if refined else [])]
    rows = model.embedder.head(model.embedder.features(seen)).detach().cpu().double().numpy()
    explained = []
    for image, neighbour in pairs:
        taps = {number: [tap[position[number]] for tap in maps[:-1]] for number in (image, neighbour)}
        there, _ = cells_of(taps[image], how, rows[position[neighbour]])
        back, _ = cells_of(taps[neighbour], how, rows[position[image]])
        cosine = float(there.sum())
        shown = [_float(part) for part in (there, back)]
        shown += [_activation(maps[-1][position[number]]) for number in (image, neighbour)]
        explained.append(Explained(one.method, image, neighbour, cosine, not caveats, _sentence(caveats), *shown))
    return explained


def _linear(model: object) -> Linear:
    """How the model makes an embedding; raises if it is no sum over cells."""
    if not isinstance(model, networks.Model):
        raise LevelfieldError("it joins several networks.")
    embedder, trunk = model.embedder, model.embedder.trunk
    if embedder.codes != "float32":
        raise LevelfieldError("its embeddings are bits, which are no sum over cells.")
    if trunk.pooling == "token":
        raise LevelfieldError("it reads the network's token, which is no sum over cells.")
    if not isinstance(embedder.head, Head | nn.Identity):
        raise LevelfieldError(f"its head ({type(embedder.head).__name__}) is not linear.")
    return Linear(trunk.pooling, trunk.normalize_taps, copy.deepcopy(embedder.head).cpu().double())


def _sentence(caveats: Sequence[str]) -> str:
    if not caveats:
        return "Exact: the cells of either image sum to the cosine; the bias of the head is spread evenly."
    return f"An approximation: {'; '.join(caveats)}."


def _activation(last: Tensor) -> Array:
    """The mean of the strongest channels, each scaled to 0..1."""
    strongest = top_maps(last.numpy(), channels=min(_CHANNELS, len(last)))
    return _float(strongest.maps.mean(axis=0))


def _float(values: Array) -> Array:
    return np.ascontiguousarray(values, np.float32)


LINEAR = ("average", "grid")  # poolings that are linear in the map


class Linear(NamedTuple):
    """How taps become an embedding: pooling, whether taps are normalised, and the head in float64, if any."""

    pooling: str
    normalize_taps: bool
    head: nn.Module

    @property
    def caveats(self) -> list[str]:
        """Why a sum over cells is an approximation; empty if it is exact."""
        caveats = [] if self.pooling in LINEAR else [f"pooling '{self.pooling}' takes single cells"]
        if isinstance(self.head, Head):
            caveats += ["the head's layer norm is treated as a constant"] if self.head.layer_norm != "none" else []
            caveats += ["the final layer norm is treated as a constant"] if self.head.output_norm else []
        return caveats


def cells_of(maps: list[Tensor], how: Linear, toward: Array) -> tuple[Array, Array]:
    """Cells (height, width) whose sum is the cosine of this image's embedding and `toward`, and that embedding.

    maps: of each tap, (channels, height, width). toward: the other image's embedding.
    """
    taps = [one.detach().double().requires_grad_() for one in maps]
    linear, whole = _embedded(taps, how)
    aim = torch.from_numpy(np.asarray(toward, dtype=np.float64))
    aim = aim / (aim.norm() * whole.norm()).clamp_min(1e-12)
    gradients = torch.autograd.grad((linear @ aim).sum(), taps)
    height, width = max(one.shape[1] for one in taps), max(one.shape[2] for one in taps)
    parts = [(tap * slope).sum(0).detach().numpy() for tap, slope in zip(taps, gradients, strict=True)]
    cells: Array = np.sum([enlarged(part, height, width) for part in parts], axis=0)
    rest = float(whole @ aim) - cells.sum()
    row: Array = whole.detach().numpy()
    return cells + rest / cells.size, row


def _embedded(taps: list[Tensor], how: Linear) -> tuple[Tensor, Tensor]:
    """The part of the embedding that is linear in the maps once norms are constants, and the whole embedding."""
    pooled = [pool(tap[None], how.pooling)[0] for tap in taps]
    if how.normalize_taps:
        pooled = [one / one.detach().norm().clamp_min(1e-12) for one in pooled]
    features = torch.cat(pooled)
    if not isinstance(how.head, Head):
        return features, features.detach()
    head = how.head
    with torch.no_grad():
        whole = head(features[None])[0]
    if isinstance(head.norm, nn.LayerNorm):
        scale = features.detach().var(correction=0).add(head.norm.eps).rsqrt()
        features = features * (scale * head.norm.weight.detach() if head.norm.elementwise_affine else scale)
    rows = functional.linear(features, head.linear.weight.detach())
    if head.output_norm:
        with torch.no_grad():
            before = head.linear(head.norm(torch.cat(pooled)[None]))[0]
        rows = (rows - rows.mean()) * before.var(correction=0).add(1e-5).rsqrt()
    return rows, whole


def enlarged(cells: Array, height: int, width: int) -> Array:
    """Cells on a finer grid with the same sum: each is divided by area.

    >>> enlarged(np.array([[4.0, 8.0]]), 2, 4)
    array([[1., 1., 2., 2.],
           [1., 1., 2., 2.]])
    """
    return _shares(cells.shape[0], height) @ cells @ _shares(cells.shape[1], width).T


def _shares(coarse: int, fine: int) -> Array:
    """(fine, coarse): the share of each coarse cell in each fine one."""
    low, high = np.arange(fine) / fine, (np.arange(fine) + 1) / fine
    left, right = np.arange(coarse) / coarse, (np.arange(coarse) + 1) / coarse
    shared: Array = np.minimum(high[:, None], right) - np.maximum(low[:, None], left)
    return shared.clip(0) * coarse
