"""Does the recipe for own photos do harm? Random subsets of a folder of classes, compared as by `compare --data`.

    python benchmarks/own_photos.py --images CUB_200_2011/images

For each subset: recall@1 of the untrained features, of the initial head and of every trained row, and the steps chosen
by validation. Without validation classes, an additional longer training shows the effect of more steps. Results go to
benchmarks/results/own_photos.json, the source of docs/own-photos.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import tempfile
from pathlib import Path
from typing import Any

from levelfield.studies import execute_study, gather, parse_study, resolve
from levelfield.studies.planning.own_photos import fit_to
from levelfield.studies.runs.folder.store import read_result

SIZES = ("14x20", "20x20", "50x20", "100x30")
RESULTS = Path(__file__).parent / "results" / "own_photos.json"
METRIC = "recall@1"
LONGER = 60  # steps, if the recipe has a small fixed number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, required=True, help="A folder with one sub-folder per class.")
    parser.add_argument("--about", default="", help="What the images are, for the log.")
    parser.add_argument("--sizes", nargs="+", default=SIZES, help="Classes x photos of each.")
    parser.add_argument("--draws", type=int, nargs="+", default=[6, 6, 4, 3], help="Random subsets of each size.")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    subsets = []
    with tempfile.TemporaryDirectory() as place:
        for size, draws in zip(given.sizes, given.draws, strict=True):
            for draw in range(draws):
                photos = draw_subset(given.images, size, draw, Path(place) / f"{size}-{draw}")
                subsets.append({"size": size, "draw": draw, **measured(photos, Path(place) / "runs")})
                if "validation" not in subsets[-1]["protocol"]:
                    longer = measured(photos, Path(place) / "longer", steps=LONGER)
                    subsets[-1]["longer"] = {"steps": LONGER, "trained": longer["trained"]}
                print(line(subsets[-1]), flush=True)
                written = {"images": given.about, "metric": METRIC, "subsets": subsets}
                given.out.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


def draw_subset(images: Path, size: str, draw: int, folder: Path) -> Path:
    """A folder of links to randomly drawn photos of randomly drawn classes."""
    classes, each = map(int, size.split("x"))
    drawn = random.Random(f"{size} {draw}")
    for name in drawn.sample(sorted(path.name for path in images.iterdir() if path.is_dir()), classes):
        (folder / name).mkdir(parents=True)
        there = sorted((images / name).iterdir())
        for path in drawn.sample(there, min(each, len(there))):
            os.symlink(path.resolve(), folder / name / path.name)
    return folder


def measured(photos: Path, out: Path, *, steps: int | None = None) -> dict[str, Any]:
    """Results of one subset. steps: instead of the recipe's."""
    content, _, _ = fit_to(photos)
    content["conditions"] |= {} if steps is None else {"steps": steps}
    study = parse_study(content | {"metrics": [METRIC], "figures": []})
    resolved = resolve(study, here=True)
    execute_study(resolved, out / study.name, jobs=0)
    runs = resolved.runs
    board = gather(study.name, runs, out / study.name, study.metrics)
    steps: dict[str, list[int]] = {}
    for run in runs:
        result = read_result(run.folder(out / study.name))
        if result is not None and result.summary["step"]:
            chosen = result.summary["best_step" if result.summary["history"] else "step"]
            steps.setdefault(run.row, []).append(chosen)
    figures = {row.label: round(row.cells[METRIC].mean, 4) for row in board.rows}
    return {
        "protocol": content["protocol"],
        "untrained": figures.pop("untrained features"),
        "start": figures.pop("head at its start"),
        "trained": {label: {METRIC: figures[label], "steps": steps[label]} for label in sorted(figures)},
    }


def line(subset: dict[str, Any]) -> str:
    """One subset in a row of the table: best and worst trained row against the start."""
    values = {label: row[METRIC] for label, row in subset["trained"].items()}
    best, worst = max(values, key=values.__getitem__), min(values, key=values.__getitem__)
    steps = statistics.median(step for row in subset["trained"].values() for step in row["steps"])
    return (
        f"| {subset['size']} | {subset['untrained']:.3f} | {subset['start']:.3f} "
        f"| {values[best]:.3f} ({best}) | {values[worst] - subset['start']:+.3f} ({worst}) | {steps:g} |"
    )


if __name__ == "__main__":
    main()
