"""Commands that share a study, end cleanly and with all their processes, and continue each other's work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_world import SMALL, Heard, command, completed, processes, wait_for

from levelfield.studies import read_study


def _hears_ctrl_c() -> None:
    """Tests that run in the background are deaf to Ctrl-C, and so would be the command."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


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


def imports_torch(number: int) -> bool:
    try:
        return "libtorch" in Path(f"/proc/{number}/maps").read_text()
    except OSError:
        return False


def study_file(folder: Path, photos: Path, methods: list[Any], **more: Any) -> Path:
    content = {"data": str(photos), "methods": methods, "conditions": SMALL, "metrics": ["recall@1", "map@r"], **more}
    (folder / "shared.yaml").write_text(yaml.safe_dump(content))
    return folder / "shared.yaml"


def test_two_commands_share_the_work_and_end_with_one_leaderboard(photos: Path, losses: Path, tmp_path: Path) -> None:
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
    os.killpg(process.pid, signal.SIGINT)
    process.join()
    assert process.exitcode == 130
    told = (tmp_path / "log").read_text()
    assert "Stopped. Nothing is lost: run the same command again to continue." in told
    assert "Traceback" not in told
    wait_for(lambda: not members(process.pid), seconds=5)
    losses.with_name("go").touch()
    heard = Heard()
    runs = completed(read_study(study), tmp_path / "runs" / "shared", progress=heard)
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
    wait_for(lambda: any(imports_torch(number) for number in members(process.pid) if number != process.pid))
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Stopped." in told
    assert "Traceback" not in told
    wait_for(lambda: not members(process.pid), seconds=10)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_all_processes_end_with_their_command(photos: Path, losses: Path, tmp_path: Path, how: signal.Signals) -> None:
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
