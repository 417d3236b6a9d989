"""Corruptions shared between processes: the same scores, and a crashed process loses nothing."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
from pathlib import Path

import pytest
from small_world import carry_out, small_study

from levelfield.distributed import processes
from levelfield.progress import SILENT, CallbackProgress
from levelfield.studies.execution.corrupted_runs import record_all
from levelfield.studies.runs import corrupted_scores as corrupted
from levelfield.studies.runs.corrupted_scores import record, recorded

NAMES, METRICS = ["jpeg", "cutout", "rotation"], ["recall@1"]


@pytest.fixture(scope="module")
def trained(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    place = tmp_path_factory.mktemp("runs")
    runs, outcome = carry_out(small_study(photos, ["margin", "contrastive"]), place)
    assert not outcome.failed
    return [run.folder(place) for run in runs]


@pytest.fixture
def runs(trained: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Runs of one's own; processes that are forks of this one, which has imported everything."""
    fork = multiprocessing.get_context("fork")
    monkeypatch.setattr(processes, "context", lambda: fork)
    bare = shutil.ignore_patterns("corrupted")
    return [shutil.copytree(folder, tmp_path / str(place), ignore=bare) for place, folder in enumerate(trained)]


def test_two_processes_measure_what_one_does(runs: list[Path], trained: list[Path]) -> None:
    heard: list[tuple[Path, str, int, int]] = []
    progress = {run: CallbackProgress(lambda *stage, run=run: heard.append((run, *stage))) for run in runs}
    assert record_all(runs, NAMES, METRICS, jobs=2, progress=progress) == {}
    assert record(trained, NAMES, METRICS) == {}
    for own, other in zip(runs, trained, strict=True):
        for name in NAMES:
            assert recorded(own, name) == recorded(other, name) != {}
            first, second = (folder / "corrupted" / f"{name}.npy" for folder in (own, other))
            assert first.read_bytes() == second.read_bytes()
    assert {text for _, text, _, _ in heard} == {"corrupted", *(f"corrupted: {name}" for name in NAMES)}
    assert {folder for folder, *_ in heard} == set(runs)


def test_what_is_there_starts_no_process(runs: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    assert record(runs, NAMES[:2], METRICS) == {}
    monkeypatch.setattr(processes, "start", lambda *_: pytest.fail("a process was started"))
    assert record_all(runs, NAMES[:2], METRICS, jobs=2, progress=dict.fromkeys(runs, SILENT)) == {}


def test_a_run_that_cannot_be_asked_stops_no_other(runs: list[Path], tmp_path: Path) -> None:
    failed = record_all([tmp_path / "nowhere", *runs], NAMES, METRICS, jobs=2, progress=dict.fromkeys(runs, SILENT))
    assert list(failed) == [tmp_path / "nowhere"]
    assert all(recorded(folder, name) for folder in runs for name in NAMES)


@pytest.mark.parametrize("jobs", [0, 2])
def test_what_stops_all_runs_is_told_of_each_that_is_not_measured(
    jobs: int, runs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    record(runs[:1], NAMES, METRICS)
    gone = Path("gone.png")
    monkeypatch.setattr(corrupted, "_tested", lambda folder: (gone,))
    failed = record_all(runs, NAMES, METRICS, jobs=jobs, progress=dict.fromkeys(runs, SILENT))
    assert list(failed) == runs[1:]
    assert "gone.png" in failed[runs[1]]


def test_a_process_that_dies_is_told_and_the_rest_is_measured(
    runs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, keep = os.getpid(), corrupted._keep

    def strike(folder, corruption, rows):  # type: ignore[no-untyped-def]
        if corruption.name == "cutout" and os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        keep(folder, corruption, rows)

    with monkeypatch.context() as patch:
        patch.setattr(corrupted, "_keep", strike)
        failed = record_all(runs, NAMES, METRICS, jobs=2, progress=dict.fromkeys(runs, SILENT))
    assert set(failed) == set(runs)
    assert all("signal 9" in reason for reason in failed.values())
    assert all(recorded(folder, "jpeg") and recorded(folder, "rotation") for folder in runs)
    assert not any(recorded(folder, "cutout") for folder in runs)
    assert record_all(runs, NAMES, METRICS, jobs=2, progress=dict.fromkeys(runs, SILENT)) == {}
