"""Run in a fresh process: `python memory_of_a_call.py FILE LIMIT QUERIES` prints by how many bytes it grew."""

from __future__ import annotations

import ctypes
import gc
import json
import sys
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch

from levelfield.evaluation import evaluate
from levelfield.evaluation.search.ranking import InMemory

METRICS = ["recall@1", "map@r", "map"]


def kilobytes(key: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key))


def main(path: str, limit: str, queries: int) -> None:
    torch.set_num_threads(1)
    rows = np.load(path, mmap_mode="r")
    labels = np.arange(len(rows)) * 7919 % (len(rows) // 10)
    with patch.object(InMemory, "fits", return_value=False):
        evaluate(rows[:2000], labels[:2000], metrics=METRICS, ci=0.95)  # compiled loops, the libraries' own buffers
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)  # freed but retained memory would hide the call's usage
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak to the current size
    before = kilobytes("VmRSS")
    found = evaluate(rows, labels, metrics=METRICS, memory=limit, sample=queries, ci=0.95)
    growth = 1024 * (kilobytes("VmHWM") - before)
    print(json.dumps({"growth": growth, "divided": found.divided is not None}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
