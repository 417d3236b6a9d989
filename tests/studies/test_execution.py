"""Execution: crashes are isolated, finished work is kept, and several commands share the remaining work."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_world import SMALL, Heard, board_of, carry_out, command, processes, run_one, small_study, wait_for
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from levelfield import compare
from levelfield.embedder.devices import VISIBLE
from levelfield.errors import BadInput
from levelfield.files import writing
from levelfield.studies import Study, read_study, resolve
from levelfield.studies.execution import workers as execution
from levelfield.studies.execution.workers import Outcome, run_all
from levelfield.studies.runs.run import Options
from levelfield.studies.runs.training import Task
from levelfield.training import Pace

LOSSES = '''
import os, time
from pathlib import Path
import torch
from torch import nn

class Fine(nn.Module):
    def forward(self, embeddings, labels):
        return embeddings.square().mean()

class Broken(Fine):
    def forward(self, embeddings, labels):
        if Path(__file__).with_name("broken").exists():
            raise ValueError("the batch [0] is odd")
        return super().forward(embeddings, labels)

class Dies(Fine):
    def forward(self, embeddings, labels):
        os._exit(7)

class Killed(Fine):
    def forward(self, embeddings, labels):
        os.kill(os.getpid(), 9)

class Waits(Fine):
    def forward(self, embeddings, labels):
        begun, go = (Path(__file__).with_name(name) for name in ("begun", "go"))
        begun.touch()
        until = time.monotonic() + 60
        while not go.exists() and time.monotonic() < until:
            time.sleep(0.02)
        return super().forward(embeddings, labels)

class Marks(Fine):
    """Leaves a file named after the GPUs that its process sees."""
    def forward(self, embeddings, labels):
        Path(__file__).with_name(os.environ["CUDA_VISIBLE_DEVICES"]).touch()
        return super().forward(embeddings, labels)

class Meets(Fine):
    """Each run waits in its first step until runs of two commands have begun."""
    def __init__(self):
        super().__init__()
        self.told = False

    def forward(self, embeddings, labels):
        begun = Path(__file__).with_name("begun")
        if not self.told:
            with begun.open("a") as file:
                file.write(f"{os.getppid()}\\n")
            self.told = True
            until = time.monotonic() + 30
            while len(set(begun.read_text().split())) < 2 and time.monotonic() < until:
                time.sleep(0.02)
        return super().forward(embeddings, labels)

class Busy(Fine):
    """Computes without end, and holds on to the interpreter as long as Python lets it."""
    def forward(self, embeddings, labels):
        Path(__file__).with_name("begun").touch()
        rows = torch.rand(300, 300)
        while True:
            rows = (rows @ rows).clamp(0, 1)
'''

FILES = {  # of a finished run: nothing resumes it, so its checkpoint is gone
    "embeddings.npy",
    "items.csv",
    "lock",
    "log.jsonl",
    "method.safetensors",
    "metrics.json",
    "model.safetensors",
    "model.yaml",
    "per_query.npz",
    "run.yaml",
    "training.json",
    "training_spectra.npz",
}


@pytest.fixture
def losses(tmp_path: Path) -> Path:
    path = tmp_path / "losses.py"
    path.write_text(LOSSES)
    return path


def all_of(study: Study, folder: Path, *, jobs: int = 1) -> tuple[Outcome, Heard]:
    heard = Heard()
    outcome = run_all(resolve(study).runs, folder, study.metrics, jobs=jobs, options=Options(), progress=heard)
    return outcome, heard


@pytest.mark.usefixtures("quick_processes")
def test_a_crashing_run_is_reported_stops_no_other_and_is_tried_again(
    photos: Path, losses: Path, tmp_path: Path
) -> None:
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
    _, outcome = carry_out(small_study(photos, [f"{losses}:Broken"]), tmp_path / "out")
    assert not outcome.failed
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


def test_more_seeds_and_methods_do_only_what_is_new(photos: Path, tmp_path: Path) -> None:
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


@pytest.mark.usefixtures("quick_processes")
def test_a_finished_study_starts_no_process(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = small_study(photos, ["contrastive"])
    carry_out(study, tmp_path)
    monkeypatch.setattr(execution, "_work", None)
    outcome, heard = all_of(study, tmp_path, jobs=2)
    assert not outcome.failed
    assert [(event.kind, event.text) for event in heard.events] == [("done", "finished before")]


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
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert [event.step for event in events.Scalars("loss")] == [0, 2, 4]
    assert [event.value for event in events.Scalars("loss")] == pytest.approx([line["loss"] for line in lines])


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


def test_a_place_that_cannot_be_written_is_one_message(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file, no folder")
    with pytest.raises(BadInput, match=r"Cannot write .*study\.yaml: a parent of this path is a file"):
        compare(small_study(photos, ["lda"]), out=tmp_path / "runs")


@pytest.mark.parametrize("what", ["checkpoint", "model.safetensors", "embeddings.npy", "metrics.json", "/"])
def test_a_full_disk_is_one_message_and_loses_nothing(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Files with `what` in their path do not fit; "/" is in all of them, the note of the crash among them."""
    study = small_study(photos, ["contrastive"], steps=2)

    def full(file: int) -> None:
        if what in str(Path(f"/proc/self/fd/{file}").readlink()):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(writing.os, "fsync", full)
        runs, outcome = carry_out(study, tmp_path)
    assert outcome.failed[0].startswith("Cannot write ")
    assert "No space left on device" in outcome.failed[0]
    _, outcome = carry_out(study, tmp_path)
    assert not outcome.failed
    assert {path.name for path in runs[0].folder(tmp_path).iterdir()} == FILES


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


