"""Whole commands inside the process of a test: no workers, and each network made once."""

from __future__ import annotations

import functools
import gc
import importlib
import importlib.util
import inspect
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from levelfield.embedder.trunk import backbones
from levelfield.studies.execution.workers import Outcome, run_all


def in_this_process(*arguments: Any, jobs: int, **settings: Any) -> Outcome:
    """As `run_all`, without workers: each would import torch again for every command."""
    return run_all(*arguments, jobs=0, **settings)


def stay_in_this_process(patch: pytest.MonkeyPatch) -> None:
    """Let commands train here, without a page."""
    pages_only_if_asked(patch)
    patch.setattr("levelfield.studies.execution.study.run_all", in_this_process)
    patch.setattr("levelfield.tuning.search.run_all", in_this_process)
    patch.setattr("levelfield.distributed.processes.warm_up", lambda: None)  # nothing is started
    patch.setattr("levelfield.cli.running.get_ready", lambda *_, **__: None)
    patch.setattr("levelfield.cli.running.executor_on", lambda *_, **__: nullcontext())  # nor with --ray
    make_networks_once(patch)


def tool(name: str) -> ModuleType:
    """The module of a file in tools/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[1] / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pages_only_if_asked(patch: pytest.MonkeyPatch) -> None:
    """A study writes its page only with `--page`: that takes half a second, and tests/reports/page tests it."""
    module = importlib.import_module("levelfield.reports.finish")
    write = module._with_page

    @functools.wraps(write)
    def if_asked(report: Any, *where: Any, again: bool, **settings: Any) -> Any:
        return write(report, *where, again=again, **settings) if again else report

    patch.setattr(module, "_with_page", if_asked)


def pages_as_for_users(patch: pytest.MonkeyPatch) -> None:
    """Every study writes its page, whatever other tests in this process have asked for."""
    module = importlib.import_module("levelfield.reports.finish")
    patch.setattr(module, "_with_page", inspect.unwrap(module._with_page))


def make_networks_once(patch: pytest.MonkeyPatch) -> None:
    """A trunk copies the network it is given."""
    patch.setattr(backbones, "create", _once(backbones.create))


def _once(create: Callable[..., Any]) -> Callable[..., Any]:
    """Backbones that need no file of the user are made once."""
    kept = functools.lru_cache(create)

    def made(name: str, *, weights: Any = None) -> Any:
        needs_file = weights not in (None, "random") or ".py:" in name
        return (create if needs_file else kept)(name, weights=weights)

    return made


def without_garbage() -> None:
    """Every training begins with a search for garbage, and what was imported until now is none."""
    gc.collect()
    gc.freeze()
