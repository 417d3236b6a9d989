"""The memory limit is kept: a file that is larger than the limit is evaluated within it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

SCRIPT = Path(__file__).parent / "memory_of_one_call.py"


def test_a_file_larger_than_the_limit_is_evaluated_within_it(tmp_path: Path) -> None:
    rows = np.lib.format.open_memmap(tmp_path / "rows.npy", mode="w+", dtype=np.float32, shape=(250_000, 128))
    part = np.random.default_rng(0).normal(size=(5_000, 128)).astype(np.float32)
    for begin in range(0, len(rows), len(part)):
        rows[begin : begin + len(part)] = part + begin
    rows.flush()
    command = [sys.executable, str(SCRIPT), str(tmp_path / "rows.npy"), "80MB", "100"]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert found["divided"]
    assert 10 * 10**6 < found["growth"] < 80 * 10**6 < (tmp_path / "rows.npy").stat().st_size
