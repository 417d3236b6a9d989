"""`levelfield cache`: show or clear cached features, image checks and unpacked archives."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

from levelfield.cli.console import console, say
from levelfield.cli.options import option


def cache(
    folder: Annotated[Path | None, option("--cache", "Cache folder, if not the default.")] = None,
    clear: Annotated[bool, option("--clear", "Delete the cache; its content is computed again when needed.")] = False,
) -> None:
    """Show or clear the cache.

    It holds computed features, embeddings of galleries, results of image checks and unpacked archives.
    """
    from levelfield.data.cache_contents import cache_items
    from levelfield.embedder.trunk.cache import FeatureCache
    from levelfield.table import Table, numbers

    store = FeatureCache(folder)
    if not store.folder.is_dir():
        say(f"The cache is empty: there is no folder {store.folder}.")
        return
    others = cache_items(store.folder)
    if clear:
        size = store.clear() + sum(entry.bytes for entry in others if entry.remove())
        say(f"Cleared {size / 1e6:.1f} MB in {store.folder}.")
        return
    items = [(entry.description or entry.key, entry.bytes, entry.last_use) for entry in store.entries()]
    items += [(entry.what, entry.bytes, entry.last_use) for entry in others]
    rows = [
        [what, f"{count / 1e6:.1f}", f"{datetime.fromtimestamp(last):%Y-%m-%d %H:%M}"] for what, count, last in items
    ]
    title = f"{store.folder}: {sum(count for _, count, _ in items) / 1e6:.1f} MB"
    Table(["what", *numbers("MB"), "last used"], rows, title).show(console)
