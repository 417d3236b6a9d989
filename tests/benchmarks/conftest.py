"""Run the scripts of benchmarks/ in this process: a new process would first import torch for seconds."""

from __future__ import annotations

import contextlib
import io
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

FOLDER = Path(__file__).parents[2] / "benchmarks"
sys.path.append(str(FOLDER))  # tests import what the scripts share


@pytest.fixture(scope="session")
def script() -> Callable[..., str]:
    """`script("methods", "--quick")`: what `python benchmarks/methods.py --quick` prints."""

    def run(name: str, *words: str, columns: int = 160, **environment: str) -> str:
        threads, printed = torch.get_num_threads(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
            patch.syspath_prepend(str(FOLDER))
            for key, value in {"COLUMNS": str(columns), **environment}.items():
                patch.setenv(key, value)
            # how many threads a process starts with was settled when it began, and how it keeps memory is for all tests
            patch.setitem(sys.modules, "harness.one_thread", ModuleType("one_thread"))
            patch.setattr("harness.interleaved.keep_freed_memory", lambda: None)
            patch.setattr(sys, "argv", [f"{name}.py", *words])
            runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
        torch.set_num_threads(threads)
        return printed.getvalue()

    return run
