"""Speed of training as ratios against named peers, interleaved within one run.

    python benchmarks/training.py [--quick] [--only loop] [--only jobs]

Prints a table and writes results/training.json next to this file. Features come from the cache (LEVELFIELD_CACHE) and
are computed first if they are missing. One thread per process.
"""

from __future__ import annotations

import one_thread  # noqa: F401  isort: skip  (before torch and numpy)
import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
from figures import Figure, save, table
from parts import FULL, QUICK, Parts
from rich.console import Console

from levelfield.studies import parse_study, read_study

HERE = Path(__file__).parent
PARTS = ("loop", "cached", "gradients", "cache", "jobs")


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few and short slices: whether it works, not how fast")
    parser.add_argument("--only", action="append", choices=PARTS, help="measure this part; may be repeated")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change the study measured")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "training.json", metavar="FILE")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    demo = read_study("demo", chosen.set).model_dump(mode="json")
    competitors = [method for method in demo["methods"] if method["name"] == "contrastive"]
    parts = Parts(parse_study({**demo, "name": "speed", "methods": competitors}), QUICK if chosen.quick else FULL)
    console, figures = Console(), []
    for name in chosen.only or PARTS:
        for figure in parts.all()[name]():
            figures.append(figure)
            console.print(f"{figure.part}: {figure.what}: {figure.shown[0]}", highlight=False)
    console.print(table(figures, "Speed of training"))
    save(chosen.out, figures)
    return figures


if __name__ == "__main__":
    main()
