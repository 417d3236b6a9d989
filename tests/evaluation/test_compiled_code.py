"""Compiled code is cached where levelfield's own cache is, whatever the working directory contains."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CODE = """
import numpy as np
from levelfield.evaluation.search.blocked_kernels import sum_steps
counts = np.zeros(1, np.int32)
sum_steps(np.array([0, 1]), np.ones(1, np.int64), counts, counts)
"""


def test_a_file_in_the_working_directory_does_not_choose_the_folder_of_compiled_code(tmp_path: Path) -> None:
    (tmp_path / ".numba_config.yaml").write_text("cache_dir: here\ncache_locator_classes: mine.Locator\n")
    (tmp_path / "mine.py").write_text(
        "print('this file ran')\nfrom numba.core.caching import InTreeCacheLocator as Locator"
    )
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment["LEVELFIELD_CACHE"] = str(tmp_path / "cache")
    done = subprocess.run(
        [sys.executable, "-c", CODE], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == ""
    assert list((tmp_path / "cache" / "numba").rglob("*sum_steps*.nbi"))
    assert sorted(path.name for path in tmp_path.iterdir()) == [".numba_config.yaml", "cache", "mine.py"]
