"""The pages agree with the project: tables with the code, links with the files, verbs with the Makefile."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path
from types import ModuleType

import pages
import pytest

VERBS = ["install", "demo", "test", "lint", "bench", "docs", "clean"]


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", pages.ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_tables_are_those_the_code_gives() -> None:
    made = generator().pages()
    stale = [path.name for path, text in made.items() if path.read_text(encoding="utf-8") != text]
    assert not stale, f"run `make docs`: {', '.join(stale)}"
    assert len(made) >= 3


@pytest.mark.parametrize("page", [*pages.PAGES, pages.ROOT / "CHANGELOG.md"], ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (page.parent / link.partition("#")[0]).exists()]
    assert not missing


def test_every_page_is_linked_from_the_readme() -> None:
    readme = (pages.ROOT / "README.md").read_text(encoding="utf-8")
    assert not [page.name for page in pages.PAGES[1:] if f"{page.relative_to(pages.ROOT)})" not in readme]


def test_two_commands_and_a_leaderboard_are_on_the_first_screen() -> None:
    top = (pages.ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:20]
    assert any(line.startswith("make demo") for line in top)
    assert any(line.startswith("make test") for line in top)
    assert "<!-- leaderboard -->" in top


def test_make_help_is_the_default_and_lists_the_verbs() -> None:
    said = subprocess.run(["make"], cwd=pages.ROOT, capture_output=True, text=True, check=True).stdout
    assert re.findall(r"^make (\w+) ", said, re.MULTILINE) == ["help", *VERBS]


def test_verbs_on_the_pages_exist() -> None:
    used = {words[0] for page in pages.PAGES for block in pages.blocks(page) for words in block.commands("make")}
    assert used <= set(VERBS)


def test_ci_runs_make_test_and_nothing_else() -> None:
    script = pages.ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    lines = script.read_text(encoding="utf-8").splitlines()
    assert lines == ["#!/bin/sh", "set -eu", 'cd "$(dirname "$0")/.."', "exec make test"]
