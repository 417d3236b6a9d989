"""`levelfield ensemble`: finished runs joined into one usable model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cli_room import Levelfield, make_photos

from levelfield.evaluation import evaluate
from levelfield.reports.ensembles import EnsembleScores


@pytest.fixture
def runs(compared: Path) -> list[Path]:
    """contrastive at seeds 0 and 1, lda, normalized_softmax at seeds 0 and 1."""
    return sorted((compared / "runs" / "small").glob("*/seed*"))


def labels_of(run: Path) -> np.ndarray:
    return np.load(run / "per_query.npz")["labels"]


def test_members_their_mean_and_all_together_are_printed_and_saved(levelfield: Levelfield, runs: list[Path]) -> None:
    printed = levelfield("ensemble", runs[0], runs[3], "--out", "new/both").printed
    rows = [line.split() for line in printed.splitlines()]
    assert ["run", "dim", "recall@1", "map@r"] in rows
    assert any(row[:4] == ["contrastive,", "seed", "0", "8"] for row in rows)
    assert any(row[:2] == ["concatenated", "16"] for row in rows)
    assert "16 test images" in printed
    assert "new/both" in printed
    stored = json.loads(Path("new/both/summary.json").read_text())
    values = [json.loads((run / "metrics.json").read_text())["values"]["map@r"] for run in (runs[0], runs[3])]
    assert [each["metrics"]["map@r"]["value"] for each in stored["members"]] == values
    assert stored["separated"]["metrics"]["map@r"]["value"] == pytest.approx(np.mean(values))
    together = stored["concatenated"]["metrics"]["map@r"]
    assert together["value"] == json.loads(Path("new/both/metrics.json").read_text())["values"]["map@r"]
    assert together["low"] is together["high"] is None
    assert "No intervals: they need at least 5 test classes" in printed  # there are 4


def test_a_metric_that_no_run_has_is_measured_for_all(levelfield: Levelfield, runs: list[Path]) -> None:
    wanted = "recall,mrr,nmi"
    printed = levelfield("ensemble", *runs[:2], "--out", "b", "--metrics", wanted, "--json").printed
    assert printed == Path("b/summary.json").read_text()
    content = json.loads(printed)
    names = ["recall@1", "recall@2", "recall@4", "recall@8", "mrr", "nmi"]
    assert list(content["concatenated"]["metrics"]) == names
    for run, each in zip(runs, content["members"], strict=False):
        alone = evaluate(np.load(run / "embeddings.npy"), labels_of(run), metrics=names)
        assert {name: each["metrics"][name]["value"] for name in names} == pytest.approx(dict(alone))
        assert each["metrics"]["nmi"]["low"] is None  # a clustering has no value per query


def test_an_ensemble_is_used_as_any_run(levelfield: Levelfield, runs: list[Path]) -> None:
    levelfield("-q", "ensemble", *runs[:2], "--out", "both")
    stored = np.load("both/embeddings.npy")
    levelfield("-q", "embed", "both", "photos", "--raw", "--out", "e.npy")
    np.testing.assert_array_equal(np.load("e.npy")[-len(stored) :], stored)
    assert "photos/class" in levelfield("search", "both", "--gallery", "photos", "photos/class 00/0.png").printed
    asked = ["--metrics", "recall@1", "--signatures"]
    assert "dim:16|bits:32|norm:unit|ensemble:2" in levelfield("evaluate", "both", *asked).printed
    assert levelfield("threshold", "both", "--choose-on", "training").code == 0
    content = json.loads(levelfield("ensemble", "both", runs[2], "--out", "outer", "--json").printed)
    assert [each["run"] for each in content["members"]] == ["both", "lda, seed 0"]


def test_an_ensemble_is_replaced_only_by_force_and_nothing_else_ever(levelfield: Levelfield, runs: list[Path]) -> None:
    levelfield("-q", "ensemble", *runs[:2], "--out", "both")
    assert "already holds an ensemble" in levelfield("ensemble", *runs[1:3], "--out", "both").error
    assert levelfield("ensemble", *runs[1:4], "--out", "both", "--force").code == 0
    assert np.load("both/embeddings.npy").shape == (16, 24)
    assert sorted(path.name for path in Path("both/members").iterdir()) == ["0", "1", "2"]
    assert "is not an ensemble" in levelfield("ensemble", *runs[:2], "--out", "photos", "--force").error
    assert "is not an ensemble" in levelfield("ensemble", *runs[:2], "--out", runs[2], "--force").error
    assert "one of the runs to join" in levelfield("ensemble", "both", runs[0], "--out", "both", "--force").error
    assert Path("both/model.yaml").exists()


def test_figures_are_saved_before_they_are_printed_and_a_cut_off_command_goes_on(
    levelfield: Levelfield, runs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: object, **kwargs: object) -> None:
        assert Path("both/summary.json").exists()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(EnsembleScores, "show", interrupted)
        assert levelfield("ensemble", *runs[:2], "--out", "both").code == 130
    Path("both/metrics.json").unlink()  # as if it had ended earlier
    assert levelfield("ensemble", *runs[:2], "--out", "both").code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["RUN"], "needs two runs or more"),
        (["RUN", "RUN"], "are the same run"),
        (["RUN", "photos"], "photos is not a finished run"),
        (["RUN", "OTHER", "--metrics", "recal@1"], "Did you mean 'recall@1'?"),
    ],
)
def test_what_cannot_be_joined_is_refused_and_leaves_nothing(
    levelfield: Levelfield, runs: list[Path], words: list[str], message: str
) -> None:
    named = [{"RUN": runs[0], "OTHER": runs[1]}.get(word, word) for word in words]
    assert message in levelfield("ensemble", *named, "--out", "x").error
    assert not Path("x").exists()


def test_runs_on_other_images_say_what_differs(levelfield: Levelfield, runs: list[Path]) -> None:
    make_photos(Path("more"), classes=6)
    levelfield("compare", "small.yaml", "methods=[lda]", "--out", "others", "data=more")
    other = next(Path("others").rglob("seed0-*"))
    assert "have different test images" in levelfield("ensemble", runs[0], other, "--out", "x").error


def test_refined_members_are_named(levelfield: Levelfield, compared: Path) -> None:
    words = ["seeds=1", "methods=[lda, {message_passing: {refine: {by: reciprocal, k: 3, size: 3}}}]"]
    assert levelfield("-q", "compare", "small.yaml", *words, "--out", "new").code == 0
    result = [next(Path("new/small", name).glob("seed0-*")) for name in ("lda", "message_passing")]
    printed = levelfield("ensemble", *result, "--out", "both").printed
    assert "DEVIATION, refined: message_passing, seed 0 (reciprocal k=3 size=3)." in printed
    stored = json.loads(Path("both/summary.json").read_text())["members"]
    assert [each["refined"] for each in stored] == ["none", "reciprocal k=3 size=3"]
