"""Hooks of mkdocs: pages from outside docs/, the reference, and the diagram of the architecture without a script."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))
from diagram import drawn
from sources import for_the_site, sources


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not files of docs/."""
    for source in sources():
        if source.file is None:
            files.append(File.generated(config, source.place, content=source.text))
        elif not source.file.startswith("docs/"):
            files.append(File.generated(config, source.place, content=for_the_site(source.file, source.text)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite the links of a page of docs/ and draw its diagrams."""
    if page.file.generated_by is None:
        markdown = for_the_site(f"docs/{page.file.src_uri}", markdown)
    return drawn(markdown)
