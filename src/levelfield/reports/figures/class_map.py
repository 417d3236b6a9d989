"""Maps of some of the test classes by each method (seidenschwarz2021, figures 13 and 14)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from levelfield.randomness import numpy_stream
from levelfield.reports.figures._drawing import panels, plainly, save
from levelfield.reports.figures._images import Pictured, pictured
from levelfield.reports.figures._labels import shortened
from levelfield.reports.figures._registry import register
from levelfield.reports.figures._rows import Drawn
from levelfield.reports.figures.image_map import class_colour, maps_of

SETS, CLASSES = 3, 10
OTHERS = "#e4e4e4"


@register("class-map", "t-SNE maps of the test images by each method, three sets of ten classes coloured")
def draw_class_map(rows: list[Drawn], metric: str, path: Path) -> Path:
    """Draw the maps of all test images by up to four rows; each panel colours ten classes."""
    shown = pictured(rows, metric, "class-map")
    return draw(shown, maps_of(shown), chosen_sets(len(shown.images.classes)), path)


def chosen_sets(classes: int) -> list[np.ndarray]:
    """Three sets of ten classes without a common one, drawn by a named stream; fewer of fewer classes.

    >>> [len(one) for one in chosen_sets(100)], [len(one) for one in chosen_sets(14)]
    ([10, 10, 10], [10, 4])
    """
    order = numpy_stream(0, "class-map", "classes").permutation(classes)[: SETS * CLASSES]
    return [np.sort(order[start : start + CLASSES]) for start in range(0, len(order), CLASSES)]


@plainly
def draw(shown: Pictured, maps: dict[str, np.ndarray], sets: list[np.ndarray], path: Path) -> Path:
    """Draw a line of panels per method, one panel per set; the names of a set's classes are below its column."""
    heights = (*(3.1,) * len(maps), 0.8)
    figure, axes = panels(len(heights), len(sets), width=3.1 * len(sets) + 0.3, height=sum(heights), heights=heights)
    codes, colours = shown.images.codes, [class_colour(number) for number in range(CLASSES)]
    for line, places, name in zip(axes, maps.values(), shortened(list(maps), 40), strict=False):
        line[0].set_ylabel(name)
        for axis, classes in zip(line, sets, strict=True):
            axis.set(xticks=[], yticks=[], xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
            axis.spines[:].set(visible=True, color="#bbbbbb")
            axis.scatter(*places.T, color=OTHERS, s=2, linewidths=0)
            for code, colour in zip(classes, colours, strict=False):
                axis.scatter(*places[codes == code].T, color=colour, s=9, linewidths=0)
    for axis, above, classes in zip(axes[-1], axes[0], sets, strict=True):
        names = shortened([shown.images.classes[code] for code in classes], 20)
        axis.axis("off")
        dots = above.collections[1:]
        narrow: Any = {"handletextpad": 0.1, "columnspacing": 0.5, "borderpad": 0}
        axis.legend(dots, names, loc="upper center", ncols=2, fontsize=6, frameon=False, **narrow)
    return save(figure, path)
