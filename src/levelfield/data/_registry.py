"""Registry of datasets, and loading of a catalog by name or path."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.data.catalog import Catalog
from levelfield.data.checks.readable import check_names
from levelfield.errors import BadInput, BadSpecification, unknown
from levelfield.files.writing import expanded
from levelfield.randomness import numpy_stream
from levelfield.registry import Registry, is_file_reference
from levelfield.settings import accepted, check_settings

registry: Registry[Catalog] = Registry("dataset", "datasets", home="levelfield.data.sources")
register = registry.register
"""Decorator: register a function that returns a `Catalog` under a name, with its `DatasetFacts`."""
names = registry.names
"""The names of all datasets."""
describe = registry.facts
"""The `DatasetFacts` of a dataset, by its name."""


@dataclass(frozen=True)
class DatasetFacts:
    """Facts about a dataset, and for a benchmark its official counts.

    parts: official counts of images and classes of each part.
    lines: rows of each annotation file.
    md5: of each annotation file, if known.
    folders, archives: the usual names of its folder and archives.
    """

    what: str
    needs: str = ""
    images: int | None = None
    classes: int | None = None
    licence: str = ""
    page: str = ""
    parts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    md5: Mapping[str, str] = field(default_factory=dict)


def create(name_or_path: str | Path, **settings: Any) -> Catalog:
    """The catalog of a named dataset, of a folder with one sub-folder per class, or of a CSV file.

    Args:
        name_or_path: a name (see `names()`), a path, or `my_data.py:function`, a function that returns a Catalog.
        **settings: keywords of the dataset (`root` for downloaded datasets, `path` for `folder` and `csv`), and
            `sample`: only that many classes, drawn at random.

    Returns:
        A `Catalog`: paths, labels (images,) and class names. No image is decoded.
    """
    sample = settings.pop("sample", None)
    if sample is not None:
        return sample_classes(create(name_or_path, **settings), sample)
    text = str(name_or_path)
    if is_file_reference(text) or (isinstance(name_or_path, str) and text in registry):
        return _call(registry.get(text), text, settings)
    path = expanded(text)
    if path.suffix.lower() in (".csv", ".tsv"):
        return _call(registry.get("csv"), "csv", {"path": path, **settings})
    if path.exists() or isinstance(name_or_path, Path) or text.startswith(("~", ".")) or "/" in text or "\\" in text:
        return _call(registry.get("folder"), "folder", {"path": path, **settings})
    folders = [entry.name for entry in Path.cwd().iterdir() if entry.is_dir() and not entry.name.startswith(".")]
    raise unknown("dataset or folder", text, [*names(), *folders], see="levelfield list datasets")


def sample_classes(catalog: Catalog, count: int) -> Catalog:
    """A random sample of the classes, the same one each time."""
    if not isinstance(count, int) or count < 2:
        raise BadSpecification(f"data.sample is {count!r}; it must be a number of classes, at least 2.")
    if count >= catalog.num_classes:
        return catalog
    chosen = numpy_stream(0, "sample of classes").permutation(catalog.num_classes)[:count]
    sample = catalog.subset(np.flatnonzero(np.isin(catalog.labels, chosen)))
    return sample.with_notes(
        f"A random sample of {count:,} of {catalog.num_classes:,} classes ({len(sample):,} of {len(catalog):,} images)."
    )


def _call(make: Callable[..., Catalog], name: str, settings: dict[str, Any]) -> Catalog:
    """Call `make` with `settings`; refuse misspelt and missing settings by name."""
    check_settings(f"dataset '{name}'", settings, make, also=["skip_unreadable"])  # handled by the study
    for setting, default in (accepted(make) or {}).items():
        if default is inspect.Parameter.empty and setting not in settings:
            raise BadSpecification(f"The dataset '{name}' needs the setting '{setting}'.")
    catalog = make(**settings)
    if not isinstance(catalog, Catalog):
        raise BadInput(f"{name} returned a {type(catalog).__name__}; it must return a levelfield.data.Catalog.")
    check_names(catalog.paths, catalog.class_names)
    return catalog
