"""A Ray of this machine starts where a command uses it, and ends there."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ray_world import results
from small_world import command, completed, processes, small_study

from levelfield.distributed.ray_connection import connected
from levelfield.errors import BadInput
from levelfield.studies import resolve


class FakeRay(SimpleNamespace):
    """Records the calls of it."""

    __version__ = "2.60.0"

    def __init__(self) -> None:
        super().__init__(calls=[], error=None)

    def is_initialized(self) -> bool:
        return bool(self.calls) and self.calls[-1] != "shutdown"

    def init(self, *, address: str, num_cpus: int | None = None, **_: object) -> None:
        if self.error is not None:
            raise self.error
        self.calls.append((address, num_cpus))

    def shutdown(self) -> None:
        self.calls.append("shutdown")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    ray = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", ray)
    return ray


def test_a_local_ray_has_the_cores_of_the_command_and_ends_with_it(fake: FakeRay) -> None:
    with connected("local", cpus=2):
        assert fake.calls == [("local", 2)]
    with pytest.raises(KeyboardInterrupt), connected("local", cpus=3):
        raise KeyboardInterrupt
    assert fake.calls == [("local", 2), "shutdown", ("local", 3), "shutdown"]


def test_a_ray_in_use_is_used(fake: FakeRay) -> None:
    fake.init(address="local", num_cpus=8)
    with connected("local", cpus=2):
        pass
    assert fake.calls == [("local", 8)]


def test_an_error_of_the_start_is_one_message(fake: FakeRay) -> None:
    fake.error = RuntimeError("no room in /dev/shm")
    with pytest.raises(BadInput, match="no room in /dev/shm"), connected("local", cpus=2):
        pass


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
    runs = completed(study, tmp_path / "here")
    small, here = results(resolve(study).runs, tmp_path / "small"), results(runs, tmp_path / "here")
    for one, other in zip(small, here, strict=True):
        assert one | {"log.jsonl": b""} == other | {"log.jsonl": b""}
