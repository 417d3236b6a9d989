"""Survey a catalog quickly, without decoding images: enough to propose a study."""

from __future__ import annotations

import statistics
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from levelfield.data.catalog import Catalog
from levelfield.data.images import open_image
from levelfield.errors import LevelfieldError


@dataclass(frozen=True)
class CatalogFacts:
    """Facts about a catalog. Triples are (smallest, median, largest).

    per_class: images. shorter_side: in pixels, of a sample of images; None if none is readable.
    """

    images: int
    classes: int
    per_class: tuple[int, float, int]
    shorter_side: tuple[int, float, int] | None

    def __str__(self) -> str:
        low, middle, high = self.per_class
        text = f"{self.images:,} images of {self.classes:,} classes, {low} to {high} each (median {middle:g})"
        if self.shorter_side is None:
            return text
        small, usual, large = self.shorter_side
        return f"{text}; shorter side {small} to {large} px, usually {usual:g}"


def survey(catalog: Catalog, *, sample: int = 64) -> CatalogFacts:
    """The facts about a catalog. Image sizes come from the headers of `sample` images spread over it."""
    sizes = catalog.class_sizes
    positions = np.unique(np.linspace(0, len(catalog) - 1, num=min(sample, len(catalog)), dtype=int))
    sides = []
    for position in positions:
        # `check_images` reports images that cannot be read
        with suppress(LevelfieldError), open_image(path := catalog.paths[position], str(path)) as image:
            sides.append(min(image.size))
    return CatalogFacts(
        images=len(catalog),
        classes=catalog.num_classes,
        per_class=(int(sizes.min()), float(np.median(sizes)), int(sizes.max())),
        shorter_side=(min(sides), statistics.median(sides), max(sides)) if sides else None,
    )
