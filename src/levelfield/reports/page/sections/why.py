"""Chosen queries of the page explained: which regions make them similar to their nearest image, by up to 4 methods."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from levelfield import embedder as networks  # imports timm on first use, beside the maps
from levelfield.data.loader import Loader
from levelfield.embedder.devices import requested
from levelfield.embedder.head.head import Head
from levelfield.errors import LevelfieldError
from levelfield.randomness import numpy_stream
from levelfield.reports.figures.activation_maps import top_maps
from levelfield.reports.page.data import Array, Explained, Why
from levelfield.reports.page.images import ImageSet
from levelfield.reports.page.sections.cells import Linear, explain
from levelfield.reports.page.sections.search import Found
from levelfield.studies.runs.finished import how_refined

QUERIES, METHODS = 12, 4
_CHANNELS = 3  # strongest channels whose mean is the activation map


@dataclass(frozen=True, eq=False)
class Subject:
    """A method of the test set: its place, label, folder of its first run, whether it trained, what it found."""

    method: int
    label: str
    folder: Path
    trained: bool
    found: Found


def why(subjects: Sequence[Subject], images: ImageSet, lost: Sequence[int]) -> Why | None:
    """The explained queries; None if there is nothing to explain."""
    if not subjects:
        return None
    picked, notes, maps = _methods(subjects), [], []
    gone = set(lost)
    queries = _queries([one.found for one in picked], gone)
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


def _queries(found: Sequence[Found], gone: set[int]) -> Array:
    """Queries where methods disagree, that all get wrong, and that all get right, a third each."""
    queries = found[0].queries
    right = np.stack([one.first_right == 1 for one in found])
    order = numpy_stream(0, "page", "why").permutation(len(queries))
    usable = np.array([image not in gone for image in queries.tolist()])
    kinds = [right.any(0) & ~right.all(0), ~right.any(0), right.all(0)]
    picked = [order[(kind & usable)[order]][: QUERIES // 3] for kind in kinds]
    more = [number for number in order[usable[order]] if not any(number in part for part in picked)]
    chosen = np.concatenate([*picked, np.array(more, np.int64)])[:QUERIES]
    return np.sort(queries[chosen])


def _pairs(one: Subject, queries: Array) -> list[tuple[int, int]]:
    """Each query with its nearest image."""
    places = np.searchsorted(one.found.queries, queries)
    return list(zip(queries.tolist(), one.found.neighbours[places, 0].tolist(), strict=True))


def _explained(one: Subject, images: ImageSet, pairs: list[tuple[int, int]]) -> list[Explained]:
    model = networks.load(one.folder, device=requested())
    how = _linear(model)
    assert isinstance(model, networks.Model)
    numbers = list(dict.fromkeys(image for pair in pairs for image in pair))
    loader = Loader([images.paths[image] for image in numbers], model.view, device=model.device)
    seen = torch.cat([part for (part,) in loader])
    maps = [tap.cpu() for tap in model.embedder.trunk.maps(seen)]
    place = {image: number for number, image in enumerate(numbers)}
    refined = how_refined(one.folder)
    caveats = [*how.caveats, *([f"the refinement at test time ({refined}) is left out"] if refined else [])]
    rows = model.embedder.head(model.embedder.features(seen)).detach().cpu().double().numpy()
    made = []
    for image, neighbour in pairs:
        taps = {number: [tap[place[number]] for tap in maps[:-1]] for number in (image, neighbour)}
        there, _ = explain(taps[image], how, rows[place[neighbour]])
        back, _ = explain(taps[neighbour], how, rows[place[image]])
        cosine = float(there.sum())
        shown = [_float(part) for part in (there, back)]
        shown += [_activation(maps[-1][place[number]]) for number in (image, neighbour)]
        made.append(Explained(one.method, image, neighbour, cosine, not caveats, _sentence(caveats), *shown))
    return made


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
    found = top_maps(last.numpy(), channels=min(_CHANNELS, len(last)))
    return _float(found.maps.mean(axis=0))


def _float(values: Array) -> Array:
    return np.ascontiguousarray(values, np.float32)
