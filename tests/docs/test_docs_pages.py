"""The pages agree with the project, and the site with the pages: tables, names, links, navigation."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pages
import pytest

from levelfield import objectives

VERBS = "help install demo check test coverage fuzz lint bench tables docs page wheel clean"


def test_tables_are_those_the_code_gives() -> None:
    written = pages.script("generate").pages()
    stale = [path.name for path, text in written.items() if path.read_text(encoding="utf-8") != text]
    assert not stale, f"run `make docs`: {', '.join(stale)}"
    assert len(written) >= 3


def test_every_objective_has_a_small_picture_that_shows_what_it_does() -> None:
    draw = pages.script("draw")
    assert not [name for name in objectives.names() if not draw.fits(name)], "run `make docs`"
    result = {path.stem: path.stat().st_size for path in draw.PICTURES.iterdir()}
    assert set(result) == set(objectives.names())
    assert max(result.values()) < 40_000


def test_every_page_is_linked_from_the_readme() -> None:
    readme = (pages.ROOT / "README.md").read_text(encoding="utf-8")
    assert not [page.name for page in pages.PAGES[1:] if f"{page.relative_to(pages.ROOT)})" not in readme]


def test_make_help_is_the_default_and_lists_the_verbs() -> None:
    text = subprocess.run(["make"], cwd=pages.ROOT, capture_output=True, text=True, check=True).stdout
    assert " ".join(re.findall(r"^make (\w+) ", text, re.MULTILINE)) == VERBS


PAGE = (pages.ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PACKAGE = pages.ROOT / "src" / "levelfield"


def test_every_function_on_the_walk_of_an_image_exists() -> None:
    named = re.findall(r"`([\w/]+\.py):(\w+)`", PAGE)
    assert len(named) >= 15
    for file, name in named:
        tree = ast.parse((PACKAGE / file).read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}, file


def test_every_room_stands_on_the_page() -> None:
    rooms = {folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").is_file()}
    inner = {
        f"{room}/{folder.name}"
        for room in ("studies", "evaluation")
        for folder in (PACKAGE / room).iterdir()
        if (folder / "__init__.py").is_file()
    }
    missing = [room for room in rooms | inner if not re.search(rf"(<b>|`){room}\b", PAGE)]
    assert not missing


SITE = pages.ROOT / "docs" / "site"


@pytest.fixture(scope="module")
def site() -> Iterator[dict[str, ModuleType]]:
    """The scripts of the site that need no mkdocs."""
    sys.path.insert(0, str(SITE))
    try:
        yield {name: importlib.import_module(name) for name in ("links", "sources", "diagram")}
    finally:
        sys.path.remove(str(SITE))


def test_links_anchors_and_navigation_are_right(site: dict[str, Any]) -> None:
    assert site["links"].problems() == []


def test_every_page_and_every_public_package_is_in_the_navigation(site: dict[str, Any]) -> None:
    listed = site["links"].navigation()
    assert {page.name for page in (pages.ROOT / "docs").glob("*.md")} <= set(listed)
    assert {"index.md", "contributing.md", "changelog.md", "python/levelfield.md", "python/miners.md"} <= set(listed)


def test_a_broken_link_anchor_or_page_is_found(site: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    source = site["sources"].Source
    text = "# New\n\n[a](no.md) [b](look.md#no-such-part) [c](../tests/fast.txt)\n\n```bash\n[d](no.md)\n```\n"
    more = [*site["sources"].sources(), source("new.md", "docs/new.md", text)]
    monkeypatch.setattr(site["links"], "sources", lambda: more)
    assert site["links"].problems() == [
        "mkdocs.yml: nav does not list new.md",
        "docs/new.md, line 3: no.md does not exist",
        "docs/new.md, line 3: look.md#no-such-part is not a heading of docs/look.md",
    ]


def test_links_are_those_of_the_site(site: dict[str, Any]) -> None:
    text = "[a](docs/look.md#x) ![b](docs/figures/page.png) [c](CONTRIBUTING.md) [d](LICENSE) [e](https://x.y) [f](#g)"
    assert site["sources"].for_the_site("README.md", text) == (
        "[a](look.md#x) ![b](figures/page.png) [c](contributing.md) d [e](https://x.y) [f](#g)"
    )


def test_the_reference_has_every_public_name(site: dict[str, Any]) -> None:
    reference = site["sources"].reference()
    for room in ("objectives", "evaluation", "data", "geometry", "testing"):
        module = importlib.import_module(f"levelfield.{room}")
        names = [name for name in module.__all__ if not isinstance(getattr(module, name), ModuleType)]
        missing = [name for name in names if f"::: levelfield.{room}.{name}\n" not in reference[f"python/{room}.md"]]
        assert not missing
    assert "::: levelfield.compare\n" in reference["python/levelfield.md"]


def test_the_site_asks_no_other_server() -> None:
    config = (pages.ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "http" not in config
    assert "font: false" in config
    assert "iframe-worker" in config  # otherwise the plugin `offline` adds the address of a server
