"""The example parts of CONTRIBUTING.md in a copy of the project: one file and its test are enough."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pages
import pytest

COPIED = ("src", "tests", "docs", "tools", "benchmarks", "CONTRIBUTING.md", "pyproject.toml")
NAMES = {
    "objectives": "nearest_centre",
    "miners": "easy_positive",
    "batching": "with_replacement",
    "evaluation/metrics": "f1@K",
    "data/sources": "flat",
    "data/protocols": "second-half",
    "data/corruptions": "posterize",
    "reports/figures": "seeds",
    "embedder/networks": "small_convnet",
    "methods": "two_passes",
}
# the tests that walk a registry, where a new part could need an edit
WALKS = (
    "test_every_part.py",
    "test_public_names.py",
    "testing/test_laws.py",
    "objectives/test_objectives_create.py",
    "methods/test_methods_create.py",
    "miners/test_miner_alone.py",
    "miners/test_miner_draws.py",
    "batching/test_batching_laws.py",
    "reports/test_figures.py",
    "docs/test_docs_pages.py",
    "benchmarks/test_benchmarks_run.py",
)
BESIDES = ("tables_are", "small_picture", "contest", "same_way", "exports", "type_checkers")
RUN = """
import runpy, subprocess, sys, pytest
subprocess.run([sys.executable, "tools/typed.py"], check=True)  # before this process reads the index
sys.path.insert(0, "tools")
for words in (["tools/draw.py", "nearest_centre"], ["tools/generate.py"]):
    sys.argv = words
    runpy.run_path(words[0], run_name="__main__")
sys.exit(pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-k", CHOSEN, *FILES]))
"""


def examples() -> dict[str, str]:
    """The files on the page: path -> content."""
    result = {}
    for block in pages.blocks(pages.ROOT / "CONTRIBUTING.md"):
        if block.file and block.file.startswith(("src/", "tests/")):
            result[block.file] = block.text.partition("\n")[2]
    return result


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with all examples of the page pasted into it."""
    copy = tmp_path_factory.mktemp("contributed")
    for name in COPIED:
        source = pages.ROOT / name
        left_out = shutil.ignore_patterns("*.egg-info", "golden")  # compiled files stay valid: times are copied, too
        _ = shutil.copytree(source, copy / name, ignore=left_out) if source.is_dir() else shutil.copy(source, copy)
    for name, text in examples().items():
        assert not (copy / name).exists(), f"{name} is there already: the example must be a new part"
        (copy / name).write_text(text, encoding="utf-8")
    return copy


def test_there_is_an_example_of_every_kind_with_its_test() -> None:
    parts = [name for name in examples() if name.startswith("src/")]
    assert [str(Path(name).parent.relative_to("src/levelfield")) for name in parts] == list(NAMES)
    assert len(examples()) == 2 * len(parts)
    assert all(any(f'"{name}"' in text for text in examples().values()) for name in NAMES.values())


def test_the_examples_are_as_the_linter_wants_them(copy: Path) -> None:
    for words in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [str(Path(sys.executable).with_name("ruff")), *words, "--no-cache", *examples()],
            cwd=copy,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout


def test_a_part_and_its_test_are_enough(copy: Path) -> None:
    """`make docs`, then the tests of the parts and those that walk a registry."""
    stems = [Path(name).stem for name in examples() if name.startswith("src/")]
    chosen = " or ".join(dict.fromkeys([*stems, *map(_plain, NAMES.values()), *BESIDES]))
    files = [name for name in examples() if name.startswith("tests/")] + [f"tests/{name}" for name in WALKS]
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    script = f"CHOSEN, FILES = {chosen!r}, {files!r}\n{RUN}"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=copy, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert int(re.findall(r"(\d+) passed", done.stdout)[-1]) > 60
    written = "".join(page.read_text(encoding="utf-8") for page in (copy / "docs").glob("*.md"))
    assert not [
        name
        for kind, name in NAMES.items()
        if kind not in ("embedder/networks", "methods") and f"`{name}`" not in written
    ]


def _plain(name: str) -> str:
    return name.partition("@")[0]