def _hears_ctrl_c() -> None:
    """Tests that run in the background are deaf to Ctrl-C, and so would be the command."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def children(number: int) -> list[str]:
    return Path(f"/proc/{number}/task/{number}/children").read_text().split()


def is_group(number: int) -> bool:
    """Whether a process is left in the group."""
    try:
        os.killpg(number, 0)
    except ProcessLookupError:
        return False
    return True


def study_file(folder: Path, photos: Path, methods: list[Any], **more: Any) -> Path:
    content = {"data": str(photos), "methods": methods, "conditions": SMALL, "metrics": ["recall@1", "map@r"], **more}
    (folder / "shared.yaml").write_text(yaml.safe_dump(content))
    return folder / "shared.yaml"


def test_two_commands_share_the_work_and_end_with_the_same_leaderboard(
    photos: Path, losses: Path, tmp_path: Path
) -> None:
    study = study_file(tmp_path, photos, [f"{losses}:Meets", "lda"], seeds=4)
    logs = [tmp_path / f"log{k}" for k in range(2)]
    words = ["-q", "compare", str(study), "--out", str(tmp_path / "runs")]
    both = [processes().Process(target=command, args=(words, log, tmp_path / "cache")) for log in logs]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    begun = losses.with_name("begun").read_text().split()
    assert len(begun) == 4, "each run is done once"
    assert len(set(begun)) == 2, "by both"
    assert logs[0].read_text() == logs[1].read_text()
    assert "Meets" in logs[0].read_text()


def test_ctrl_c_in_the_midst_of_training_ends_cleanly_and_the_next_command_goes_on(
    photos: Path, losses: Path, tmp_path: Path
) -> None:
    study = study_file(tmp_path, photos, ["start", f"{losses}:Waits"], seeds=1)
    words = ["compare", str(study), "--out", str(tmp_path / "runs")]
    process = processes().Process(target=command, args=(words, tmp_path / "log", tmp_path / "cache"))
    process.start()
    wait_for(losses.with_name("begun").exists)
    assert process.pid is not None
    os.killpg(process.pid, signal.SIGINT)
    process.join()
    assert process.exitcode == 130
    told = (tmp_path / "log").read_text()
    assert "Stopped. Nothing is lost: run the same command again to continue." in told
    assert "Traceback" not in told
    wait_for(lambda: not is_group(process.pid), seconds=5)
    losses.with_name("go").touch()
    heard = Heard()
    runs, outcome = carry_out(read_study(study), tmp_path / "runs" / "shared", progress=heard)
    assert not outcome.failed
    assert [runs[k].label for k in heard.of("start")] == ["Waits"], "what was finished is not done again"


def test_ctrl_c_while_a_worker_still_imports_prints_no_traceback(photos: Path, tmp_path: Path) -> None:
    """A command as it is installed, struck while its worker loads torch."""
    study = study_file(tmp_path, photos, ["lda"], seeds=1)
    process = subprocess.Popen(
        [sys.executable, "-c", "from levelfield.cli import main; main()", "compare", study, "--out", tmp_path / "runs"],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=_hears_ctrl_c,
    )
    wait_for(lambda: any("libtorch" in Path(f"/proc/{child}/maps").read_text() for child in children(process.pid)))
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Stopped." in told
    assert "Traceback" not in told
    wait_for(lambda: not is_group(process.pid), seconds=10)


def test_a_worker_whose_parent_is_gone_ends_and_blames_nobody(photos: Path, tmp_path: Path) -> None:
    study = small_study(photos, ["contrastive"])
    [run, *_] = resolve(study).runs
    ours, theirs = multiprocessing.Pipe()
    options = Options(cache_folder=tmp_path / "cache")
    ours.send((0, Task(run.spec, run.folder(tmp_path), study.metrics, options), True))
    ours.close()
    execution._work(theirs)
    assert not (run.folder(tmp_path) / "error.txt").exists()


def members(session: int) -> list[int]:
    """The processes of a session that still run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, number = stat.read_text().rpartition(")")[2].split()[:4]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(number) == session and state != "Z":
            found.append(int(stat.parent.name))
    return found


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_all_processes_of_a_command_end_with_it(
    photos: Path, losses: Path, tmp_path: Path, how: signal.Signals
) -> None:
    """As installed, in a session of its own; a file `signal.py` in its working directory does not break it."""
    (tmp_path / "signal.py").write_text("raise RuntimeError('not this file')\n")
    conditions = {**SMALL, "steps": 100_000}
    study = study_file(tmp_path, photos, [f"{losses}:Busy", "contrastive"], conditions=conditions, seeds=2)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "levelfield").write_text("from levelfield.cli import main\nmain()\n")
    words = [sys.executable, "bin/levelfield", "compare", study, "--jobs", "2", "--out", "runs"]
    with (tmp_path / "log").open("w") as log:
        command = subprocess.Popen(words, stderr=log, cwd=tmp_path, start_new_session=True)

    def both_train() -> bool:
        assert command.poll() is None, (tmp_path / "log").read_text()
        return (tmp_path / "begun").exists() and any(tmp_path.glob("runs/*/contrastive/*/log.jsonl"))

    try:
        wait_for(both_train)
        assert len(members(command.pid)) >= 3, "the command and two workers"
        command.send_signal(how)
        wait_for(lambda: command.poll() is not None and not members(command.pid), seconds=5)
    finally:
        if members(command.pid):
            os.killpg(command.pid, signal.SIGKILL)
        command.wait()
