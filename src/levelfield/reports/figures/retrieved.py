"""Queries and the images that each method finds (seidenschwarz2021, figure 3; lim2022, figures 5 to 7)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.errors import BadInput
from levelfield.randomness import numpy_stream
from levelfield.reports.figures._drawing import panels, save, shortened
from levelfield.reports.figures._images import PRINT, Pictured, pictured, square
from levelfield.reports.figures._registry import register
from levelfield.reports.figures._rows import Drawn

QUERIES, NEAREST = 6, 4  # as many neighbours as both papers show
CANDIDATES = 2_000  # queries that are searched for disagreement
SIDE = 160  # pixels of an image
RIGHT, WRONG, PLAIN = "#009e73", "#d55e00", "#444444"  # Okabe and Ito
INCH = 0.78  # of an image with the space around it
SHARE = 0.84  # of that, the image; class names of wrong images are below
GAP = 0.25  # between queries, in images
NAME = 17  # characters of a class name below an image


@register("gallery", "queries and their nearest images by each method, right and wrong ones marked")
def draw_gallery(rows: list[Drawn], metric: str, path: Path) -> Path:
    """Draw six queries: three on which the rows disagree most, three at random."""
    shown = pictured(rows, metric, "gallery")
    queries = chosen_queries(shown)
    return draw(shown, queries, {label: shown.nearest(label, queries, NEAREST) for label in shown.embeddings}, path)


def chosen_queries(shown: Pictured) -> np.ndarray:
    """Half of the queries are those on which the rows disagree most, half are random; one per class if possible.

    Rows disagree on a query if some of them find an image of its class first and others do not, and then by how
    different their numbers of right images are. Both halves are drawn by a named stream.
    """
    asked = shown.answerable()
    if not len(asked):
        raise BadInput("The figure 'gallery' needs a query with another image of its class, and there is none.")
    stream = numpy_stream(0, "gallery", "queries")
    asked = stream.permutation(asked)[:CANDIDATES]
    codes = shown.images.codes
    right = np.array([codes[shown.nearest(label, asked, NEAREST)] == codes[asked, None] for label in shown.embeddings])
    disagreement = right[:, :, 0].std(axis=0) + 0.1 * right.mean(axis=2).std(axis=0)
    half = QUERIES // 2 if disagreement.any() else 0
    most = _one_per_class(asked[np.argsort(-disagreement, kind="stable")], codes, half)
    rest = _one_per_class(asked[~np.isin(codes[asked], codes[most])], codes, QUERIES - half)
    more = asked[~np.isin(asked, [*most, *rest])][: QUERIES - len(most) - len(rest)]
    return np.array([*most, *rest, *more], np.int64)


def _one_per_class(images: np.ndarray, codes: np.ndarray, count: int) -> np.ndarray:
    first = np.sort(np.unique(codes[images], return_index=True)[1])
    return np.asarray(images[first[:count]])


def draw(shown: Pictured, queries: np.ndarray, neighbours: dict[str, np.ndarray], path: Path) -> Path:
    """Draw one block per query: the query on the left, a line of its nearest images for each method."""
    names = shortened(list(neighbours), 22)
    aside = 1.1 + 0.06 * max(map(len, names)) / INCH  # the query and the methods' names, in images
    wide = aside + max(nearest.shape[1] for nearest in neighbours.values()) + GAP
    block = len(neighbours) + GAP
    columns = min(2, len(queries))
    width, height = columns * wide, -(-len(queries) // columns) * block
    figure, axes = panels(1, 1, width=INCH * width, height=INCH * height + 0.3, dpi=PRINT)
    axis = axes[0, 0]
    axis.set(xlim=(-0.03, width), ylim=(height, -0.03), aspect="equal")
    axis.axis("off")
    picture = cache(lambda image: square(shown.images.paths[image], SIDE))
    for number, query in enumerate(queries.tolist()):
        left, top = number % columns * wide, number // columns * block
        _show(axis, shown, query, None, (left, top + (len(neighbours) - 1) / 2), picture)
        for line, (label, name) in enumerate(zip(neighbours, names, strict=True)):
            axis.text(left + aside - 0.08, top + line + SHARE / 2, name, fontsize=7, ha="right", va="center")
            for column, image in enumerate(neighbours[label][number].tolist()):
                _show(axis, shown, image, query, (left + aside + column, top + line), picture)
    axis.set_title("query, and its nearest images: ✓ same class, ✗ (dashed) another class", fontsize=8, loc="left")
    return save(figure, path, of_images=True)


def _show(axis: Any, shown: Pictured, image: int, query: int | None, at: tuple[float, float], picture: Any) -> None:
    """An image in its frame, a neighbour with a tick or a cross, and the class of a query or a wrong image below.

    The colours are not needed to tell right from wrong.
    """
    from matplotlib.patches import Rectangle

    codes, (left, top) = shown.images.codes, at
    right = query is None or bool(codes[image] == codes[query])
    colour = PLAIN if query is None else RIGHT if right else WRONG
    axis.imshow(picture(image), extent=(left, left + SHARE, top + SHARE, top), interpolation="antialiased", zorder=1)
    frame: dict[str, Any] = {"fill": False, "edgecolor": colour, "linestyle": "-" if right else (0, (3, 1.2))}
    axis.add_patch(Rectangle(at, SHARE, SHARE, linewidth=1.6, zorder=2, **frame))
    middle: dict[str, Any] = {"fontsize": 5, "ha": "center", "zorder": 3}
    if query is not None:
        badge = {"boxstyle": "circle,pad=0.12", "facecolor": colour, "edgecolor": "white", "linewidth": 0.4}
        mark = "✓" if right else "✗"
        axis.text(left + SHARE - 0.08, top + 0.09, mark, color="white", va="center", bbox=badge, **middle)
    if query is None or not right:
        name = shown.images.classes[codes[image]]
        short = name if len(name) <= NAME else f"{name[: NAME - 1]}…"
        axis.text(left + SHARE / 2, top + SHARE + 0.02, short, color=colour, va="top", **middle)
