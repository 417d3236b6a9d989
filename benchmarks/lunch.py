"""Own photos against the script that one would write by hand: recall@1 after the same CPU minutes, one core each.

    python benchmarks/lunch.py FOLDER [FOLDER ...] --minutes 10 22 45
    python benchmarks/lunch.py --draw              only the figure of docs/own-photos.md

FOLDER has one sub-folder per class; half of the classes train, half test. The script is benchmarks/peers/fine_tune.py:
timm, pytorch-metric-learning's Proxy Anchor, everything trains. The clock is CPU time. Of the script, training alone
counts; of levelfield everything: checking the images, all stages, the evaluation and the page.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from levelfield.files.writing import write_json

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "lunch.json"
FIGURE = HERE.parent / "docs" / "figures" / "lunch.png"
PR_SET_CHILD_SUBREAPER = 36  # of linux/prctl.h
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path, nargs="*", help="Folders of photos.")
    parser.add_argument("--minutes", type=float, nargs="+", default=[10, 22, 45])
    parser.add_argument("--only", choices=("script", "levelfield"), help="Run only one of the two.")
    parser.add_argument("--draw", action="store_true", help="Draw the figure from the stored results.")
    arguments = parser.parse_args()
    for folder in arguments.photos:
        for minutes in arguments.minutes:
            for name, run in (("script", by_script), ("levelfield", by_levelfield)):
                if arguments.only in (None, name):
                    keep(folder.name, name, run(folder, minutes) | {"minutes": minutes})
    if arguments.draw:
        draw(json.loads(RESULTS.read_text(encoding="utf-8")))


def by_script(folder: Path, minutes: float) -> dict[str, Any]:
    printed, seconds = timed([str(HERE / "peers" / "fine_tune.py"), str(folder), "--cpu-minutes", f"{minutes:g}"])
    scores = [float(score) for score in re.findall(r"recall@1 ([\d.]+)", printed)]
    return {"untrained": scores[0], "recall@1": scores[-1], "cpu_seconds": seconds, "says": printed.splitlines()[-1]}


def by_levelfield(folder: Path, minutes: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as out:
        limit = ["--time", f"{minutes:g}m", "--jobs", "1", "--workers", "0"]
        stored = ["--out", out, "--cache", f"{out}/cache"]
        _, seconds = timed(["-m", "levelfield", "compare", "--data", str(folder), *limit, *stored])
        study = Path(out) / folder.resolve().name
        board = json.loads((study / "leaderboard.json").read_text(encoding="utf-8"))
    scores = {row["label"]: row["cells"]["recall@1"]["mean"] for row in board["rows"]}
    recipe = board["facts"].get("recipe", {"best": next(iter(scores))})
    untrained = scores["untrained features"]
    return {"untrained": untrained, "recall@1": scores[recipe["best"]], "cpu_seconds": seconds, "recipe": recipe}


def timed(command: list[str]) -> tuple[str, float]:
    """What a Python command printed, and the CPU seconds of it and of all processes that it started."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)  # servers that outlive the command become children of this one
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run(
        [sys.executable, *command], stdout=subprocess.PIPE, text=True, env={**os.environ, **ONE_THREAD}
    )
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    if ended.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stdout}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.stdout, used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime


def keep(photos: str, name: str, entry: dict[str, Any]) -> None:
    """Add an entry to the results, in the place of an earlier one of the same minutes, and print it."""
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    entries = results.setdefault(photos, {}).setdefault(name, [])
    entries[:] = sorted([*(e for e in entries if e["minutes"] != entry["minutes"]), entry], key=lambda e: e["minutes"])
    write_json(RESULTS, results)
    print(
        f"{photos}, {entry['minutes']:g} min, {name}: recall@1 {entry['recall@1']:.3f} (untrained "
        f"{entry['untrained']:.3f}; {entry['cpu_seconds'] / 60:.1f} CPU minutes)",
        flush=True,
    )


def draw(results: dict[str, Any]) -> None:
    """Recall against CPU minutes, one panel for each folder."""
    from levelfield.reports.figures._drawing import panels, save

    figure, axes = panels(1, len(results), width=3.6 * len(results), height=3.2)
    for axis, (photos, by_name) in zip(axes[0], results.items(), strict=True):
        for name, entries in by_name.items():
            axis.plot([e["minutes"] for e in entries], [e["recall@1"] for e in entries], marker="o", label=name)
            axis.axhline(entries[-1]["untrained"], linestyle=":", color=axis.lines[-1].get_color(), linewidth=1)
        axis.set(title=photos, xlabel="CPU minutes", ylabel="recall@1")
        axis.legend(frameon=False)
    save(figure, FIGURE)


if __name__ == "__main__":
    main()
