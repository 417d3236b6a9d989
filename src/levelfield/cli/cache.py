"""`levelfield cache`: show or clear cached features, image checks and unpacked archives."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from levelfield.cli.console import console, say


def cache(
    folder: Annotated[Path | None, typer.Option("--cache", help="Cache folder, if not the default.")] = None,
    clear: Annotated[
        bool, typer.Option("--clear", help="Delete the cache; its content is computed again when needed.")
    ] = False,
) -> None:
    """Show or clear the cache.

    It holds computed features, embeddings of galleries, results of image checks and unpacked archives.
    """
    from rich.table import Table

    from levelfield.data.cache_contents import cache_items
    from levelfield.embedder.trunk.cache import FeatureCache

    store = FeatureCache(folder)
    if not store.folder.is_dir():
        say(f"The cache is empty: there is no folder {store.folder}.")
        return
    others = cache_items(store.folder)
    if clear:
        size = store.clear() + sum(entry.bytes for entry in others if entry.remove())
        say(f"Cleared {size / 1e6:.1f} MB in {store.folder}.")
        return
    size = store.size() + sum(entry.bytes for entry in others)
    table = Table(title=f"{store.folder}: {size / 1e6:.1f} MB", title_justify="left", pad_edge=False)
    for column in ("what", "MB", "last used"):
        table.add_column(column, justify="right" if column == "MB" else "left", overflow="fold")
    features = [(entry.description or entry.key, entry.bytes, entry.last_use) for entry in store.entries()]
    for what, size, last in (*features, *((entry.what, entry.bytes, entry.last_use) for entry in others)):
        table.add_row(what, f"{size / 1e6:.1f}", datetime.fromtimestamp(last).strftime("%Y-%m-%d %H:%M"))
    console.print(table)
