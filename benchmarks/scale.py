"""Cost of several processes, of divided batches, of a million classes and of Ray, as ratios interleaved within one run.

    python benchmarks/scale.py [--quick] [--only processes] [--only memory]    # all: about 35 minutes

Prints a table and writes results/scale.json next to this file. One thread per process; run it on an idle machine with
at least two cores.
"""

from __future__ import annotations

from harness import one_thread  # noqa: F401  isort: skip  (before torch and numpy)
import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from harness.figures import Figure, save, table
from harness.ray_lanes import killed, on_one_machine, on_running_ray
from harness.scale_processes import accumulation, gathering, memory, million_classes, one_run
from rich.console import Console

HERE = Path(__file__).parent
Part = Callable[[bool], Iterator[Figure]]
"""Measures one part; True: small and short, to see whether it works."""

PARTS: dict[str, Part] = {
    "processes": one_run,
    "gather": gathering,
    "accumulate": accumulation,
    "memory": memory,
    "classes": million_classes,
    "ray": on_one_machine,
    "running ray": on_running_ray,
    "kills": killed,
}


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few and short slices: whether it works, not how fast")
    parser.add_argument("--only", action="append", choices=PARTS, help="measure this part; may be repeated")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "scale.json", metavar="FILE")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    console, figures = Console(), []
    for name in chosen.only or PARTS:
        for figure in PARTS[name](chosen.quick):
            figures.append(figure)
            console.print(f"{figure.part}: {figure.what}: {figure.shown[0]}", highlight=False)
    console.print(table(figures, "Beyond one process"))
    save(chosen.out, figures)
    return figures


if __name__ == "__main__":
    main()
