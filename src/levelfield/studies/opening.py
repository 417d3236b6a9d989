"""The images that a study names, each looked at once."""

from __future__ import annotations

from levelfield import data
from levelfield.data import Catalog, seen
from levelfield.studies.choices import Data

EMBEDDED = "emoji"  # the data that comes along: known to be sound, and to leak nothing


def open_catalog(choice: Data, *, check: bool = True, progress: seen.Progress | None = None) -> Catalog:
    """The catalog a study names, with unreadable images refused (or left out, if the study says so).

    An image is looked at once; `progress` hears (done, total) of those that are looked at now.
    """
    settings = dict(choice.settings)
    skip = bool(settings.pop("skip_unreadable", False))
    catalog = data.create(choice.name, **settings)
    if choice.name == EMBEDDED:
        return catalog
    if not check:
        return seen.recognised(catalog)
    return seen.look(catalog, skip_unreadable=skip, progress=progress)
