"""A Ray of this machine starts while a command imports and checks, and ends while it writes its report."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ray_world import results
from small_world import command, completed, processes, small_study

from levelfield.distributed import local_ray
from levelfield.distributed import ray_connection as connect
from levelfield.errors import BadInput
from levelfield.studies import resolve


class FakeRay(SimpleNamespace):
    """Records what is asked of it, and by which thread."""

    __version__ = "2.60.0"

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__(told=[], threads=set(), error=error)

    def is_initialized(self) -> bool:
        return bool(self.told) and self.told[-1] != "shutdown"

    def init(self, *, num_cpus: int | None = None, **_: object) -> None:
        self.threads.add(threading.current_thread())
        if self.error is not None:
            raise self.error
        self.told.append(num_cpus)

    def remote(self, **_: object) -> Callable[..., SimpleNamespace]:
        return lambda work: SimpleNamespace(remote=work)

    def shutdown(self) -> None:
        self.threads.add(threading.current_thread())
        self.told.append("shutdown")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRay]:
    ray = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", ray)
    yield ray
    local_ray.wait_for_end()


def test_what_was_started_early_is_used_and_ended_by_the_thread_that_started_it(fake: FakeRay) -> None:
    connect.start_early(2, ("math",))
    connect.start_early(2, ("math",))
    with connect.connected("local", cpus=2):
        assert fake.told == [2]
    local_ray.wait_for_end()
    assert fake.told == [2, "shutdown"]
    (thread,) = fake.threads  # Linux ends Ray's processes with the thread that started them
    assert thread is not threading.current_thread()


def test_another_number_of_cores_starts_another_one(fake: FakeRay) -> None:
    connect.start_early(2, ())
    with connect.connected("local", cpus=3):
        assert fake.told == [2, "shutdown", 3]
    with connect.connected("local", cpus=4):  # waits for the end of the one before
        assert fake.told == [2, "shutdown", 3, "shutdown", 4]


def test_one_that_was_not_used_ends_before_a_cluster_is_joined(fake: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "check_address", lambda _: None)
    connect.start_early(2, ())
    with connect.connected("127.0.0.1:6379"):
        assert fake.told == [2, "shutdown", None]
    assert fake.told == [2, "shutdown", None, "shutdown"]


def test_a_ray_in_use_is_used(fake: FakeRay) -> None:
    fake.init(num_cpus=8)
    connect.start_early(2, ())
    with connect.connected("local", cpus=2):
        pass
    assert fake.told == [8]


def test_an_error_of_the_start_is_raised_when_ray_is_used_and_else_forgotten(fake: FakeRay) -> None:
    fake.error = RuntimeError("no room in /dev/shm")
    connect.start_early(2, ())
    with pytest.raises(BadInput, match="no room in /dev/shm"), connect.connected("local", cpus=2):
        pass
    connect.start_early(2, ())
    while local_ray._latest.error is None:  # type: ignore[union-attr]
        time.sleep(0.01)
    fake.error = None
    connect.start_early(2, ())
    with connect.connected("local", cpus=2):
        assert fake.told == [2]


def test_after_an_error_ray_has_ended_before_its_objects_are_freed(fake: FakeRay) -> None:
    with pytest.raises(KeyboardInterrupt), connect.connected("local", cpus=2):
        raise KeyboardInterrupt
    assert fake.told == [2, "shutdown"]


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
