"""The log: truncated on resume, without incomplete lines."""

from __future__ import annotations

import json

import pytest
from training_world import log_of

from levelfield.training.log import resume


def written(path, steps, *, tail=""):
    path.write_text("".join(json.dumps({"step": s, "loss": s / 7}) + "\n" for s in steps) + tail, encoding="utf-8")


@pytest.mark.parametrize(("resumed", "kept"), [(0, []), (1, [0]), (25, [0, 10, 20]), (20, [0, 10]), (99, [0, 10, 20])])
def test_resume_forgets_what_was_written_at_or_after_the_step(tmp_path, resumed, kept):
    written(tmp_path / "log.jsonl", [0, 10, 20])
    resume(tmp_path / "log.jsonl", resumed).close()
    assert [entry["step"] for entry in log_of(tmp_path)] == kept


@pytest.mark.parametrize(
    "half", ['{"step": 3, "lo', '{"step": 3', "{", '{"loss": 1.0}\n', "7\n", '"step"\n', "\x00\x00", "[]"]
)
def test_a_line_cut_off_by_a_crash_is_dropped_and_the_next_stands_alone(tmp_path, half):
    written(tmp_path / "log.jsonl", [0, 1], tail=half)
    log = resume(tmp_path / "log.jsonl", 5)
    log.write(json.dumps({"step": 5}) + "\n")
    log.close()
    assert [entry["step"] for entry in log_of(tmp_path)] == [0, 1, 5]
