"""Two-dimensional maps of the test embeddings of several methods, aligned to each other."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from threadpoolctl import threadpool_limits

from levelfield.evaluation.inputs import Array, check_inputs, finite_rows
from levelfield.evaluation.search.dense import neighbours
from levelfield.evaluation.search.distances import unit_rows
from levelfield.evaluation.search.threads import share, torch_threads
from levelfield.progress import SILENT_STAGE, Stage
from levelfield.randomness import numpy_stream
from levelfield.reports.tsne import WHOLE, Phase, affinities, layout

DIMENSIONS = 50  # principal components; as scikit-learn recommends before t-SNE
LANDMARKS = 10_000  # images in a t-SNE map; further images are placed between them
NEAREST = 5  # landmarks that decide the place of a further image
MIN_MAP_IMAGES = 5  # below this number of images the map is that of two principal components
MAX_EXACT_DIM = 512  # dimensions; of longer rows the components are approximate
TINY = 1e-12
START = 1e-4  # spread of the first map's start; scikit-learn, openTSNE
# Later maps start from the first one, small enough to be rearranged: neighbours are as faithful as from the method's
# own principal components, and points move about half as far between methods.
LATER_START, LATER = 1.0, (Phase(12.0, 50), Phase(1.0, 200))


def embedding_maps(
    rows_of: Mapping[str, Array], *, normalize: bool = True, threads: int = 1, stage: Stage = SILENT_STAGE
) -> dict[str, Array]:
    """t-SNE maps (n, 2) in 0..1 of each method's rows (n, dim) of the same images; all maps share one scale.

    The first map starts from principal components. The later ones start from the first map and are then rotated onto
    it, so that an image moves between maps as little as the data allow. With more than 10,000 images, t-SNE sees 10,000
    of them, drawn by a named stream; `landmark_note` says so. The result does not depend on `threads`. `stage` counts
    methods. Memory: the reduced rows (n, 50) of all methods, and about 90 affinities per landmark and method.

    normalize: compare rows by cosine (unit rows); otherwise by Euclidean distance.

    >>> rows = np.random.default_rng(0).normal(size=(12, 3))
    >>> maps = embedding_maps({"margin": rows, "triplet": rows + 0.01})
    >>> maps["margin"].shape, float(maps["margin"].min()) >= 0, float(maps["triplet"].max()) <= 1
    ((12, 2), True, True)
    """
    import scipy.linalg  # noqa: F401  (before limiting threads, which affects only loaded libraries)

    rows_of = {label: finite_rows(rows, f"embeddings of '{label}'", None) for label, rows in rows_of.items()}
    if not rows_of:
        return {}
    first, count = next((label, len(rows)) for label, rows in rows_of.items())
    landmarks = np.arange(count)
    if count > LANDMARKS:
        landmarks = np.sort(numpy_stream(0, "embedding map", "landmarks").choice(count, LANDMARKS, replace=False))
    maps: dict[str, Array] = {}

    def draw(label: str) -> None:
        maps[label] = _map(_reduced(rows_of[label], landmarks, normalize=normalize), landmarks, maps.get(first))

    with torch_threads(1), threadpool_limits(1, user_api="blas"):
        for labels in ([first], [label for label in rows_of if label != first]):
            for _ in share(labels, draw, threads):
                stage.advance()
    centred = {label: maps[label] - maps[label].mean(axis=0) for label in rows_of}
    reach = max(float(np.abs(points).max()) for points in centred.values())
    return {label: np.clip(0.5 + points / max(2 * reach, TINY), 0, 1) for label, points in centred.items()}


def landmark_note(count: int) -> str | None:
    """A sentence for maps of so many images that t-SNE does not see all of them; None otherwise.

    >>> landmark_note(5_000), landmark_note(20_000)
    (None, 'The map was computed from 10,000 of 20,000 images; each other image is placed between its 5 nearest.')
    """
    if count <= LANDMARKS:
        return None
    return (
        f"The map was computed from {LANDMARKS:,} of {count:,} images; "
        f"each other image is placed between its {NEAREST} nearest."
    )


def _reduced(rows: Array, landmarks: Array, *, normalize: bool) -> Array:
    """Principal components of the rows (at least 2, at most 50), fitted to the landmarks; a few rows at a time."""

    def part(chosen: Array) -> Array:
        return np.asarray(unit_rows(rows[chosen]) if normalize else rows[chosen], np.float32)

    sample = part(landmarks)
    mean = sample.mean(axis=0)
    components = _components(sample - mean)
    blocks = np.array_split(np.arange(len(rows)), -(-len(rows) // LANDMARKS))
    reduced = np.concatenate([(part(block) - mean) @ components for block in blocks])
    return np.pad(reduced, ((0, 0), (0, max(0, 2 - reduced.shape[1]))))


def _components(centred: Array) -> Array:
    """The first principal components (dim, at most 50); of long rows, by power iterations from a named stream."""
    dim = centred.shape[1]
    basis = np.eye(dim, dtype=np.float32)
    if dim > MAX_EXACT_DIM:
        random = numpy_stream(0, "embedding map", "components")
        basis = random.normal(size=(dim, DIMENSIONS + 10)).astype(np.float32)
        for _ in range(3):
            basis = np.linalg.qr(centred.T @ (centred @ basis))[0]
    small = (centred @ basis).astype(np.float64)
    return np.asarray(basis @ np.linalg.eigh(small.T @ small)[1][:, ::-1][:, :DIMENSIONS].astype(np.float32))


def _map(reduced: Array, landmarks: Array, first: Array | None) -> Array:
    """The map of all images. first: the map to start from and to be rotated onto; None: this is the first one."""
    if len(landmarks) < MIN_MAP_IMAGES:
        points = reduced[:, :2].astype(np.float64)
        return points if first is None else _turned(points, first)
    chosen = reduced[landmarks]
    graph = affinities(chosen)
    if first is None:
        start = START * (chosen[:, :2] / max(float(chosen[:, 0].std()), TINY) + 0.01 * _noise(len(chosen)))
        points = layout(graph, start, WHOLE).astype(np.float64)
    else:
        goal = first[landmarks]
        start = LATER_START * (goal / max(float(goal.std()), TINY) + 1e-4 * _noise(len(goal)))
        points = _turned(layout(graph, start, LATER).astype(np.float64), goal)
    return _with_others(points, reduced, landmarks)


def _noise(count: int) -> Array:
    """Separates equal rows."""
    return numpy_stream(0, "embedding map", "start").normal(size=(count, 2))


def _turned(points: Array, goal: Array) -> Array:
    """The points rotated or mirrored so that they are nearest to `goal`, about the mean of each."""
    from scipy.linalg import orthogonal_procrustes

    points, goal = points - points.mean(axis=0), goal - goal.mean(axis=0)
    return np.asarray(points @ orthogonal_procrustes(points, goal)[0])


def _with_others(points: Array, reduced: Array, landmarks: Array) -> Array:
    """The points of all images: an image that is no landmark is at the weighted mean of its nearest landmarks."""
    if len(landmarks) == len(reduced):
        return points
    others = np.setdiff1d(np.arange(len(reduced)), landmarks)
    labels = np.zeros(len(others), np.int64), np.zeros(len(landmarks), np.int64)
    inputs = check_inputs(reduced[others], labels[0], gallery=reduced[landmarks], gallery_labels=labels[1])
    near = neighbours(inputs, NEAREST, distance="euclidean")
    squares = np.square(near.similarities)
    weights = np.exp(-squares / np.maximum(squares[:, :1], TINY))  # the nearest one is the unit of distance
    weights /= weights.sum(axis=1, keepdims=True)
    all_points = np.empty((len(reduced), 2))
    all_points[landmarks] = points
    all_points[others] = (weights[:, :, None] * points[near.positions]).sum(axis=1)
    return all_points
