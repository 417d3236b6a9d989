"""A Ray of this machine starts and ends with what uses it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ray_world import results
from small_world import carry_out, command, processes, small_study

from levelfield.distributed import ray_connection as connect
from levelfield.errors import BadInput
from levelfield.studies import resolve


def test_an_error_of_the_start_is_explained_and_what_has_started_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def init(*, num_cpus: int | None = None, **_: object) -> None:
        if num_cpus == 1:
            raise RuntimeError("no room in /dev/shm")
        done.append(f"{num_cpus} cores")

    ray = SimpleNamespace(
        __version__="2.60.0", is_initialized=lambda: False, init=init, shutdown=lambda: done.append("shutdown")
    )
    monkeypatch.setitem(sys.modules, "ray", ray)
    with pytest.raises(BadInput, match="no room in /dev/shm"), connect.connected("local", cpus=1):
        pass
    with pytest.raises(KeyboardInterrupt), connect.connected("local", cpus=2):
        raise KeyboardInterrupt
    assert done == ["2 cores", "shutdown"]
    ray.is_initialized = lambda: True
    with connect.connected("local", cpus=2):
        pass
    assert done == ["2 cores", "shutdown"]  # one in use is used


def test_a_study_on_a_local_ray_has_the_same_bits_and_imports_nothing_from_its_directory(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyarrow.py").write_text("open('imported', 'w').close()")  # which Ray imports
    study = small_study(photos, ["margin"], overrides=("seeds=2",))
    file, log = tmp_path / "small.yaml", tmp_path / "log.txt"
    file.write_text(yaml.safe_dump(study.model_dump(mode="json", exclude_defaults=True) | {"name": "small"}))
    words = ["compare", str(file), "--out", str(tmp_path), "--ray", "--jobs", "2", "--no-page"]
    how: Any = processes()
    driver = how.Process(target=command, args=(words, log, Path(os.environ["LEVELFIELD_CACHE"])))
    driver.start()
    driver.join(200)
    said = log.read_text()
    assert driver.exitcode == 0, said
    assert "Token authentication" not in said
    assert "SIGTERM" not in said
    assert not (tmp_path / "imported").exists()
    runs, outcome = carry_out(study, tmp_path / "here")
    assert not outcome.failed
    small, here = results(resolve(study).runs, tmp_path / "small"), results(runs, tmp_path / "here")
    for one, other in zip(small, here, strict=True):
        assert one | {"log.jsonl": b""} == other | {"log.jsonl": b""}
