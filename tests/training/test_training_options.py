"""Mixup, the switch and a cross-batch memory in the loop: effect, log, ledger and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from training_world import SMALL, execute_run, log_of, make

from levelfield.errors import BadInput, BadSpecification
from levelfield.studies import parse_study, resolve


def trained(folder: Path, name: str, **settings: Any) -> tuple[torch.Tensor, list[dict[str, Any]]]:
    """The weights of the head after a run, and its log."""
    run = make(name, settings=settings)
    run.train(folder)
    return run.embedder.head.linear.weight, log_of(folder)


def test_mixup_trains_otherwise_than_the_plain_method(tmp_path: Path) -> None:
    plain, _ = trained(tmp_path / "plain", "triplet")
    mixed, log = trained(tmp_path / "mixed", "triplet", mixup=True)
    assert not torch.equal(plain, mixed)
    assert {"own", "partners"} in [set(entry["terms"]) for entry in log if "terms" in entry]
    assert "active_own" in log[0]


def test_a_memory_trains_otherwise_than_the_plain_method(tmp_path: Path) -> None:
    plain, without = trained(tmp_path / "plain", "contrastive", miner="all")
    other, remembering = trained(tmp_path / "remembering", "contrastive", miner="all", memory=12)
    assert not torch.equal(plain, other)
    assert without[0]["active"] == remembering[0]["active"]  # nothing is older than the first batch
    assert without[1]["active"] < remembering[1]["active"]


def test_the_log_says_how_many_tuples_were_switched(tmp_path: Path) -> None:
    _, switched = trained(tmp_path / "switched", "triplet", miner="random", switch=1.0)
    _, plain = trained(tmp_path / "plain", "triplet", miner="random")
    assert [entry["switched"] for entry in switched] == [1.0] * 6
    assert not any("switched" in entry for entry in plain)


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("triplet", {"mixup": False, "memory": False}, []),
        ("triplet", {"mixup": True}, ["hidden states changed (kept)"]),
        ("contrastive", {"memory": 12}, [f"learned buffers {12 * 8 + 12 + 2}"]),
    ],
)
def test_the_ledger_lists_an_option(
    training_photos: Path,
    training_cache: Path,
    tmp_path: Path,
    name: str,
    settings: dict[str, Any],
    expected: list[str],
) -> None:
    result = execute_run(training_photos, tmp_path, name, settings=settings, store=training_cache, steps=2)
    assert [entry["text"] for entry in result["deviations"]] == expected


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("proxy_anchor", {"memory": 12}, "cannot be combined with 'proxy_anchor'"),
        ("contrastive", {"memory": {"sise": 12}}, "Did you mean 'size'"),
        ("contrastive", {"memory": "large"}, "size"),
        ("contrastive", {"memory": 12, "mixup": True}, "cannot be combined"),
    ],
)
def test_an_option_that_does_not_fit_is_refused(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSpecification, match=message):
        make(name, settings=settings)


def test_mixup_of_a_batch_in_parts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSpecification, match="accumulate"):
        make("normalized_softmax", settings={"mixup": True}, accumulate=2).train(tmp_path)


def test_a_memory_smaller_than_the_batch_is_refused_before_anything_runs(training_photos: Path) -> None:
    study = {"data": str(training_photos), "conditions": {**SMALL, "batch": "2x2"}, "seeds": 1}
    with pytest.raises(BadInput, match="Method 'contrastive': A memory of 3 rows got a batch of 4"):
        resolve(parse_study({**study, "methods": [{"contrastive": {"memory": 3}}]}))
