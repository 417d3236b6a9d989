"""Time, size and memory of a study's page: `python benchmarks/page.py [--quick] [--keep FOLDER]`.

Test sets of 5,000, 20,000 and 100,000 images with the embeddings of four methods, of two for 100,000 (128 numbers each,
8 images per class), each page made in its own process. 400 drawn photographs of 256 x 256 pixels stand for all images.
--keep writes the pages into a folder, to be opened in a browser. Writes results/page.json next to this file.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from harness.figures import Figure, save, table
from PIL import Image
from rich.console import Console

HERE = Path(__file__).parent
SIZES, QUICK = (5_000, 20_000, 100_000), (500, 2_000)
METHODS, METHODS_OF_MANY, MANY = 4, 2, 100_000
DIM, PER_CLASS, DRAWN = 128, 8, 400
LARGEST_PAGE = 12.0  # MB, for 5,000 images
MOST_MEMORY = 1_500.0  # MB beyond the start, for any number of images


def made_page(images: int, folder: Path) -> Path:
    """Make the page of a synthetic test set in this process, and return its path."""
    from levelfield.reports.evaluation.page import images_of
    from levelfield.reports.page.neighbour_lists import EmbeddedRow
    from levelfield.reports.page.one_test_set import data_of_test_set
    from levelfield.reports.page.write import write_page

    random = np.random.default_rng(0)
    labels = np.arange(images) // PER_CLASS
    centres = random.normal(size=(int(labels[-1]) + 1, DIM)).astype(np.float32)
    paths = _drawn(folder / "images")
    pictured = images_of([paths[number % len(paths)] for number in range(images)], labels)
    methods = []
    for number in range(METHODS if images < MANY else METHODS_OF_MANY):
        noise = random.standard_normal(size=(images, DIM), dtype=np.float32)
        methods.append(EmbeddedRow(number, f"method {number}", centres[labels] + (1.5 + 0.2 * number) * noise))
    test = data_of_test_set("synthetic", pictured, methods)
    told = {"levelfield": "", "study": f"{images:,} images", "about": "", "answer": ["Use method 0."], "best": 0}
    lists: dict[str, list[object]] = {
        name: [] for name in ("cautions", "metrics", "rows", "comparisons", "tables", "curves", "missing")
    }
    page = {**told, **lists, "comparison_note": "", "tests": [test], "live": None}
    path = folder / f"page-{images}.html"
    write_page(page, path)
    return path


def _drawn(folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(1)
    paths = [folder / f"{number}.jpg" for number in range(DRAWN)]
    for path in paths:
        if not path.exists():
            pattern = random.integers(0, 256, size=(8, 8, 3), dtype=np.uint8)
            Image.fromarray(pattern).resize((256, 256), Image.Resampling.BICUBIC).save(path, quality=85)
    return paths


def measured(images: int, folder: Path) -> dict[str, float]:
    """Seconds, processor seconds, bytes of the page and of memory beyond the start, in this fresh process (Linux)."""
    made_page(300, folder)  # exclude imports and compiled loops
    before = _kilobytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    began, used = time.perf_counter(), time.process_time()
    path = made_page(images, folder)
    seconds = {"seconds": time.perf_counter() - began, "processor": time.process_time() - used}
    return {**seconds, "bytes": path.stat().st_size, "memory": 1024 * (_kilobytes("VmHWM") - before)}


def _kilobytes(key: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key))


def in_a_fresh_process(images: int, folder: Path) -> dict[str, float]:
    command = [sys.executable, str(Path(__file__)), "--one", str(images), "--keep", str(folder)]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(finished.stdout.splitlines()[-1])
    return found


def figures(sizes: tuple[int, ...], folder: Path) -> list[Figure]:
    found = []
    for images in sizes:
        one = in_a_fresh_process(images, folder)
        part = f"page of {images:,} images"
        limit = LARGEST_PAGE if images <= 5_000 else None
        found.append(Figure(part, "time", "", 1e3 * one["seconds"], None, at_most=True, unit="ms", facts=one))
        found.append(Figure(part, "size", "", one["bytes"] / 1e6, limit, at_most=True, unit="MB"))
        found.append(Figure(part, "memory", "", one["memory"] / 1e6, MOST_MEMORY, at_most=True, unit="MB"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="500 and 2,000 images")
    parser.add_argument("--keep", type=Path, help="folder for the pages")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.keep or Path(temporary)
        if asked.one:
            print(json.dumps(measured(asked.one, folder)))
            return
        found = figures(QUICK if asked.quick else SIZES, folder)
    Console().print(table(found, "The page of a study"))
    if not asked.quick:
        save(HERE / "results" / "page.json", found)


if __name__ == "__main__":
    main()
