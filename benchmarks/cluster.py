"""What a cluster of 10 to 1,000 nodes does to a study of each paper: a simulation from measured pieces, with failures.

    python benchmarks/cluster.py              # from the stored pieces (results/cluster.json)
    python benchmarks/cluster.py --measure    # measure the pieces first, and a study on 1, 2 and 3 nodes (minutes)

The simulation follows the executor: one driver gives out runs one after another and receives their folders; a node that
fails loses what it did since the last checkpoint, and is replaced.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from levelfield.table import Table, numbers

STORED = Path(__file__).parent / "results" / "cluster.json"
NODES = (1, 10, 100, 1000)
MOST_OFF = 0.15  # of a measured time, by which the simulation may miss it
HOUR = 3600.0
STUDIES = {
    "zheng2021": "zheng2021/table1",
    "fehervari2019": "fehervari2019/table2",
    "roth2020": "roth2020/table4",
    "lim2022": "lim2022/table4",
    "seidenschwarz2021": "seidenschwarz2021/table1",
}


@dataclass(frozen=True)
class Pieces:
    """Measured seconds and rates.

    start: a node's first process until it can train. task: the driver's work to give out a run and hear of its end.
    around: a run besides its training. notice: until a lost node is noticed. replace: until another one is there.
    checkpoint: between two checkpoints. bandwidth: bytes a second into the driver. speed: operations a second of one
    core, in the training of a ResNet-50.
    """

    start: float
    task: float
    around: float
    notice: float
    replace: float
    checkpoint: float
    bandwidth: float
    speed: float


@dataclass(frozen=True)
class Simulated:
    """seconds: of the whole study. repeated: seconds of work that was lost and done again."""

    seconds: float
    failures: int
    repeated: float
    busy: float
    """Share of the time in which the driver gives out runs or receives folders."""


def simulate(
    runs: Sequence[float], nodes: int, pieces: Pieces, *, bytes_per_run: float = 0.0, mtbf: float = 0.0, seed: int = 0
) -> Simulated:
    """Simulate a study. runs: seconds of each. mtbf: mean seconds between the failures of a node; 0: none fails.

    >>> pieces = Pieces(start=5, task=0, around=0, notice=1, replace=60, checkpoint=20, bandwidth=1e9, speed=1e9)
    >>> [simulate([10.0] * 6, nodes, pieces).seconds for nodes in (1, 2, 3, 6, 12)]
    [65.0, 35.0, 25.0, 15.0, 15.0]
    >>> slow = replace(pieces, task=1.0)  # the driver gives out one run a second, however many nodes there are
    >>> simulate([10.0] * 100, 1000, slow).seconds
    115.0
    >>> found = simulate([100.0] * 8, 4, pieces, mtbf=150, seed=1)
    >>> found.failures > 0 and found.repeated <= found.failures * 20 and found.seconds > 205
    True
    """
    chance = random.Random(seed)
    waiting = deque(runs)  # seconds left of each
    idle: deque[int] = deque()
    working: dict[int, tuple[float, float]] = {}  # by node: begin, and seconds left then
    alive = [0] * nodes  # how often a node was replaced: events of an earlier life do not count
    events: list[tuple[float, int, str, int, int]] = []
    driver = used = repeated = end = 0.0
    failures = done = count = 0

    def add(when: float, kind: str, node: int) -> None:
        nonlocal count
        count += 1
        heapq.heappush(events, (when, count, kind, node, alive[node]))

    def born(node: int, when: float) -> None:
        add(when + pieces.start, "free", node)
        if mtbf:
            add(when + pieces.start + chance.expovariate(1 / mtbf), "fail", node)

    for node in range(min(nodes, len(runs))):
        born(node, 0.0)
    while done < len(runs):
        now, _, kind, node, life = heapq.heappop(events)
        if life != alive[node]:
            continue
        if kind == "fail":
            failures, alive[node] = failures + 1, life + 1
            if node in working:
                began, left = working.pop(node)
                worked = max(0.0, now - began)
                repeated += worked % pieces.checkpoint
                waiting.appendleft(left - worked + worked % pieces.checkpoint)
                if idle:
                    add(now + pieces.notice, "free", idle.popleft())
            else:
                idle = deque(one for one in idle if one != node)
            born(node, now + pieces.replace)
        elif kind == "end":
            done, end = done + 1, max(end, now)
            del working[node]
            spent = bytes_per_run / pieces.bandwidth
            driver, used = max(driver, now) + spent, used + spent
            end = max(end, driver)
            add(driver, "free", node)
        elif waiting:
            driver, used = max(driver, now) + pieces.task, used + pieces.task
            left = waiting.popleft()
            working[node] = driver, left
            add(driver + left, "end", node)
        else:
            idle.append(node)
    return Simulated(end, failures, repeated, used / end)


def study_of(name: str, pieces: Pieces) -> dict[str, Any]:
    """Runs of a paper's table, their core seconds and bytes, counted from the official sizes of the data."""
    from levelfield.studies import read_study
    from levelfield.studies.planning.cost_counted import count, total

    runs, rows = count(read_study(name))
    seconds = [row.operations / row.runs / pieces.speed + pieces.around for row in rows for _ in range(row.runs)]
    return {"runs": len(runs), "seconds": seconds, "bytes": total(rows).bytes / len(runs)}


