"""Files below a folder, without what systems leave there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from levelfield.errors import BadInput


def files_below(top: Path) -> Iterator[Path]:
    """All files below `top`. Links are followed, but none that leads to a folder it lies in."""
    return (Path(name) for name in names_below(top))


def names_below(top: Path) -> Iterator[str]:
    """As `files_below`, as text: of a million files, paths would cost more than the walk."""
    if leads_up(top):
        return

    def stop(error: OSError) -> None:
        raise BadInput(f"Cannot read the folder {error.filename}: {error.strerror}.") from error

    seen: set[Path] = set()
    for place, folders, files in os.walk(top, followlinks=True, onerror=stop):
        real = Path(place).resolve()
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = [name for name in folders if not hidden(name) and not leads_up(Path(place, name))]
        yield from (os.path.join(place, name) for name in files)


def leads_up(folder: Path) -> bool:
    """Whether a folder is a link to one that it lies in, so that everything there would be found below it again."""
    return folder.is_symlink() and folder.parent.resolve().is_relative_to(folder.resolve())


def hidden(name: str) -> bool:
    """Whether a name is a dot file's or macOS's own.

    >>> [name for name in (".DS_Store", "__MACOSX", "001.Black_footed_Albatross") if not hidden(name)]
    ['001.Black_footed_Albatross']
    """
    return name.startswith(".") or name == "__MACOSX"
