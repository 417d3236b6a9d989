"""Startup cost of commands: `python benchmarks/startup.py`.

Median CPU seconds of a process and its children, commands interleaved; also as multiples of `python -c pass` and
`import torch`, which do not depend on other load. `report` is measured on studies created by this script.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from interleaved import Sample, interleave
from made_study import make_study

ROWS, SEEDS, FEW = 300, 5, 10
PASS, TORCH = "python -c pass", "import torch"
STUDY = "{data: emoji, methods: [triplet], conditions: {dim: 8}}"


@dataclass(frozen=True)
class Command:
    """A command and its limit in CPU seconds, in addition to `import torch` if it may import torch."""

    words: tuple[str, ...]
    most: float
    torch: bool = False


def commands(folder: Path) -> dict[str, Command]:
    """Commands by printed name. folder: location of the study file and of the studies to report."""
    study = str(folder / "study.yaml")
    return {
        "--version": Command(("--version",), 0.5),
        "--help": Command(("--help",), 0.5),
        "compare --help": Command(("compare", "--help"), 0.5),
        "unknown command": Command(("compar",), 0.5),
        "unknown option": Command(("compare", "--job", "2"), 0.5),
        "missing study": Command(("compare", str(folder / "studdy.yaml")), 0.5),
        "misspelt key": Command(("compare", study, "conditions.dimm=3"), 0.5),
        "list objectives": Command(("list", "objectives"), 0.8, torch=True),
        f"report, {FEW} rows": Command(("report", str(folder / "few")), 0.8, torch=True),
    }


def seconds(words: list[str], folder: Path) -> Sample:
    """Wall and CPU seconds of `python ...`, children included, with compiled files as an installed package has."""
    kept = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    began = time.perf_counter()
    quiet = subprocess.DEVNULL
    process = subprocess.Popen([sys.executable, *words], stdout=quiet, stderr=quiet, env=kept, cwd=folder)
    _, _, used = os.wait4(process.pid, 0)
    return Sample(time.perf_counter() - began, used.ru_utime + used.ru_stime)


def measured(folder: Path, chosen: dict[str, Command], rounds: int) -> dict[str, float]:
    """Median CPU seconds of `python -c pass`, `import torch` and the commands."""
    lines = {PASS: ["-c", "pass"], TORCH: ["-c", "import torch"]}
    lines |= {name: ["-m", "levelfield", *command.words] for name, command in chosen.items()}
    lanes = {name: (lambda words=words: seconds(words, folder)) for name, words in lines.items()}
    return {name: median(one.cpu for one in found) for name, found in interleave(lanes, rounds).items()}


def table(found: dict[str, float], chosen: dict[str, Command]) -> list[str]:
    """A line for each command.

    >>> found = {PASS: 0.02, TORCH: 2.0, "--help": 0.3}
    >>> print(*table(found, {"--help": Command(("--help",), 0.5)}), sep="\\n")
    command                CPU s  x pass  x torch   at most
    python -c pass          0.02     1.0     0.01
    import torch            2.00   100.0     1.00
    --help                  0.30    15.0     0.15   0.50: good
    """
    lines = [f"{'command':<20} {'CPU s':>7} {'x pass':>7} {'x torch':>8}   at most"]
    for name, cpu in found.items():
        line = f"{name:<20} {cpu:>7.2f} {cpu / found[PASS]:>7.1f} {cpu / found[TORCH]:>8.2f}"
        if name in chosen:
            most = chosen[name].most + (found[TORCH] if chosen[name].torch else 0.0)
            line += f"   {most:.2f}: {'good' if cpu <= most else 'TOO SLOW'}"
        lines.append(line)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--large", action="store_true", help=f"also the report of {ROWS} rows with {SEEDS} seeds each")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "study.yaml").write_text(STUDY)
        make_study(folder / "few", rows=FEW, seeds=3)
        asked = commands(folder)
        if chosen.large:
            make_study(folder / "many", rows=ROWS, seeds=SEEDS)
            asked[f"report, {ROWS} rows"] = Command(("report", str(folder / "many")), 10.0)
        print(*table(measured(folder, asked, chosen.rounds), asked), sep="\n")


if __name__ == "__main__":
    main()
