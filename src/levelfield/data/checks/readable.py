"""Images that cannot be read, names that cannot be written, and notes about them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from levelfield.data.catalog import Catalog
from levelfield.data.files.images import verify_image
from levelfield.errors import BadInput, LevelfieldError, MissingExtra
from levelfield.progress import SILENT, Progress
from levelfield.wording import FEW, first_few, plural

_READERS = 2


def check_names(paths: Sequence[Path], class_names: Sequence[str] = ()) -> None:
    """Refuse names that are not UTF-8: results list every image by its name."""
    try:
        "".join([*map(str, paths), *class_names]).encode()
        return
    except UnicodeEncodeError:
        odd = [path for path in map(str, paths) if _is_odd(path)] or [name for name in class_names if _is_odd(name)]
    shown = first_few([ascii(os.fsencode(name))[2:-1] for name in odd])
    raise BadInput(
        f"{plural(len(odd), 'file name is', 'file names are')} not UTF-8 text, and results list images by name: "
        f"{shown}. Rename the files, for example with convmv -f latin1 -t utf-8 --notest -r FOLDER."
    )


def _is_odd(name: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in name)


def keep_readable(catalog: Catalog, failures: dict[int, LevelfieldError], *, skip_unreadable: bool) -> Catalog:
    """The catalog without the unreadable images, with a note; an error if skipping is not allowed or none is left."""
    if not failures:
        return catalog
    if not skip_unreadable:
        raise _error(catalog, failures)
    kept = np.setdiff1d(np.arange(len(catalog)), np.fromiter(failures, dtype=np.int64))
    if not len(kept):
        raise _error(catalog, failures)
    part = catalog.subset(kept)
    return part.with_notes(*_notes(catalog, part, failures))


def unreadable(paths: Sequence[Path], *, progress: Progress = SILENT) -> dict[int, LevelfieldError]:
    """The indices of images that cannot be decoded, each with the reason."""
    failures: dict[int, LevelfieldError] = {}
    stage = progress.stage("checking images", len(paths))
    with ThreadPoolExecutor(_READERS) as readers:
        for position, failure in enumerate(readers.map(_failure, paths)):
            if failure is not None:
                failures[position] = failure
            stage.advance()
    return failures


def lone_note(catalog: Catalog) -> tuple[str, ...]:
    """A note about queries without a positive, if any: classes with one image, or with none in the gallery."""
    if catalog.roles is not None:
        roles = np.array(catalog.roles)
        alone = ~np.isin(catalog.labels, catalog.labels[roles == "gallery"]) & (roles == "query")
        found = plural(int(alone.sum()), "query has", "queries have")
        return (f"{found} no image of its class in the gallery: a miss.",) if alone.any() else ()
    lone = [catalog.class_names[c] for c in np.flatnonzero(catalog.class_sizes == 1)]
    if not lone:
        return ()
    return (
        f"{plural(len(lone), 'class has', 'classes have')} only one image and cannot be a query: {first_few(lone)}.",
    )


def _failure(path: Path) -> LevelfieldError | None:
    try:
        verify_image(path)
    except LevelfieldError as error:
        return error
    return None


def _error(catalog: Catalog, failures: dict[int, LevelfieldError]) -> LevelfieldError:
    lines = [f"  {error}" for error in list(failures.values())[:FEW]]
    if len(failures) > FEW:
        lines.append(f"  ... and {len(failures) - FEW} more")
    text = "\n".join(
        [
            f"{len(failures)} of {len(catalog)} images of '{catalog.name}' cannot be read:",
            *lines,
            "Repair or remove them, or continue without them: --skip-unreadable",
        ]
    )
    only_extra = all(isinstance(error, MissingExtra) for error in failures.values())
    return MissingExtra(text) if only_extra else BadInput(text)


def _notes(before: Catalog, after: Catalog, failures: dict[int, LevelfieldError]) -> list[str]:
    names = [str(before.paths[i]) for i in failures]
    notes = [
        f"{plural(len(failures), 'image', 'images')} could not be read and {'was' if len(names) == 1 else 'were'} "
        f"skipped: {first_few(names)}."
    ]
    gone = [name for name in before.class_names if name not in set(after.class_names)]
    if gone:
        notes.append(
            f"{plural(len(gone), 'class has', 'classes have')} no readable image and "
            f"{'is' if len(gone) == 1 else 'are'} left out: {first_few(gone)}."
        )
    return notes + [note for note in lone_note(after) if note not in before.notes]
