"""A run that was stopped in the midst and started again ends with the same bits: weights, log and counts."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from training_world import Stopped, Told, check_resumed, log_of, make, with_memory

from levelfield.training import Pace, checkpoint
from levelfield.training.checkpoint import CHECKPOINT, Checkpointer
from levelfield.training.log import resume
from levelfield.training.precision import Precision

RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "margin with dropout and BatchNorm": ("margin", {"cut": "last-1", "dropout": 0.2, "batch_norm": "train"}),
    "a resting trunk": ("margin", {"cut": "last-1", "trunk_warmup": 2, "batch_norm": "train"}),
    "mixup of features": ("margin", {"settings": {"mixup": {"alpha": 2}}}),
    "mixup of hidden states": ("normalized_softmax", {"cut": "last-2", "settings": {"mixup": True}}),
    "earlier batches": ("margin", {"settings": {"memory": {"size": 14, "start": 1}}}),
    "earlier batches above the cut": ("contrastive", {"cut": "last-2", "settings": {"memory": 14}}),
}


@pytest.mark.parametrize("stop", [1, 3])
@pytest.mark.parametrize("run", RUNS)
def test_a_stopped_run_ends_with_the_same_bits(tmp_path: Path, run: str, stop: int) -> None:
    name, changes = RUNS[run]
    check_resumed(tmp_path, partial(make, name, **changes), stop)


@pytest.mark.parametrize("stop", [3, 4, 5])
def test_a_validated_run_keeps_its_best_step_and_its_lowered_rate(tmp_path: Path, stop: int) -> None:
    changes = {"cut": "last-1", "select": "map@r", "schedule": "plateau", "plateau_patience": 1, "validate_every": 1}
    check_resumed(tmp_path, partial(make, "margin", **changes), stop, validated=True)


@pytest.mark.parametrize(("refresh", "stop"), [("steps", 4), ("steps", 5), ("steps", 6), ("epoch", 6)])
def test_a_batching_with_a_memory_goes_on_in_its_epoch(tmp_path: Path, refresh: str, stop: int) -> None:
    check_resumed(tmp_path, lambda: with_memory("margin", refresh=refresh)[0], stop, every=1)


def test_a_run_in_fp16_goes_on_with_the_factor_it_had(tmp_path: Path) -> None:
    def overflow_at_first(rows: torch.Tensor, batch: Any) -> torch.Tensor:
        return rows.float().square().mean() * (1e36 if batch.step == 0 else 1.0)

    check_resumed(tmp_path, lambda: make(Told(overflow_at_first), precision="fp16", cut="last-1"), 3, every=1)
    ends = [checkpoint.load(tmp_path / name / CHECKPOINT) for name in ("whole", "again")]
    first = Precision("fp16").state_dict()["scale"]
    assert [end["precision"]["scale"] for end in ends if end is not None] == [first / 2, first / 2]


@pytest.mark.parametrize("place", [3, 40, 60, 0.5, -1], ids=["head", "checksum", "first", "middle", "last"])
def test_a_damaged_checkpoint_is_reported_and_the_run_begins_again(tmp_path: Path, caplog: Any, place: float) -> None:
    def stop(step: int, steps: int) -> None:
        if step == 2:
            raise Stopped

    whole, again = make(steps=4), make(steps=4)
    whole.train(tmp_path / "whole")
    with pytest.raises(Stopped):
        make(steps=4).train(tmp_path / "struck", pace=Pace(save_every_steps=2), after_step=stop)
    file = tmp_path / "struck" / CHECKPOINT
    content = bytearray(file.read_bytes())
    content[int(place * len(content)) if isinstance(place, float) else place] ^= 1
    file.write_bytes(content)
    again.train(tmp_path / "struck")
    assert "checkpoint is damaged" in caplog.text
    assert "starts again from its first step" in caplog.text
    assert all(torch.equal(tensor, again.weights()[name]) for name, tensor in whole.weights().items())


@pytest.mark.parametrize("cut", ["frozen", "last-1", "last-2"])
def test_a_checkpoint_has_only_what_is_above_the_cut_and_brings_it_back(tmp_path: Path, cut: str) -> None:
    run, other = make("margin", cut=cut, steps=2), make("margin", cut=cut, steps=2, seed=1)
    expected = run.train(tmp_path)
    saved = checkpoint.load(tmp_path / CHECKPOINT)
    names, below = set(saved["weights"]["embedder"]), tuple(f"trunk.{p}" for p in run.embedder.trunk.frozen_prefixes)
    assert names == {name for name in run.embedder.state_dict() if not name.startswith(below)}
    assert any(name.startswith("trunk.") for name in names) is (cut != "frozen")
    assert "objective.beta" in saved["weights"]["method"]
    state, _ = Checkpointer(other.embedder, other.method, other.optimisers).resume(tmp_path / CHECKPOINT)
    assert state == expected
    for ours, theirs in ((run.embedder, other.embedder), (run.method, other.method)):
        loaded = theirs.state_dict()
        assert all(torch.equal(value, loaded[name]) for name, value in ours.state_dict().items() if name in names)
    for ours, theirs in zip(run.optimisers, other.optimisers, strict=True):
        first, second = ours.state_dict()["state"], theirs.state_dict()["state"]
        assert first.keys() == second.keys()
        assert all(torch.equal(first[k][name], second[k][name]) for k in first for name in first[k])


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
