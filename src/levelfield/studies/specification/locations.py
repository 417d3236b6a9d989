"""Find the images of a finished run after the run folder or the images were moved.

A run stores the location of its images, absolute and relative to its folder. A command searches there, in the working
directory, and in the folders above the run; `--root` overrides the search, and no image outside of it is read.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from contextvars import ContextVar
from pathlib import Path

from pydantic import BaseModel

from levelfield.contexts import holding
from levelfield.errors import MissingData
from levelfield.files.writing import default_cache_folder, expanded
from levelfield.registry import is_file_reference
from levelfield.studies.specification.choices import Data

_ROOT: ContextVar[Path | None] = ContextVar("root", default=None)


class Location(BaseModel):
    """Location of the images when a run began."""

    absolute: str
    relative: str  # relative to the run's folder


def images_in(root: Path | None) -> AbstractContextManager[None]:
    """Search for the images of finished runs in `root` (`--root`); None: at their stored location."""
    return holding(_ROOT, root)


def within_root(path: Path) -> Path:
    """The path itself; if it is outside of `--root` and of levelfield's cache, which has the images of archives, a path
    below the root that is missing. Links below the root are followed."""
    root = _ROOT.get()
    if root is None:
        return path
    full = Path(os.path.abspath(path))
    if any(full.is_relative_to(os.path.abspath(home)) for home in (root, default_cache_folder())):
        return path
    return root / full.relative_to(full.anchor)


def location_of(data: Data, folder: Path) -> Location | None:
    """The current location of the images, for a run in `folder`; None for data without a location of its own."""
    named = _named(data)
    if named is None:
        return None
    absolute = expanded(named[1]).absolute()
    return Location(absolute=str(absolute), relative=os.path.relpath(absolute, folder.absolute()))


def placed(data: Data, folder: Path, stored: Location | None = None) -> Data:
    """The same data at its current location. folder: the run (or study) that names it; stored: see Location."""
    root = _ROOT.get()
    key, text = _named(data) or ("root", "")
    if root is not None:
        inside = [within_root(root / text), root / Path(text).name] if text else []
        return data.model_copy(update={key: str(next((path for path in inside if path.exists()), root))})
    if not text:
        return data
    path = expanded(text)
    candidates = [path]
    if stored is not None:
        candidates += [Path(stored.absolute), Path(os.path.normpath(folder / stored.relative))]
    if not path.is_absolute():
        candidates += [parent / path for parent in folder.absolute().parents]
    existing = next((candidate for candidate in candidates if candidate.exists()), None)
    if existing is None:
        shown = ", ".join(dict.fromkeys(str(candidate.absolute()) for candidate in candidates))
        raise MissingData(
            f"Cannot find the images '{text}' of {folder}. Searched: {shown}. Give their folder with --root DIR."
        )
    return data if existing == path else data.model_copy(update={key: str(existing)})


def _named(data: Data) -> tuple[str, str] | None:
    """The key that holds the path of the data, and the path; None if there is none."""
    if data.name in ("folder", "csv"):
        key, value = "path", data.settings.get("path")
    elif data.is_a_place:
        key, value = "name", None if is_file_reference(data.name) else data.name
    else:
        key, value = "root", data.settings.get("root")
    return (key, value) if isinstance(value, str) and value else None
