"""Check links, anchors, pictures and navigation of the documentation, in a moment and without mkdocs: `make lint`.

An anchor has to exist both on the site and where a repository shows its Markdown files: the two make different anchors
from some headings.
"""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parent))
from sources import LINK, ROOT, Source, prose, sources

_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_FORMAT = re.compile(r"[`*]|!?\[|\]\([^)]*\)")


def problems() -> list[str]:
    """What is wrong, one sentence each."""
    pages = sources()
    found = [*_navigation(pages)]
    files = {page.file: page for page in pages if page.file}
    anchors = {file: anchors_of(page.text) for file, page in files.items()}
    for file, page in files.items():
        if not page.text.startswith("# "):
            found.append(f"{file}: the page does not start with its title")
        for line, target in _targets(page.text):
            path, _, anchor = target.partition("#")
            named = os.path.normpath(os.path.join(os.path.dirname(file), path)) if path else file
            where = f"{file}, line {line}: {target}"
            if not (ROOT / named).exists():
                found.append(f"{where} does not exist")
            elif named.endswith(".md") and named not in files:
                found.append(f"{where} is not a page of the site")
            elif anchor and named in files and anchor not in anchors[named]:
                found.append(f"{where} is not a heading of {named}")
    return found


def anchors_of(text: str) -> set[str]:
    """The anchors of all headings that the site and repositories agree on."""
    heads = [_FORMAT.sub("", found[1]).strip() for found in _HEADING.finditer(prose(text))]
    return _numbered(map(_of_the_site, heads), "_") & _numbered(map(_of_a_repository, heads), "-")


def navigation() -> list[str]:
    """The pages that mkdocs.yml lists, in order."""
    return list(_leaves(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))


def _navigation(pages: list[Source]) -> Iterator[str]:
    listed, there = Counter(navigation()), {page.place for page in pages}
    yield from (f"mkdocs.yml: nav does not list {place}" for place in sorted(there - set(listed)))
    yield from (f"mkdocs.yml: nav lists {place}, which does not exist" for place in sorted(set(listed) - there))
    yield from (f"mkdocs.yml: nav lists {place} twice" for place, times in listed.items() if times > 1)


def _targets(text: str) -> Iterator[tuple[int, str]]:
    text = prose(text)
    for link in LINK.finditer(text):
        if "://" not in link[3] and not link[3].startswith("mailto:"):
            yield text.count("\n", 0, link.start()) + 1, link[3]


def _leaves(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    else:
        for one in entry.values() if isinstance(entry, dict) else entry:
            yield from _leaves(one)


def _of_the_site(head: str) -> str:
    plain = unicodedata.normalize("NFKD", head).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def _of_a_repository(head: str) -> str:
    return re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-")


def _numbered(slugs: Any, mark: str) -> set[str]:
    """A heading that comes again gets a number."""
    seen: Counter[str] = Counter()
    found = set()
    for slug in slugs:
        found.add(f"{slug}{mark}{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


if __name__ == "__main__":
    wrong = problems()
    print("\n".join(wrong) or "Links, anchors and navigation of the documentation: all right.")
    sys.exit(bool(wrong))
