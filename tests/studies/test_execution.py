"""Execution: crashes are isolated, finished work is kept and continued, and any number of jobs gives the same bits."""

from __future__ import annotations

import json
import resource
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from small_world import Heard, board_of, carry_out, completed, log_of, processes, result, run_one, small_study
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from levelfield import compare
from levelfield.embedder.devices import VISIBLE
from levelfield.files.reading import checksum
from levelfield.registry import Registry
from levelfield.studies import Study, resolve
from levelfield.studies.execution import workers as execution
from levelfield.studies.execution.workers import Outcome, run_all
from levelfield.studies.runs.run import Options
from levelfield.training import Pace
from levelfield.training.checkpoint import CHECKPOINT


def all_of(study: Study, folder: Path, *, jobs: int = 1) -> tuple[Outcome, Heard]:
    heard = Heard()
    outcome = run_all(resolve(study).runs, folder, study.metrics, jobs=jobs, options=Options(), progress=heard)
    return outcome, heard


@pytest.mark.usefixtures("quick_processes")
def test_a_crashing_run_is_told_stops_no_other_and_is_tried_again(photos: Path, losses: Path, tmp_path: Path) -> None:
    study = small_study(photos, [f"{losses}:Broken", "lda", f"{losses}:Dies", f"{losses}:Killed", f"{losses}:Fine"])
    losses.with_name("broken").touch()
    outcome, heard = all_of(study, tmp_path / "out", jobs=2)
    runs = resolve(study).runs
    errors = [run.folder(tmp_path / "out") / "error.txt" for run in runs]
    assert outcome.failed.keys() == {0, 2, 3}
    assert outcome.failed[0] == "ValueError: the batch [0] is odd"
    assert outcome.failed[2] == "its process exited with code 7"
    assert "signal 9 (SIGKILL, often due to lack of memory)" in outcome.failed[3]
    assert "Traceback" in errors[0].read_text()
    assert 'raise ValueError("the batch [0] is odd")' in errors[0].read_text()
    assert outcome.failed[2] in errors[2].read_text()
    assert sorted(heard.of("failed")) == [0, 2, 3]
    assert sorted(heard.of("done")) == [1, 4]
    assert board_of(study, runs, tmp_path / "out").missing == [
        "Broken, seed 0: ValueError: the batch [0] is odd",
        "Dies, seed 0: its process exited with code 7",
        f"Killed, seed 0: {outcome.failed[3]}",
    ]
    losses.with_name("broken").unlink()
    completed(small_study(photos, [f"{losses}:Broken"]), tmp_path / "out")
    assert not errors[0].exists()


@pytest.mark.usefixtures("quick_processes")
def test_runs_are_spread_over_the_gpus(
    photos: Path, losses: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "environment_of", lambda slot, device, each: {VISIBLE: f"gpu{slot} of {each}"})
    study = small_study(photos, [f"{losses}:Marks"], overrides=("seeds=2",), steps=1)
    outcome, _ = all_of(study, tmp_path / "out", jobs=2)
    assert not outcome.failed
    assert sorted(path.name for path in tmp_path.glob("gpu*")) == ["gpu0 of 1", "gpu1 of 1"]


