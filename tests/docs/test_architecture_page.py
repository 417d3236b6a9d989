"""The page on architecture names functions that exist, and every room of the package."""

from __future__ import annotations

import ast
import re

import pages

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
