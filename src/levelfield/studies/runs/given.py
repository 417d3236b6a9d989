"""Data that came to this process from another machine, instead of files of this one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from levelfield.data import Catalog
from levelfield.embedder.trunk.cache import FeatureCache


@dataclass(frozen=True)
class Given:
    """What the images are, their features, and files of a few images by their number. name: of the shipment."""

    name: str
    catalog: Catalog
    cache: FeatureCache
    pictures: dict[int, Path]


_GIVEN: dict[str, Given] = {}


def give(data_digest: str, given: Given) -> None:
    """Use `given` for the data with this digest."""
    _GIVEN[data_digest] = given


def given_for(data_digest: str) -> Given | None:
    """What was given for the data with this digest; None: this machine has its images."""
    return _GIVEN.get(data_digest)


def readable(data_digest: str, images: np.ndarray) -> np.ndarray:
    """Those of the images whose file this machine has."""
    given = given_for(data_digest)
    return images if given is None else images[np.isin(images, list(given.pictures))]


def file_of(data_digest: str, catalog: Catalog, image: int) -> Path:
    """The file of a readable image."""
    given = given_for(data_digest)
    return catalog.paths[image] if given is None else given.pictures[image]
