"""Which images exist (catalogs), which of them train and test (protocols), and how they are transformed (views).

>>> from levelfield import data
>>> {"cub", "emoji", "folder"} <= set(data.names())
True

Import `levelfield.data.views` separately: it needs torchvision, which catalogs do not.
"""

from typing import TYPE_CHECKING

from levelfield.index import lazy

if TYPE_CHECKING:
    from levelfield.data import official as official
    from levelfield.data import protocols as protocols
    from levelfield.data._registry import DatasetFacts as DatasetFacts
    from levelfield.data._registry import create as create
    from levelfield.data._registry import describe as describe
    from levelfield.data._registry import names as names
    from levelfield.data._registry import register as register
    from levelfield.data.catalog import Catalog as Catalog
    from levelfield.data.checks.dataset import CatalogFacts as CatalogFacts
    from levelfield.data.checks.dataset import survey as survey
    from levelfield.data.checks.readable import check_images as check_images
    from levelfield.data.images import as_rgb as as_rgb
    from levelfield.data.images import is_image as is_image
    from levelfield.data.images import read_image as read_image
    from levelfield.data.protocols import Fold as Fold
    from levelfield.files.writing import default_cache_folder as default_cache_folder

if not TYPE_CHECKING:  # a type checker that saw this function would accept any misspelt name
    __all__, __getattr__ = lazy(__name__)
