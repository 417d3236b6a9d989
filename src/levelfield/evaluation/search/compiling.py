"""numba, whose settings and compiled code nothing in the working directory may choose."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

from levelfield.errors import BadInput
from levelfield.files.writing import default_cache_folder

_CONFIGURATION = Path(".numba_config.yaml")


def import_numba() -> Any:
    """The module `numba`; refused where it would read a file that can replace compiled code and overwrite any file."""
    if _CONFIGURATION.exists():
        raise BadInput(
            f"{_CONFIGURATION.absolute()} changes how numba compiles and which files it writes, so nothing is computed "
            "here. Move that file away, or run the command in another folder; NUMBA_* variables can hold settings."
        )
    return importlib.import_module("numba")


def compiled(function: Any) -> Any:
    """Compile at the first call and cache on disk: in the folder `NUMBA_CACHE_DIR`, else in levelfield's cache."""
    numba = import_numba()
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = os.environ.get("NUMBA_CACHE_DIR") or str(default_cache_folder() / "numba")
    try:
        return numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # no writable cache: every process compiles again
        return numba.njit(nogil=True)(function)
    finally:
        numba.config.CACHE_DIR = before
