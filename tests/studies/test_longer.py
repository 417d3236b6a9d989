"""A longer run goes on from a shorter one that kept its state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import levelfield
from levelfield.files.reading import checksum
from levelfield.studies.runs.run import Options
from levelfield.training.checkpoint import CHECKPOINT

WEIGHTS = ("model.safetensors", "embeddings.npy")


def _run(out: Path, steps: int, **conditions: Any) -> Path:
    common = {"image": 64, "dim": 8, "batch": "8x4", "schedule": "constant", "warmup": 2, "lr": 0.01}
    study = {
        "data": "emoji",
        "conditions": {**common, "steps": steps, **conditions},
        "methods": [{"margin": {"beta": 0.7}}],
        "seeds": 1,
        "metrics": ["map@r"],
    }
    report = levelfield.compare(study, out=out, options=Options(keep_state=True), page=False)
    return Path(report.best.first_run)


def _steps(run: Path) -> list[int]:
    return [json.loads(line)["step"] for line in (run / "log.jsonl").read_text().splitlines()]


def test_a_longer_run_goes_on_from_a_shorter_one_with_the_same_bits(tmp_path: Path) -> None:
    shorter = _run(tmp_path / "twice", 22)
    assert (shorter / CHECKPOINT).exists()
    longer, at_once = _run(tmp_path / "twice", 43), _run(tmp_path / "once", 43)
    for name in WEIGHTS:
        assert checksum(longer / name) == checksum(at_once / name) != checksum(shorter / name), name
    assert _steps(longer) == [0, 20, 21, 40, 42]  # 21: the last one of the shorter run
    assert _steps(at_once) == [0, 20, 40, 42]


def test_a_run_whose_rates_follow_from_its_length_starts_anew(tmp_path: Path) -> None:
    shorter = _run(tmp_path, 4, schedule="cosine")
    assert not (shorter / CHECKPOINT).exists()
    assert _steps(_run(tmp_path, 8, schedule="cosine")) == [0, 7]


def test_other_conditions_do_not_go_on_from_there(tmp_path: Path) -> None:
    _run(tmp_path, 4)
    assert _steps(_run(tmp_path, 8, lr=0.02)) == [0, 7]
