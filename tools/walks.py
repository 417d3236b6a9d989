"""Count the calls of one comparison and of one evaluation: how far the program walks for a result.

    python tools/walks.py            print the table
    python tools/walks.py --write    write it into docs/architecture.md

Calls are those of functions of levelfield after all imports, with the features of the images already stored.
"""

from __future__ import annotations

import importlib
import multiprocessing
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from levelfield.table import Table

SOURCE = f"{Path(__file__).parents[1] / 'src' / 'levelfield'}/"
STUDY: dict[str, Any] = {
    "conditions": {"steps": 5, "image": 64, "batch": "3x2", "dim": 8, "warmup": 0},
    "methods": ["contrastive"],
    "seeds": 1,
    "metrics": ["recall@1"],
}
ONCE = ("parse_study", "ProtocolChoice.divide", "open_catalog", "methods/__init__.py:create")
# measured by this script at commit 36edc071
BEFORE = {
    "calls of `compare`, one method and one seed": 18_418,
    "changes of file in it": 3_884,
    "files that it visits": 180,
    "calls of `parse_study` in it": 3,
    "calls of `divide` in it": 3,
    "calls of `open_catalog` in it": 3,
    "calls of `methods.create` in it": 3,
    "calls of `evaluate(rows, labels)`": 285,
}


class Walk(NamedTuple):
    """Calls by `file.py:function`, and the changes of file between them."""

    calls: Counter[str]
    changes: int

    def of(self, function: str) -> int:
        return sum(count for name, count in self.calls.items() if name.endswith(function))


def walk(work: Callable[[], object]) -> Walk:
    """Count the calls that `work` makes; comprehensions and lambdas belong to the function around them."""
    calls: Counter[CodeType] = Counter()
    changes, last = 0, ""

    def watch(frame: FrameType, event: str, _: object) -> None:
        nonlocal changes, last
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(SOURCE) and not code.co_name.startswith("<"):
            calls[code] += 1
            changes += code.co_filename != last
            last = code.co_filename

    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(None)
    named: Counter[str] = Counter()
    for code, count in calls.items():
        named[f"{code.co_filename.removeprefix(SOURCE)}:{code.co_qualname}"] += count
    return Walk(named, changes)


def measure_walks() -> dict[str, int]:
    """The figures of the table, in the order of `BEFORE`."""
    from levelfield import evaluate

    with tempfile.TemporaryDirectory() as temporary:
        compared = _walk_of_compare(Path(temporary))
    rows, labels = np.random.default_rng(0).normal(size=(200, 16)).astype(np.float32), np.repeat(np.arange(20), 10)
    evaluate(rows, labels)
    evaluated = walk(lambda: evaluate(rows, labels))
    files = {name.partition(":")[0] for name in compared.calls}
    once = [compared.of(f":{name}" if ":" not in name else name) for name in ONCE]
    figures = [compared.calls.total(), compared.changes, len(files), *once, evaluated.calls.total()]
    return dict(zip(BEFORE, figures, strict=True))


def table() -> str:
    """The figures before one pipeline served all commands, and now."""
    now = measure_walks()
    rows = [[name, f"{before:,}", f"{now[name]:,}"] for name, before in BEFORE.items()]
    return Table(["what", "before", "now"], rows).markdown()


def _walk_of_compare(folder: Path) -> Walk:
    """A comparison in this process, after one in a fork of it that stored features and listed the imports."""
    import levelfield

    _draw_images(folder / "images")
    _ = levelfield.compare  # imported here, so that the fork need not
    with multiprocessing.get_context("fork").Pool(1) as forks:
        imported = forks.apply(_modules_of_compare, [folder])
    for name in imported:
        importlib.import_module(name)
    shutil.rmtree(folder / "runs")
    return walk(lambda: _compare(folder))


def _compare(folder: Path) -> None:
    import levelfield
    from levelfield.studies.runs.training import Options

    options = Options(cache_folder=folder / "features")
    levelfield.compare(STUDY | {"data": str(folder / "images")}, out=folder / "runs", options=options, page=False)


def _modules_of_compare(folder: Path) -> list[str]:
    _compare(folder)
    return [name for name in sys.modules if name.startswith("levelfield.")]


def _draw_images(folder: Path) -> None:
    """Six classes of five images each, noise around a brightness of the class."""
    random = np.random.default_rng(0)
    for label in range(6):
        (folder / f"class {label}").mkdir(parents=True)
        for number in range(5):
            pixels = random.integers(0, 64, (64, 64, 3)) + 32 * label
            Image.fromarray(pixels.astype(np.uint8)).save(folder / f"class {label}" / f"{number}.png")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        page = Path(__file__).parents[1] / "docs" / "architecture.md"
        first, begin, rest = page.read_text(encoding="utf-8").partition("<!-- walks -->\n")
        _, end, last = rest.partition("<!-- end of walks -->")
        page.write_text(f"{first}{begin}{table()}\n{end}{last}", encoding="utf-8")
    else:
        print(table())
