"""Startup cost of commands: `python benchmarks/startup.py`.

Median CPU seconds of a process and its children, commands interleaved; also as multiples of `python -c pass` and
`import torch`, which do not depend on other load, and beside a bare training script up to its first step. `report` is
measured on studies created by this script; `compare` up to its first step on stored features of the demo's trunk: CPU
time of its own process and then of the worker.
Writes results/startup.json beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from harness.interleaved import Sample, interleave
from harness.made_study import make_study

ROWS, SEEDS, FEW = 300, 5, 10
PASS, TORCH, BARE = "python -c pass", "import torch", "bare first step"
# the shortest script with the same network and optimiser; AdamW imports torch._dynamo, almost as long as torch itself
BARE_SCRIPT = """
import torch
import levelfield._torchvision  # as torchvision, also with a torch that was not built for it
import timm
network = timm.create_model("tf_efficientnet_lite0").eval()
head = torch.nn.Linear(1280, 8)
optimiser = torch.optim.AdamW(head.parameters())
head(torch.randn(100, 1280)).square().mean().backward()
optimiser.step()
"""
STUDY = "{data: emoji, methods: [triplet], conditions: {dim: 8}}"
FIRST_STEP = "first step"
RESULTS = Path(__file__).parent / "results" / "startup.json"
# `levelfield compare` up to the first step of its first run, which ends it; then the worker's seconds are added
UNTIL_THE_FIRST_STEP = """
import os, sys, time
from levelfield.distributed import processes
from levelfield.cli import console, main
start, workers = processes.start, []

def started(*given):
    workers.append(start(*given))
    return workers[-1]

def heard(self, event):
    if event.kind == "failed":
        os._exit(1)
    if event.text == "training":
        spent = open(f"/proc/{workers[-1][0].pid}/stat").read().rpartition(")")[2].split()[11:13]
        print(time.process_time() + sum(map(int, spent)) / os.sysconf("SC_CLK_TCK"), flush=True)
        os._exit(0)

processes.start, console.StudyBars.on_event = started, heard
main(sys.argv[1:])
"""


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
        "unknown method": Command(("compare", study, "methods=[tripplet]"), 0.5),
        "list objectives": Command(("list", "objectives"), 0.8, torch=True),
        f"report, {FEW} rows": Command(("report", str(folder / "few")), 0.8, torch=True),
        FIRST_STEP: Command(("compare", study), 4.0),
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


def until_first_step(folder: Path) -> Sample:
    """Wall seconds of `levelfield compare` until its first step, and CPU seconds of those who work for it in turn."""
    kept = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "compiled"), "OMP_NUM_THREADS": "1"}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(dir=folder) as out:
        began = time.perf_counter()
        words = ["compare", str(folder / "study.yaml"), "seeds=1", "--out", out]
        done = subprocess.run(
            [sys.executable, "-c", UNTIL_THE_FIRST_STEP, *words], capture_output=True, text=True, check=True, env=kept
        )
        wall = time.perf_counter() - began
    return Sample(wall, float(done.stdout.split()[-1]))


def measured(folder: Path, chosen: dict[str, Command], rounds: int) -> dict[str, float]:
    """Median CPU seconds of `python -c pass`, `import torch`, the bare script and the commands."""
    lines = {PASS: ["-c", "pass"], TORCH: ["-c", "import torch"], BARE: ["-c", BARE_SCRIPT]}
    lines |= {name: ["-m", "levelfield", *command.words] for name, command in chosen.items()}
    lanes = {name: (lambda words=words: seconds(words, folder)) for name, words in lines.items()}
    if FIRST_STEP in lanes:
        lanes[FIRST_STEP] = lambda: until_first_step(folder)
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
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FILE")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "study.yaml").write_text(STUDY)
        make_study(folder / "few", rows=FEW, seeds=3)
        asked = commands(folder)
        if chosen.large:
            make_study(folder / "many", rows=ROWS, seeds=SEEDS)
            asked[f"report, {ROWS} rows"] = Command(("report", str(folder / "many")), 10.0)
        found = measured(folder, asked, chosen.rounds)
        print(*table(found, asked), sep="\n")
        limits = {name: one.most + found[TORCH] * one.torch for name, one in asked.items()}
        figures = {
            name: {
                "cpu": cpu,
                "times_pass": cpu / found[PASS],
                "times_torch": cpu / found[TORCH],
                "most": limits.get(name),
            }
            for name, cpu in found.items()
        }
        chosen.out.write_text(json.dumps({"rounds": chosen.rounds, "figures": figures}, indent=2) + "\n")


if __name__ == "__main__":
    main()
