"""Maps of the test embeddings: with images and magnified regions (zheng2021, figure 1), or with coloured classes
(seidenschwarz2021, figures 13 and 14)."""

from __future__ import annotations

import colorsys
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from levelfield.randomness import numpy_stream
from levelfield.reports.embedding_map import embedding_maps, landmark_note
from levelfield.reports.figures._drawing import panels, save, shortened
from levelfield.reports.figures._images import PRINT, Pictured, pictured, square
from levelfield.reports.figures._registry import register
from levelfield.reports.figures._rows import Drawn

PIXELS = 1000  # along a side of a panel
ACROSS, MAGNIFIED = 26, 8  # images that fit along a side of the map, and of a region
REGION = 0.13  # side of a region; the map's is 1
EDGE = 0.02  # around the map
APART, FAR = 0.08, 1.2  # between images, and from an image to its place, in images
# the place itself, then around it
AROUND = np.array([(0.0, 0.0), *((np.cos(turn), np.sin(turn)) for turn in np.arange(12) * np.pi / 6)])
AROUND *= (1 + APART) / np.maximum(np.abs(AROUND).max(axis=1, keepdims=True), 1e-9)  # on a square
GRID = 60  # places along a side where a region may be


class Region(NamedTuple):
    """A square part of the map, and what is special about it."""

    left: float
    low: float
    side: float
    text: str

    def holds(self, points: np.ndarray) -> np.ndarray:
        inside = (points >= (self.left, self.low)) & (points <= (self.left + self.side, self.low + self.side))
        return np.asarray(inside.all(axis=1))


@register("map", "a t-SNE map of the test images by each method, frames coloured by class, and magnified regions")
def draw_map(rows: list[Drawn], metric: str, path: Path) -> Path:
    """Draw the maps of up to four rows, aligned to that of the best one."""
    shown = pictured(rows, metric, "map")
    return draw(shown, maps_of(shown), path)


def maps_of(shown: Pictured) -> dict[str, np.ndarray]:
    """The map (images, 2) of each row."""
    return embedding_maps(shown.embeddings, normalize=shown.distance == "cosine", threads=torch.get_num_threads())


def draw(shown: Pictured, maps: dict[str, np.ndarray], path: Path) -> Path:
    """Draw a line of panels per method: its map, the densest region, and the region with the most mistakes."""
    from matplotlib.patches import Rectangle

    figure, axes = panels(len(maps), 3, width=13.6, height=4.9 * len(maps), ratios=(1.14, 1, 1), dpi=PRINT)
    codes, asked = shown.images.codes, shown.answerable()
    colours = np.array([class_colour(code) for code in range(len(shown.images.classes))])[codes]
    picture = cache(lambda image, side: square(shown.images.paths[image], side))
    for line, (label, points), name in zip(axes, maps.items(), shortened(list(maps), 40), strict=True):
        wrong = np.zeros(len(codes), bool)  # a nearest image of another class; not a query: none
        if len(asked):
            wrong[asked] = codes[shown.nearest(label, asked, 1)[:, 0]] != codes[asked]
        regions = _regions(points, wrong)
        whole = Region(-EDGE, -EDGE, 1 + 2 * EDGE, name)
        for axis, region, across in zip(line, (whole, *regions), (ACROSS, MAGNIFIED, MAGNIFIED), strict=False):
            _panel(axis, region, across, points, colours, picture)
        for axis in line[1 + len(regions) :]:
            axis.axis("off")
        for axis, region, style in zip(line[1:], regions, ("-", "--"), strict=False):
            look: dict[str, Any] = {"linewidth": 1.4, "linestyle": style}
            box = Rectangle((region.left, region.low), REGION, REGION, fill=False, edgecolor="black", **look)
            line[0].add_patch(box).set_zorder(4)
            axis.spines[:].set(color="black", **look)
    note = landmark_note(len(shown.images))
    if note is not None:
        figure.supxlabel(note, fontsize=7)
    return save(figure, path, of_images=True)


def _regions(points: np.ndarray, wrong: np.ndarray) -> list[Region]:
    """The square with the most images and, apart from it, the one with the most mistakes."""
    regions: list[Region] = []
    starts = np.linspace(0, 1 - REGION, GRID)
    left, low = np.meshgrid(starts, starts, indexing="ij")
    inside = [((at - starts[:, None] >= 0) & (at - starts[:, None] <= REGION)).astype(np.float32) for at in points.T]
    for chosen, text in ((np.ones(len(points), bool), "most images"), (wrong, "most mistakes")):
        counts = (inside[0] * chosen) @ inside[1].T
        for region in regions:
            counts[(np.abs(left - region.left) < REGION) & (np.abs(low - region.low) < REGION)] = -1
        best = np.unravel_index(int(counts.argmax()), counts.shape)
        many = int(counts[best])
        if many > 0:
            regions.append(Region(float(left[best]), float(low[best]), REGION, f"{text}: {many}"))
    return regions


