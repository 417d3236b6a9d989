"""Runs that differ only in what is done at test time: one of them trains, the others use its network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_world import board_of, carry_out, completed, small_study

from levelfield.studies.planning.cost_counted import count
from levelfield.studies.planning.cost_measured import OVERHEAD, estimate
from levelfield.studies.planning.plan import plan, with_needed
from levelfield.studies.runs import training
from levelfield.studies.runs.finished import how_refined, stored_test
from levelfield.studies.runs.run import Options
from levelfield.studies.specification.yaml_file import read_study

REFINED: list[Any] = [
    {"label": "nearest", "message_passing": {"heads": 2, "refine": {"by": "nearest", "size": 3}}},
    {"label": "plain", "message_passing": {"heads": 2}},
    {"label": "reciprocal", "message_passing": {"heads": 2, "refine": {"by": "reciprocal", "k": 4, "size": 6}}},
    {"label": "other heads", "message_passing": {"heads": 4}},
]


def trainers(methods: list[Any], *overrides: str) -> dict[str, str]:
    """Who trains the network of each label, if not its own run."""
    runs = plan(small_study("emoji", methods, overrides=overrides))
    labels = {run.spec.folder_name: run.label for run in runs}
    return {run.label: labels[run.spec.weights_from.name] for run in runs if run.spec.weights_from is not None}


def test_the_first_of_the_same_network_trains_it() -> None:
    assert trainers(REFINED) == {"plain": "nearest", "reciprocal": "nearest"}
    assert trainers(REFINED[1:]) == {"reciprocal": "plain"}
    runs = plan(small_study("emoji", REFINED))
    assert [run.label for run in with_needed(runs, runs[2])] == ["nearest", "reciprocal"]


def test_refined_validation_classes_choose_weights_of_their_own() -> None:
    assert not trainers(REFINED, "protocol.validation=0.2", "conditions.select=map@r")


def test_a_used_network_gives_the_bits_of_one_trained_again(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Embeddings, scores, cost and deviations; the network is trained once for three rows."""
    alone: dict[str, Any] = {}
    for method in REFINED:
        study = small_study(photos, [method])
        runs, _ = carry_out(study, tmp_path / "alone" / method["label"])
        folder = runs[0].folder(tmp_path / "alone" / method["label"])
        [row] = board_of(study, runs, tmp_path / "alone" / method["label"]).rows
        alone[method["label"]] = stored_test(folder)[0], row, how_refined(folder)

    trained = []
    monkeypatch.setattr(training, "train", lambda *a, _train=training.train, **k: trained.append(a) or _train(*a, **k))
    study = small_study(photos, REFINED)
    runs = completed(study, tmp_path / "together")
    assert len(trained) == 2
    rows = {row.label: row for row in board_of(study, runs, tmp_path / "together").rows}
    for run in runs:
        folder = run.folder(tmp_path / "together")
        embeddings, row, refined = alone[run.label]
        np.testing.assert_array_equal(stored_test(folder)[0], embeddings)
        assert how_refined(folder) == refined
        assert rows[run.label].deviations == row.deviations
        assert {name: cell.mean for name, cell in rows[run.label].cells.items()} == {
            name: cell.mean for name, cell in row.cells.items()
        }
        assert (folder / "log.jsonl").is_file()


def test_a_plan_bills_one_training() -> None:
    rows = {row.label: row for row in count(read_study("seidenschwarz2021/table7"))[1]}
    refined = [label for label, row in rows.items() if any("refined" in text for text in row.deviations)]
    assert len(refined) == 8
    assert all(rows[label].images == 0 for label in refined)
    assert rows["backbone only"].images == 8610 * 54


def test_an_estimate_times_one_training(photos: Path) -> None:
    study = small_study(photos, REFINED, overrides=("conditions.steps=100000",))
    seconds = {row.label: row.seconds for row in estimate(plan(study), options=Options(), jobs=1).rows}
    assert min(seconds["nearest"], seconds["other heads"]) > 10 * OVERHEAD > seconds["plain"]
