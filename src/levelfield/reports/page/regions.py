"""Which regions make a query similar to its nearest image: the cosine as a sum over the cells of either image.

With average or grid pooling and a linear head an embedding is a sum over cells, so the cosine with another embedding is
one, too. The bias belongs to no cell and is spread evenly. A norm, and the cell that max pooling takes, are treated as
constants: the cells still sum to the cosine, but changing one cell would change the others.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from levelfield import embedder as networks
from levelfield.data.loader import Loader
from levelfield.embedder.devices import requested
from levelfield.embedder.head import Head
from levelfield.embedder.trunk.pooling import pool
from levelfield.errors import LevelfieldError
from levelfield.randomness import numpy_stream
from levelfield.reports.figures.activation_maps import top_maps
from levelfield.reports.page.content import Array, Data
from levelfield.reports.page.image_set import ImageSet
from levelfield.reports.page.neighbour_lists import EmbeddedRow, SearchResult
from levelfield.studies.runs.finished import how_refined

QUERIES, METHODS = 12, 4
_CHANNELS = 3  # strongest channels whose mean is the activation map
EXACT = "Exact: the cells of either image sum to the cosine; the bias of the head is spread evenly."


def explain_pairs(
    searched: Sequence[tuple[EmbeddedRow, SearchResult]], images: ImageSet, lost: Sequence[int]
) -> Data | None:
    """The explained queries, and notes on methods that cannot be explained; None if there is nothing to explain."""
    runs = [(number, method, result) for number, (method, result) in enumerate(searched) if method.folder is not None]
    idle = [run for run in runs if not run[1].trained][:1]  # the best row that trains nothing is among them
    best = [run for run in runs if run not in idle][: METHODS - len(idle)]
    picked = sorted(best + idle, key=lambda run: run[0])
    queries = _queries([result for _, _, result in picked], lost) if picked else np.zeros(0, np.int64)
    if not len(queries):
        return None
    maps: list[Data] = []
    notes: list[str] = []
    for number, method, result in picked:
        nearest = result.neighbours[np.searchsorted(result.queries, queries), 0]
        pairs = [pair for pair in zip(queries.tolist(), nearest.tolist(), strict=True) if pair[1] not in lost]
        try:
            maps += [{"method": number, **shown} for shown in _explained(Path(method.folder or ""), images, pairs)]
        except LevelfieldError as error:  # the page shows the other methods, and says why this one is missing
            notes.append(f"{method.label}: {error}")
    return {"queries": queries.tolist(), "maps": maps, "notes": notes} if maps or notes else None


def _queries(results: Sequence[SearchResult], lost: Sequence[int]) -> Array:
    """Queries where methods disagree, that all get wrong, and that all get right, a third each."""
    queries = results[0].queries
    right = np.stack([result.first_right == 1 for result in results])
    order = numpy_stream(0, "page", "why").permutation(len(queries))
    order = order[~np.isin(queries[order], lost)]
    some, every = np.asarray(right.any(0)), np.asarray(right.all(0))
    kinds = [some & ~every, ~some, every]
    picked = np.concatenate([order[kind[order]][: QUERIES // 3] for kind in kinds])
    chosen = np.concatenate([picked, order[~np.isin(order, picked)]])[:QUERIES]
    return np.sort(queries[chosen])


def _explained(folder: Path, images: ImageSet, pairs: list[tuple[int, int]]) -> list[Data]:
    """For each image and its neighbour, the contribution of each cell of either image to their cosine."""
    model = networks.load(folder, device=requested())
    how = _linear(model)
    assert isinstance(model, networks.Model)
    numbers = list(dict.fromkeys(image for pair in pairs for image in pair))
    loader = Loader([images.paths[image] for image in numbers], model.view, device=model.device)
    seen = torch.cat([part for (part,) in loader])
    maps = [tap.cpu() for tap in model.embedder.trunk.maps(seen)]
    strongest = [top_maps(last.numpy(), channels=min(_CHANNELS, len(last))).maps for last in maps[-1]]
    activations = [top.mean(axis=0).astype(np.float32) for top in strongest]
    refined = how_refined(folder)
    caveats = [*how.caveats, *([f"the refinement at test time ({refined}) is left out"] if refined else [])]
    text = f"An approximation: {'; '.join(caveats)}." if caveats else EXACT
    rows = model.embedder.head(model.embedder.features(seen)).detach().cpu().double().numpy()
    explained = []
    for image, neighbour in pairs:
        first, second = numbers.index(image), numbers.index(neighbour)
        there = cells_of([tap[first] for tap in maps[:-1]], how, rows[second])
        back = cells_of([tap[second] for tap in maps[:-1]], how, rows[first])
        shown = {
            "image": image,
            "neighbour": neighbour,
            "cosine": float(there.sum()),
            "exact": not caveats,
            "text": text,
            "query_map": there.astype(np.float32),
            "neighbour_map": back.astype(np.float32),
            "activation": activations[first],
            "neighbour_activation": activations[second],
        }
        explained.append(shown)
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


def cells_of(maps: list[Tensor], how: Linear, toward: Array) -> Array:
    """Cells (height, width) whose sum is the cosine of this image's embedding and `toward`.

    maps: of each tap, (channels, height, width). toward: the other image's embedding.
    """
    taps = [tap.detach().double().requires_grad_() for tap in maps]
    linear, whole = _embedded(taps, how)
    aim = torch.from_numpy(np.asarray(toward, dtype=np.float64))
    aim = aim / (aim.norm() * whole.norm()).clamp_min(1e-12)
    gradients = torch.autograd.grad((linear @ aim).sum(), taps)
    height, width = max(tap.shape[1] for tap in taps), max(tap.shape[2] for tap in taps)
    parts = [(tap * slope).sum(0).detach().numpy() for tap, slope in zip(taps, gradients, strict=True)]
    cells: Array = np.sum([enlarged(part, height, width) for part in parts], axis=0)
    rest = float(whole @ aim) - cells.sum()
    return np.asarray(cells + rest / cells.size)


def _embedded(taps: list[Tensor], how: Linear) -> tuple[Tensor, Tensor]:
    """The part of the embedding that is linear in the maps once norms are constants, and the whole embedding."""
    pooled = [pool(tap[None], how.pooling)[0] for tap in taps]
    if how.normalize_taps:
        pooled = [tap / tap.detach().norm().clamp_min(1e-12) for tap in pooled]
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
    for size in (height, width):
        cells = np.repeat(cells, size, axis=0).reshape(size, len(cells), -1).sum(axis=1).T / size
    return cells
