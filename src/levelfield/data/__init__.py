"""Which images exist (catalogs), which of them train and test (protocols), and how they are transformed (views).

>>> {"cub", "emoji", "folder"} <= set(names())
True

Import `levelfield.data.views` separately: it needs torchvision, which catalogs do not.
"""

from __future__ import annotations

from levelfield.data import official as official
from levelfield.data import protocols
from levelfield.data._registry import DatasetFacts, create, describe, names, register
from levelfield.data.catalog import Catalog
from levelfield.data.checks.readable import check_images
from levelfield.data.checks.survey import CatalogFacts, survey
from levelfield.data.images import as_rgb, is_image, read_image
from levelfield.data.protocols import Fold
from levelfield.files.writing import default_cache_folder

__all__ = [
    "Catalog",
    "CatalogFacts",
    "DatasetFacts",
    "Fold",
    "as_rgb",
    "check_images",
    "create",
    "default_cache_folder",
    "describe",
    "is_image",
    "names",
    "protocols",
    "read_image",
    "register",
    "survey",
]