def papers(pieces: Pieces, *, faster: float, mtbf: float, studies: dict[str, str] = STUDIES) -> list[dict[str, Any]]:
    """A row for each paper and number of nodes. faster: how many times as fast as the measured core a node is."""
    found = []
    for paper, name in studies.items():
        study = study_of(name, pieces)
        seconds = [one / faster for one in study["seconds"]]
        alone = simulate(seconds, 1, pieces, bytes_per_run=study["bytes"]).seconds
        for nodes in NODES:
            made = simulate(seconds, nodes, pieces, bytes_per_run=study["bytes"], mtbf=mtbf)
            found.append(
                {
                    "paper": paper,
                    "study": name,
                    "runs": study["runs"],
                    "node hours": sum(seconds) / HOUR,
                    "gigabytes": study["runs"] * study["bytes"] / 1e9,
                    "nodes": nodes,
                    "hours": made.seconds / HOUR,
                    "times as fast": alone / made.seconds,
                    "failures": made.failures,
                    "repeated": made.repeated / max(1e-9, sum(seconds)),
                    "driver busy": made.busy,
                }
            )
    return found


def predicted(measured: dict[str, Any], pieces: Pieces) -> dict[int, float]:
    """Simulated seconds of the measured study on each number of nodes."""
    runs = [measured["seconds of a run"]] * measured["runs"]
    return {int(nodes): simulate(runs, int(nodes), replace(pieces, start=0.0)).seconds for nodes in measured["times"]}


def show(rows: list[dict[str, Any]]) -> None:
    """Print the table of papers as Markdown."""
    columns = numbers("runs", "node hours", "GB", "nodes", "hours", "times as fast", "failures", "done again")
    lines = []
    for row in rows:
        shown = [row["study"], f"{row['runs']:,}", f"{row['node hours']:,.0f}", f"{row['gigabytes']:,.1f}"]
        shown += [f"{row['nodes']:,}", f"{row['hours']:,.1f}", f"{row['times as fast']:.1f}", f"{row['failures']:,}"]
        shown += [f"{row['repeated']:.2%}", f"{row['driver busy']:.1%}"]
        lines.append(shown)
    print(Table(["study", *columns, *numbers("driver busy")], lines).markdown())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", action="store_true", help="measure the pieces, and a study on 1 to 3 nodes")
    parser.add_argument("--faster", type=float, default=1.0, help="speed of a node, in multiples of the measured core")
    parser.add_argument("--mtbf", type=float, default=24 * 30.0, help="hours between the failures of one node")
    given = parser.parse_args()
    if given.measure:
        from harness.cluster_pieces import measure_pieces

        pieces, measured = measure_pieces()
        STORED.write_text(json.dumps({"pieces": asdict(pieces), "measured": measured}, indent=2) + "\n")
    stored = json.loads(STORED.read_text())
    pieces, measured = Pieces(**stored["pieces"]), stored["measured"]
    print("Measured pieces: " + ", ".join(f"{name} {value:.4g}" for name, value in asdict(pieces).items()))
    worst = 0.0
    for nodes, seconds in predicted(measured, pieces).items():
        seen = measured["times"][str(nodes)]
        worst = max(worst, abs(seconds / seen - 1))
        print(f"{nodes} nodes: measured {seen:.1f} s, simulated {seconds:.1f} s ({seconds / seen - 1:+.1%})")
    print(f"Largest difference {worst:.1%}; at most {MOST_OFF:.0%}: {'ok' if worst <= MOST_OFF else 'MISSED'}\n")
    show(papers(pieces, faster=given.faster, mtbf=given.mtbf * HOUR))


if __name__ == "__main__":
    main()