def _panel(axis: Any, region: Region, across: int, points: np.ndarray, colours: np.ndarray, picture: Any) -> None:
    """Images that do not overlap, drawn by a named stream, over a dot for every image."""
    from matplotlib.collections import LineCollection, PatchCollection
    from matplotlib.patches import Rectangle

    axis.set(xticks=[], yticks=[], aspect="equal")
    axis.set(xlim=(region.left, region.left + region.side), ylim=(region.low, region.low + region.side))
    axis.spines[:].set_visible(True)
    axis.spines[:].set_color("#bbbbbb")
    inside = np.flatnonzero(region.holds(points))
    axis.scatter(*points[inside].T, c=colours[inside], s=3, linewidths=0, alpha=0.7, zorder=1)
    side = region.side / across
    corner = np.array((region.left, region.low))
    chosen, centres = placed((points[inside] - corner) / side, across)
    chosen = inside[chosen]
    lines = np.stack((points[chosen], corner + centres * side), axis=1)
    axis.add_collection(LineCollection(list(lines), colors=colours[chosen], linewidths=0.6, alpha=0.7, zorder=1))
    pixels = PIXELS // across
    canvas = np.zeros((across * pixels, across * pixels, 4), np.uint8)
    starts = np.rint((centres - 0.5) * pixels).astype(int)
    for image, (x, y) in zip(chosen.tolist(), starts.tolist(), strict=True):
        part = canvas[y : y + pixels, x : x + pixels]
        part[..., :3], part[..., 3] = picture(image, pixels)[::-1], 255
    extent = (region.left, region.left + region.side, region.low, region.low + region.side)
    axis.imshow(canvas, extent=extent, origin="lower", interpolation="antialiased", zorder=2)
    squares = [Rectangle(tuple(corner + at / pixels * side), side, side) for at in starts]
    frames = PatchCollection(squares, facecolor="none", zorder=3)
    frames.set(edgecolor=colours[chosen], linewidth=1.0 if across == ACROSS else 2.5)
    axis.add_collection(frames)
    axis.set_title(region.text, fontsize=8)


def placed(points: np.ndarray, across: int) -> tuple[np.ndarray, np.ndarray]:
    """Images that find room, and the centres of their squares of side 1, in a panel of side `across`.

    Images are taken in the order of a named stream. Each is put at its point or beside it, without overlaps.

    >>> placed(np.array([[1.0, 1.0], [1.1, 1.0], [1.0, 1.1]]), 2)[1].round(1).tolist()
    [[1.1, 1.0]]
    """
    kept, centres = [], np.empty((0, 2))
    for image in numpy_stream(0, "map", "images").permutation(len(points)).tolist():
        tried = np.clip(points[image] + AROUND, 0.5, across - 0.5)
        near = np.abs(tried - points[image]).max(axis=1) <= FAR
        free = near & ~(np.abs(tried[:, None] - centres).max(axis=2) < 1.0 + APART).any(axis=1)
        if free.any():
            kept.append(image)
            centres = np.concatenate((centres, tried[free.argmax()][None]))
    return np.array(kept, np.int64), centres


def class_colour(code: int) -> tuple[float, float, float]:
    """A colour for each class: neighbouring numbers are far apart in hue."""
    return colorsys.hsv_to_rgb(code * 0.618034 % 1.0, (0.9, 0.6, 0.75)[code % 3], (0.85, 0.95, 0.6)[code // 3 % 3])


SETS, CLASSES = 3, 10
OTHERS = "#e4e4e4"


@register("class-map", "t-SNE maps of the test images by each method, three sets of ten classes coloured")
def draw_class_map(rows: list[Drawn], metric: str, path: Path) -> Path:
    """Draw the maps of all test images by up to four rows: a line of panels per method, and ten classes coloured in
    each panel, with their names below the column."""
    shown = pictured(rows, metric, "class-map")
    maps, sets = maps_of(shown), chosen_sets(len(shown.images.classes))
    heights = (*(3.1,) * len(maps), 0.8)
    figure, axes = panels(len(heights), len(sets), width=3.1 * len(sets) + 0.3, height=sum(heights), heights=heights)
    codes, colours = shown.images.codes, [class_colour(number) for number in range(CLASSES)]
    for line, points, name in zip(axes, maps.values(), shortened(list(maps), 40), strict=False):
        line[0].set_ylabel(name)
        for axis, classes in zip(line, sets, strict=True):
            axis.set(xticks=[], yticks=[], xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
            axis.spines[:].set(visible=True, color="#bbbbbb")
            axis.scatter(*points.T, color=OTHERS, s=2, linewidths=0)
            for code, colour in zip(classes, colours, strict=False):
                axis.scatter(*points[codes == code].T, color=colour, s=9, linewidths=0)
    for axis, above, classes in zip(axes[-1], axes[0], sets, strict=True):
        names = shortened([shown.images.classes[code] for code in classes], 20)
        axis.axis("off")
        dots = above.collections[1:]
        narrow: Any = {"handletextpad": 0.1, "columnspacing": 0.5, "borderpad": 0}
        axis.legend(dots, names, loc="upper center", ncols=2, fontsize=6, frameon=False, **narrow)
    return save(figure, path)


def chosen_sets(classes: int) -> list[np.ndarray]:
    """Three sets of ten classes without a common one, drawn by a named stream; fewer of fewer classes.

    >>> [len(one) for one in chosen_sets(100)], [len(one) for one in chosen_sets(14)]
    ([10, 10, 10], [10, 4])
    """
    order = numpy_stream(0, "class-map", "classes").permutation(classes)[: SETS * CLASSES]
    return [np.sort(order[start : start + CLASSES]) for start in range(0, len(order), CLASSES)]
