"""CPU seconds of the first evaluation in a process: before and after its compiled loops are cached on disk."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

CODE = """
import time
import numpy as np
from levelfield.evaluation import evaluate
rows, labels = np.random.default_rng(0).normal(size=(200, 16)).astype(np.float32), np.arange(200) % 20
before = time.process_time()
evaluate(rows, labels)
print(time.process_time() - before)
"""


def measured() -> tuple[float, float]:
    """(compiling, loading from the cache)."""
    with tempfile.TemporaryDirectory() as folder:
        first, later = (_seconds(folder) for _ in range(2))
    return first, later


def _seconds(folder: str) -> float:
    finished = subprocess.run(
        [sys.executable, "-c", CODE],
        env={**os.environ, "NUMBA_CACHE_DIR": folder},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(finished.stdout)