@pytest.mark.usefixtures("quick_processes")
def test_more_seeds_and_methods_do_only_what_is_new_and_a_finished_study_starts_no_process(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = small_study(photos, ["lda", "contrastive"], overrides=("seeds=2",))
    more = small_study(photos, ["lda", "margin", "contrastive"], overrides=("seeds=3",))
    heard = Heard()
    carry_out(first, tmp_path, progress=heard)
    assert heard.of("start") == [0, 1, 2]
    heard.events.clear()
    runs, _ = carry_out(more, tmp_path, progress=heard)
    began = {(runs[k].label, runs[k].spec.seed) for k in heard.of("start")}
    assert began == {("margin", 0), ("margin", 1), ("margin", 2), ("contrastive", 2)}
    assert sorted(heard.of("done")) == list(range(len(runs)))
    monkeypatch.setattr(execution, "_work", None)
    outcome, heard = all_of(more, tmp_path, jobs=2)
    assert not outcome.failed
    assert {(event.kind, event.text) for event in heard.events} == {("done", "finished before")}


def test_a_new_metric_or_label_trains_nothing_and_keeps_the_old_figures(photos: Path, tmp_path: Path) -> None:
    study = small_study(photos, ["contrastive"])
    folder = run_one(study, tmp_path)
    before = json.loads((folder / "metrics.json").read_text())
    trained = {name: (folder / name).stat().st_mtime_ns for name in ("model.safetensors", "log.jsonl")}
    heard = Heard()
    other = small_study(photos, ["contrastive"], overrides=("metrics=[nmi]",))
    runs, _ = carry_out(other, tmp_path, progress=heard)
    after = json.loads((folder / "metrics.json").read_text())
    assert {event.text for event in heard.events if event.kind == "progress"} <= {"measuring"}
    assert trained == {name: (folder / name).stat().st_mtime_ns for name in trained}
    assert after["values"].keys() == {"recall@1", "map@r", "nmi"}
    assert {name: after["values"][name] for name in before["values"]} == before["values"]
    assert board_of(study, runs, tmp_path).rows[0].cells["recall@1"].mean == before["values"]["recall@1"]
    renamed, heard = small_study(photos, [{"label": "mine", "contrastive": {}}]), Heard()
    runs, _ = carry_out(renamed, tmp_path, progress=heard)
    assert heard.of("start") == []
    assert [row.label for row in board_of(renamed, runs, tmp_path).rows] == ["mine"]


def test_tensorboard_gets_every_logged_step(photos: Path, tmp_path: Path) -> None:
    options = Options(tensorboard=True, pace=Pace(log_every=2))
    folder = run_one(small_study(photos, ["contrastive"], steps=5), tmp_path, options)
    events = EventAccumulator(str(folder / "tensorboard")).Reload()
    assert [event.step for event in events.Scalars("loss")] == [0, 2, 4]
    losses = [line["loss"] for line in log_of(folder)]
    assert [event.value for event in events.Scalars("loss")] == pytest.approx(losses)


def test_a_folder_made_with_another_specification_is_refused(photos: Path, tmp_path: Path) -> None:
    study = small_study(photos, ["contrastive", "lda"])
    runs, _ = carry_out(study, tmp_path)
    described = runs[0].folder(tmp_path) / "run.yaml"
    described.write_text(described.read_text().replace(runs[0].spec.identity, "another"))
    _, outcome = carry_out(study, tmp_path)
    assert outcome.failed.keys() == {0}
    assert "was made with another specification" in outcome.failed[0]
    assert runs[0].spec.identity in outcome.failed[0]
    assert board_of(study, runs, tmp_path).missing == ["contrastive, seed 0"]


def small_file(size: int, study: Study, folder: Path, told: Path) -> None:
    """A run in a process whose files cannot grow beyond `size`."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    _, outcome = carry_out(study, folder, Options(pace=Pace(save_every_steps=1)))
    told.write_text(outcome.failed[0])


def test_torch_that_cannot_write_its_checkpoint_is_one_message_too(photos: Path, tmp_path: Path) -> None:
    study = small_study(photos, ["contrastive"], cut="last-1")
    process = processes().Process(target=small_file, args=(1_000_000, study, tmp_path / "out", tmp_path / "told"))
    process.start()
    process.join()
    told = (tmp_path / "told").read_text()
    assert told.startswith("Cannot write ")
    assert "checkpoint: File too large" in told


@pytest.mark.usefixtures("quick_processes")
def test_the_number_of_jobs_changes_no_bit(photos: Path, tmp_path: Path) -> None:
    study = small_study(photos, ["margin", "normalized_softmax"], cut="last-1", overrides=("seeds=2",))
    runs = resolve(study).runs
    for jobs in (1, 2):
        options = Options(cache_folder=tmp_path / f"cache{jobs}")
        outcome = run_all(runs, tmp_path / str(jobs), study.metrics, jobs=jobs, options=options)
        assert not outcome.failed
    one, two = ([result(run.folder(tmp_path / jobs)) for run in runs] for jobs in "12")
    assert one == two
    assert one[0]["model.safetensors"] != one[2]["model.safetensors"], "another seed, other weights"


def run_of(photos: Path, folder: Path, steps: int, **conditions: Any) -> Path:
    """A run that keeps its state, so that a longer one can go on from it."""
    how = {"steps": steps, "schedule": "constant", "warmup": 2, "lr": 0.01, **conditions}
    return run_one(small_study(photos, [{"margin": {"beta": 0.7}}], **how), folder, Options(keep_state=True))


def steps_of(folder: Path) -> list[int]:
    return [line["step"] for line in log_of(folder)]


def test_a_longer_run_goes_on_from_a_shorter_one_with_the_same_bits(photos: Path, tmp_path: Path) -> None:
    shorter = run_of(photos, tmp_path / "twice", 22)
    assert (shorter / CHECKPOINT).exists()
    longer, at_once = (run_of(photos, tmp_path / name, 43) for name in ("twice", "once"))
    for name in ("model.safetensors", "embeddings.npy"):
        assert checksum(longer / name) == checksum(at_once / name) != checksum(shorter / name), name
    assert steps_of(longer) == [0, 20, 21, 40, 42]  # 21: the last one of the shorter run
    assert steps_of(at_once) == [0, 20, 40, 42]


def test_a_run_whose_rates_follow_from_its_length_starts_anew(photos: Path, tmp_path: Path) -> None:
    assert not (run_of(photos, tmp_path, 4, schedule="cosine") / CHECKPOINT).exists()
    assert steps_of(run_of(photos, tmp_path, 8, schedule="cosine")) == [0, 7]


def test_a_share_of_the_start_weights_is_mixed_in_without_another_step(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = load_file(run_of(photos, tmp_path, 4, cut="last-1") / "model.safetensors")
    monkeypatch.setattr("levelfield.training.recorder.Recorder.keep_loss", None)  # of every step
    runs = [run_of(photos, tmp_path, 4, cut="last-1", start_share=share) for share in (0.25, 0.5)]
    mixed = [load_file(run / "model.safetensors") for run in runs]
    for name, weights in trained.items():
        quarter, half = (other[name] - weights for other in mixed)
        torch.testing.assert_close(half, 2 * quarter, rtol=1e-3, atol=1e-6)
    assert any(not torch.equal(mixed[0][name], weights) for name, weights in trained.items())


def test_other_conditions_do_not_go_on_from_there(photos: Path, tmp_path: Path) -> None:
    run_of(photos, tmp_path, 4)
    assert steps_of(run_of(photos, tmp_path, 8, lr=0.02)) == [0, 7]


@pytest.mark.usefixtures("quick_processes")
def test_a_loss_is_loaded_once_in_each_process_of_a_study_with_three_seeds(
    photos: Path, losses: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("levelfield.studies.execution.study.run_all", run_all)  # tests of commands stay in one process
    study = small_study(photos, [f"{losses}:Fine"], overrides=("seeds=3",))
    compare(study, out=tmp_path / "runs", jobs=1, page=False)
    executions = Counter(losses.with_name("executions").read_text().split())
    assert set(executions.values()) == {1}
    assert len(executions) == 2, "the process that plans, and the worker"


def test_one_run_makes_fewer_than_100_calls_of_registries(photos: Path, tmp_path: Path) -> None:
    carry_out(small_study(photos, ["triplet"]), tmp_path / "first")  # imports
    lookups, calls = {value.__code__ for value in vars(Registry).values() if hasattr(value, "__code__")}, []

    def count(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code in lookups:
            calls.append(frame.f_code.co_name)

    sys.setprofile(count)
    try:
        carry_out(small_study(photos, ["contrastive"]), tmp_path / "second")
    finally:
        sys.setprofile(None)
    assert 0 < len(calls) < 100
