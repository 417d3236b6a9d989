"""Evaluation beyond memory: time as predicted from a smaller file, memory below the limit, two processes against one.

- CPU seconds of a search in N rows as predicted from a smaller file (N^2 entries; a sample: queries x N), within 20 %
- growth of memory during the call, below the limit that was given
- CPU seconds of the whole search in blocks against `evaluate` in memory, which computes half of the symmetric matrix
- two processes against one, on one core each: at least 1.7 times as fast

`--rows 1000000`: rows that a sample of the queries is searched in; `--whole 100000`: rows that are all queries.
`--everything`: adds the search of all those rows in all of them to the stored lanes (1,000,000: about an hour).
"""

from __future__ import annotations

from harness import one_thread  # noqa: F401  # isort: skip  (before torch and numpy)

import argparse
import ctypes
import gc
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results" / "big_evaluation.json"
DIM, CLASS_SIZE = 128, 10
METRICS = ["recall@1", "map@r"]
WITHIN, FASTER = 0.2, 1.7  # targets


@dataclass(frozen=True)
class Measured:
    """One call in a process of its own."""

    rows: int
    queries: int
    jobs: int  # processes; 0: this one; -1: this one, without blocks
    limit: int  # bytes
    growth: int  # bytes of memory, of the measuring process
    seconds: float
    cpu: float  # seconds of the measuring process
    divided: bool  # whether the search was in blocks

    @property
    def entries(self) -> int:
        return self.rows * self.queries


def predicted(known: Measured, wanted: Measured) -> float:
    """CPU seconds of a search, from those of a smaller one: they grow with the entries of the similarity matrix.

    >>> small = Measured(1000, 1000, 0, 1, 1, 3.0, 2.0, True)
    >>> predicted(small, Measured(2000, 2000, 0, 1, 1, 0.0, 0.0, True))
    8.0
    """
    return known.cpu * wanted.entries / known.entries


