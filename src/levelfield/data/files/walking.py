"""Files below a folder, without system files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from levelfield.errors import BadInput


def files_below(top: Path) -> Iterator[Path]:
    """All files below `top`. Links are followed unless they point to one of their parent folders."""
    return (Path(name) for name in names_below(top))


def names_below(top: Path) -> Iterator[str]:
    """Like `files_below`, as text: for a million files, creating paths would cost more than the walk."""
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
    """Whether a folder is a link to one of its parents, which would make the walk endless."""
    return folder.is_symlink() and folder.parent.resolve().is_relative_to(folder.resolve())


def hidden(name: str) -> bool:
    """Whether a name is that of a dot file or of macOS's own folder.

    >>> [name for name in (".DS_Store", "__MACOSX", "001.Black_footed_Albatross") if not hidden(name)]
    ['001.Black_footed_Albatross']
    """
    return name.startswith(".") or name == "__MACOSX"
