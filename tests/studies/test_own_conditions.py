"""Conditions of a single method: it trains under them, and the leaderboard lists them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_world import carry_out, completed, small_study

import levelfield
from levelfield.errors import BadSpecification
from levelfield.evaluation import evaluate
from levelfield.progress import SILENT
from levelfield.studies import gather, resolve
from levelfield.studies.planning.cost_measured import estimate
from levelfield.studies.runs.folder.store import read_result, read_spec
from levelfield.studies.runs.inputs import inputs_for
from levelfield.studies.runs.run import Options
from levelfield.studies.runs.setup import set_up
from levelfield.training import Conditions
from levelfield.training.ledger import Measured

BITS = {"label": "bits", "normalized_softmax": {"conditions": {"dim": 64, "codes": "binary", "optimiser": "rmsprop"}}}
LARGE = {
    "label": "large",
    "margin": {
        "conditions": {
            "image": 40,
            "train_view": [{"resize": [44, 44]}, {"crop": 40}],
            "test_view": [{"resize": [40, 40]}],
            "cache": False,
            "views": 0,
        }
    },
}


@pytest.fixture(scope="module")
def done(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """Three methods, two of them with conditions of their own."""
    folder = tmp_path_factory.mktemp("own") / "runs"
    runs = completed(small_study(photos, ["margin", BITS, LARGE]), folder)
    return runs, folder


def folder_of(done: tuple[Any, Path], label: str) -> Path:
    runs, folder = done
    return next(run.folder(folder) for run in runs if run.label == label)


def test_what_differs_is_said(done: tuple[Any, Path], photos: Path, tmp_path: Path) -> None:
    texts = {label: read_result(folder_of(done, label)).deviation_texts for label in ("margin", "bits", "large")}
    assert not any(text.startswith(("dim", "codes", "optimiser ", "image", "test view")) for text in texts["margin"])
    assert texts["bits"][:3] == ["dim 64 (8)", "codes binary (float32)", "optimiser rmsprop (adamw)"]
    study = small_study(photos, ["margin", BITS])
    rows = estimate(resolve(study).runs, options=Options(cache_folder=tmp_path), jobs=1).rows
    assert rows[1].deviations[:3] == texts["bits"][:3], "the plan says the same"
    assert "image 40 (32)" in texts["large"]
    assert "test view resize 40x40" in texts["large"]
    runs, folder = done
    board = gather("small", runs, folder, ("recall@1", "map@r"))
    assert {row.label: row.deviations for row in board.rows} == texts
    assert {row.label: row.cells["recall@1"].representation for row in board.rows}["bits"] == "64 bits"


def test_what_joins_them_is_compared_with_the_common_width(photos: Path, tmp_path: Path) -> None:
    methods = ["margin", BITS, {"label": "both", "ensemble": {"of": ["margin", "bits"]}}]
    study = small_study(photos, methods, overrides=("protocol={name: mlrc, folds: 2}",), steps=1, batch="2x2")
    runs = completed(study, tmp_path)
    texts = {run.label: read_result(run.folder(tmp_path)).deviation_texts for run in runs if run.spec.joined}
    assert "dim 128 (16)" in texts["bits"]
    assert not any(text.startswith(("dim", "trunk passes")) for text in texts["margin"])
    assert {"dim 144 (16)", "members 4 (2)", "trunk passes 4 (2)"} <= set(texts["both"])


def test_it_trains_under_them(done: tuple[Any, Path]) -> None:
    bits, large = folder_of(done, "bits"), folder_of(done, "large")
    assert np.load(bits / "embeddings.npy").shape[1] == 64
    assert levelfield.load(large).view.image == 40
    spec = read_spec(bits)
    assert (spec.conditions.optimiser, spec.common_conditions.optimiser) == ("rmsprop", "adamw")
    assert spec.common_conditions == read_spec(folder_of(done, "margin")).conditions


def test_bits_are_what_is_compared_and_what_the_model_gives(done: tuple[Any, Path], photos: Path) -> None:
    folder = folder_of(done, "bits")
    rows = np.load(folder / "embeddings.npy")
    assert set(np.unique(rows)) == {-1.0, 1.0}
    result = read_result(folder)
    assert result.signatures["recall@1"]["representation"]["bits"] == 1
    model = levelfield.load(folder)
    images = sorted(photos.glob("class0[4-7]/*.png"))
    np.testing.assert_array_equal(model.embed(images, normalize=False), rows)
    _, classes = result.per_query("recall@1")
    hamming = evaluate(rows, classes, metrics=("recall@1",), distance="hamming")["recall@1"]
    assert result.values["recall@1"] == hamming
    assert read_result(folder_of(done, "margin")).signatures["recall@1"]["representation"]["bits"] == 32


def test_identities_overrides_and_variations_know_them(photos: Path) -> None:
    plain, own, other = (
        resolve(small_study(photos, [{"margin": {"conditions": conditions}}])).runs[0].spec
        for conditions in ({}, {"dim": 8}, {"dim": 16})
    )
    assert own.identity == plain.identity != other.identity
    assert own.common == {}
    # another common value: the weights would be the same, and what is beside the figure would not
    first, second = (resolve(small_study(photos, ["margin", BITS], dim=dim)).runs[1].spec for dim in (8, 16))
    assert first.conditions == second.conditions
    assert first.identity != second.identity
    study = small_study(photos, ["margin"], overrides=("methods.margin.conditions.dim=4",))
    assert resolve(study).runs[0].spec.conditions.dim == 4
    varied = small_study(photos, ["margin"], overrides=("vary={methods.margin.conditions.dim: [4, 6]}",))
    assert [run.spec.conditions.dim for run in resolve(varied).runs] == [4, 6]


@pytest.mark.parametrize(
    ("conditions", "said"),
    [
        ({"dmi": 4}, "unknown key 'dmi'. Did you mean 'dim'?"),
        ({"batch": "4x2"}, "'batch' cannot differ for one method: set it as a method setting, e.g. margin: {batch: "),
        ({"select": "map@r"}, "selection and validation are the same for all methods"),
        ({"dim": 0}, "the conditions of method 'margin': dim: Input should be greater than or equal to 1"),
        ({"image": 40, "test_view": [{"resize": [32, 32]}]}, "test_view ends with 32 pixels, but image is 40"),
        ({"codes": "bits"}, "codes: Input should be 'float32' or 'binary' (got 'bits')"),
    ],
)
def test_what_cannot_be_is_refused(photos: Path, conditions: dict[str, Any], said: str) -> None:
    with pytest.raises(BadSpecification) as error:
        small_study(photos, [{"margin": {"conditions": conditions}}])
    assert said in str(error.value)


def test_batches_of_all_are_drawn_as_the_conditions_say(photos: Path, tmp_path: Path) -> None:
    study = small_study(
        photos,
        ["margin", {"label": "pairs", "margin": {"batch": "6x2"}}, {"label": "any", "margin": {"batch": 12}}],
        batching={"spc": {"replace": True}},
    )
    runs = completed(study, tmp_path)
    texts = [[t for t in read_result(run.folder(tmp_path)).deviation_texts if t.startswith("batch")] for run in runs]
    assert texts == [[], ["batch 6x2 (4x3)"], ["batch 12 (4x3)", "batching random (spc (replace=True))"]]


@pytest.mark.parametrize(
    ("batching", "said"),
    [
        ("spcc", "Did you mean 'spc'?"),
        ({"spc": {"samples_per_class": 4}}, "samples_per_class follows from 'batch'"),
        ({"spc": {"replacement": True}}, "The batching 'spc' has no setting 'replacement'. Did you mean 'replace'?"),
        ({"spc": {"seed": 1}}, "cannot set 'seed' here"),
        (["spc"], "'batching' is"),
    ],
)
def test_a_wrong_batching_of_all_is_refused(photos: Path, batching: Any, said: str) -> None:
    with pytest.raises(BadSpecification) as error:  # also if nobody is drawn so
        small_study(photos, [{"margin": {"batching": "spc_r"}}], batching=batching)
    assert said in str(error.value)


def test_conditions_that_would_change_nothing_are_refused(photos: Path) -> None:
    pair = {"label": "pair", "ensemble": {"of": ["margin", "lda"], "conditions": {"dim": 3}}}
    refined = {"message_passing": {"refine": "nearest", "conditions": {"codes": "binary"}}}
    for method, said in ((pair, "Method 'pair': It joins finished runs"), (refined, "refined rows are not binary")):
        with pytest.raises(BadSpecification, match=said):
            resolve(small_study(photos, ["margin", "lda", method]))


def test_what_an_untrained_row_did_stands_against_what_all_have(photos: Path, tmp_path: Path) -> None:
    runs, _ = carry_out(small_study(photos, [{"untrained": {"conditions": {"steps": 9, "dim": 4}}}]), tmp_path)
    texts = read_result(runs[0].folder(tmp_path)).deviation_texts
    assert len(texts) == 2
    assert "steps 0 (4)" in texts
    assert any(text.startswith("dim") and text.endswith("(8)") for text in texts)


def test_proxies_start_at_means_of_numbers_and_not_of_bits(photos: Path) -> None:
    def started(codes: str) -> np.ndarray:
        [run] = resolve(small_study(photos, ["proxy_anchor"], proxies="class_means", head_init="pca", codes=codes)).runs
        inputs = inputs_for(run.spec, None, "cpu")
        proxies = set_up(run.spec, inputs, "cpu", SILENT).method.proxies
        return proxies.detach().numpy()

    np.testing.assert_array_equal(started("binary"), started("float32"))


def test_bits_that_were_said_and_not_given_are_found() -> None:
    conditions = Conditions(codes="binary", dim=8)
    assert [one.text for one in Measured(dim=8).deviations(conditions, trains=True)] == ["codes float32 (binary)"]
    assert Measured(dim=8, bits=1).deviations(conditions, trains=True) == []
