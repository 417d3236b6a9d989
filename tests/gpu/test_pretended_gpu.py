"""Run the cases of this folder in a process of their own, with a pretended CUDA device (`pretended_gpu`)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def test_everything_runs_on_a_pretended_gpu(tmp_path: Path) -> None:
    helpers = [str(HERE), str(HERE.parent / "studies")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*helpers, os.environ.get("PYTHONPATH", "")])}
    environment = {name: value for name, value in environment.items() if not name.startswith(("PYTEST_", "COV_"))}
    plugins = ["-p", "pretended_gpu", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:cov"]
    cases = sorted(str(path) for path in HERE.glob("cases_*.py"))
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", *plugins, f"--basetemp={tmp_path / 'cases'}", *cases]
    done = subprocess.run(command, env=environment, cwd=HERE.parents[1], capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
