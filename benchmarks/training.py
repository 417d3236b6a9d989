"""Speed of training as ratios against named peers, interleaved within one run.

    python benchmarks/training.py [--quick] [--only loop] [--only jobs] [--only photos --images DIR]

Prints a table and writes results/training.json next to this file. Features come from the cache (LEVELFIELD_CACHE) and
are computed first if they are missing. One thread per process. Part `photos` uses drawn photographs, or those in DIR
(one folder per class), and also prints images per second, FLOP/s and their share of the machine's own matrix product.
"""

from __future__ import annotations

from harness import one_thread  # noqa: F401  isort: skip  (before torch and numpy)
import argparse
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from harness.figures import Figure, save, table
from harness.parts import FULL, QUICK, Parts
from harness.photographs import Photographs, draw_photographs
from rich.console import Console

from levelfield.studies import parse_study, read_study

HERE = Path(__file__).parent
PARTS = ("loop", "cached", "gradients", "cache", "photos", "jobs")


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few and short slices: whether it works, not how fast")
    parser.add_argument("--only", action="append", choices=PARTS, help="measure this part; may be repeated")
    parser.add_argument("--images", type=Path, metavar="DIR", help="photographs of part `photos`, a folder per class")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change the study measured")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "training.json", metavar="FILE")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    demo = read_study("demo", chosen.set).model_dump(mode="json")
    competitors = [method for method in demo["methods"] if method["name"] == "contrastive"]
    parts = Parts(parse_study({**demo, "name": "speed", "methods": competitors}), QUICK if chosen.quick else FULL)
    console, figures = Console(), []
    with tempfile.TemporaryDirectory() as folder:
        images = chosen.images or Path(folder) / "photographs"
        measured = parts.all() | {"photos": lambda: photos(images, chosen.quick, chosen.set)}
        for name in chosen.only or PARTS:
            for figure in measured[name]():
                figures.append(figure)
                console.print(f"{figure.part}: {figure.what}: {figure.shown[0]}{speed_of(figure)}", highlight=False)
    console.print(table(figures, "Speed of training"))
    save(chosen.out, figures)
    return figures


def photos(images: Path, quick: bool, settings: Sequence[str]) -> Iterator[Figure]:
    """The part `photos`, with photographs that are drawn if there are none."""
    kept = [one for one in settings if not one.startswith(("data=", "conditions.taps=", "conditions.batch="))]
    amount = {"casts": 1, "rounds": 2, "steps": 1} if quick else {"casts": 3, "rounds": 6, "steps": 4}
    return Photographs(images if images.exists() else draw_photographs(images), settings=kept, **amount).figures()


def speed_of(figure: Figure) -> str:
    facts = figure.facts
    if "images_per_second" not in facts:
        return ""
    speed = f"{facts['images_per_second']:.0f} images/s, {facts['gflops_per_second']:.1f} GFLOP/s"
    return f" ({speed}, {facts['share_of_matrix_product']:.0%} of the machine's matrix product)"


if __name__ == "__main__":
    main()