def write_file(path: Path, rows: int) -> None:
    """Rows of classes that overlap, as float16: larger files begin with the same classes."""
    random = np.random.default_rng(0)
    file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=(rows, DIM))
    for begin in range(0, rows, 10_000):
        count = min(10_000, rows - begin)
        centres = random.normal(size=(-(-count // CLASS_SIZE), DIM))
        file[begin : begin + count] = np.repeat(centres, CLASS_SIZE, axis=0)[:count] + 1.5 * random.normal(
            size=(count, DIM)
        )
    file.flush()


def measure_here(path: Path, rows: int, queries: int, limit: int, jobs: int) -> Measured:
    """Time and memory of a call in this process, which should be fresh. Linux only."""
    import torch

    from levelfield.evaluation import Shards, evaluate, in_processes
    from levelfield.evaluation.query_blocks import block_values

    torch.set_num_threads(1)
    file = np.load(path, mmap_mode="r")[:rows]
    labels = np.arange(rows) // CLASS_SIZE
    here = Shards(lambda job, blocks: (block_values(job, block) for block in blocks))
    evaluate(file[:2000], labels[:2000], metrics=METRICS, shards=here)  # compiled loops, the libraries' buffers
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)  # freed but retained memory would hide the call's usage
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak to the current size
    before, began, spent = _kilobytes("VmRSS"), time.perf_counter(), time.process_time()
    given: dict[str, Any] = {} if queries == rows else {"sample": queries}
    shards = in_processes(jobs) if jobs > 0 else None if jobs < 0 else here
    found = evaluate(file, labels, metrics=METRICS, memory=limit, shards=shards, **given)
    seconds, cpu = time.perf_counter() - began, time.process_time() - spent
    growth = 1024 * (_kilobytes("VmHWM") - before)
    return Measured(rows, queries, jobs, limit, growth, seconds, cpu, found.divided is not None)


def _kilobytes(key: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key))


def in_a_fresh_process(path: Path, *numbers: int) -> Measured:
    command = [sys.executable, str(Path(__file__)), "--one", str(path), *map(str, numbers)]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    return Measured(**json.loads(finished.stdout.splitlines()[-1]))


def lanes(rows: int, whole: int, queries: int, limit: int) -> dict[str, Measured]:
    """All measurements; each in a fresh process, on files that are written for them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        write_file(path, max(rows, whole))
        small = whole // 2
        asked = {
            f"all of {small:,}": (small, small, limit, 0),
            f"all of {whole:,}": (whole, whole, limit, 0),
            f"all of {whole:,}, in memory": (whole, whole, 4 * 10**9, -1),
            f"{queries:,} of {whole:,}": (whole, queries, limit, 0),
            f"{queries:,} of {rows:,}": (rows, queries, limit, 0),
            f"{queries:,} of {rows:,}, 1 process": (rows, queries, 10 * limit, 1),
            f"{queries:,} of {rows:,}, 2 processes": (rows, queries, 10 * limit, 2),
        }
        return {name: in_a_fresh_process(path, *numbers) for name, numbers in asked.items()}


def stored() -> dict[str, Measured]:
    """The lanes that were measured last."""
    found = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    return {name: Measured(**each) for name, each in found.items()}


def everything(rows: int, limit: int) -> dict[str, Measured]:
    """One more lane: all rows are queries."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        write_file(path, rows)
        measured = in_a_fresh_process(path, rows, rows, limit, 0)
    return {f"all of {rows:,}": measured}


def table(found: dict[str, Measured]) -> list[str]:
    """One line per lane, and the verdicts."""
    names = list(found)
    small, whole, memory, few, many, one, two, *all_rows = found.values()
    lines = [f"{'queries':34} {'seconds':>9} {'CPU':>9} {'growth':>9} {'limit':>9}"]
    for name, each in found.items():
        sizes = "".join(f" {size / 10**6:6,.0f} MB" for size in (each.growth, each.limit))
        lines.append(f"{name:34} {each.seconds:9.1f} {each.cpu:9.1f}{sizes}")
    pairs = [(names[1], small, whole), (names[4], few, many), *((names[7], whole, each) for each in all_rows)]
    for name, known, wanted in pairs:
        off = wanted.cpu / predicted(known, wanted) - 1
        verdict = "good" if abs(off) <= WITHIN else "NOT PREDICTED"
        lines.append(f"{name}: {off:+.0%} of the prediction from {known.rows:,} rows ({verdict}, target {WITHIN:.0%})")
    for name, each in found.items():
        if each.jobs == 0:
            lines.append(f"{name}: {'memory kept' if each.growth <= each.limit else 'TOO MUCH MEMORY'}")
    lines.append(f"in blocks against in memory: {whole.cpu / memory.cpu:.2f} times the CPU seconds")
    gain = one.seconds / two.seconds
    verdict = "good" if gain >= FASTER else "TOO SLOW, unless other programs used the cores"
    lines.append(f"two processes: {gain:.2f} times as fast as one ({verdict}, target {FASTER})")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--whole", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--limit", type=int, default=0, help="bytes; default: 60 MB and 110 for each row")
    parser.add_argument("--everything", action="store_true", help="only the search of all rows in all rows")
    parser.add_argument("--quick", action="store_true", help="small files, for a test; nothing is stored")
    parser.add_argument("--one", nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        path, rows, queries, limit, jobs = given.one
        print(json.dumps(asdict(measure_here(Path(path), int(rows), int(queries), int(limit), int(jobs)))))
        return
    if given.everything and (given.quick or not stored()):
        parser.error("--everything adds to the stored lanes: measure them first, without --everything and --quick")
    sizes = (40_000, 20_000, 1000) if given.quick else (given.rows, given.whole, given.queries)
    limit = given.limit or 60 * 10**6 + 110 * max(sizes)
    found = everything(given.rows, limit) if given.everything else lanes(*sizes, limit)
    if not given.quick:
        found = stored() | found
    print("\n".join(table(found)))
    if not given.quick:
        RESULTS.parent.mkdir(exist_ok=True)
        content = {name: asdict(each) for name, each in found.items()}
        RESULTS.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
