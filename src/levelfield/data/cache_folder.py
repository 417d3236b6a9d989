"""The folder for results that can be computed again."""

from __future__ import annotations

import os
from pathlib import Path

from levelfield.files.writing import expanded


def default_cache_folder() -> Path:
    """`LEVELFIELD_CACHE` if set, else the user's cache folder / levelfield. Nothing is created.

    >>> default_cache_folder().is_absolute()
    True
    """
    chosen = os.environ.get("LEVELFIELD_CACHE")
    if chosen:
        return expanded(chosen).absolute()
    home = os.environ.get("XDG_CACHE_HOME")
    return (expanded(home).absolute() if home else Path.home() / ".cache") / "levelfield"
