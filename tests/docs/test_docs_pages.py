"""The pages agree with the project: tables with the code, links with the files, targets with the Makefile."""

from __future__ import annotations

import ast
import re
import subprocess

import pages

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
