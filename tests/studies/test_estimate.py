"""What a study costs: counted without its data or weights, and measured before it trains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_world import carry_out, completed, make_photos, small_study

from levelfield.methods import Method
from levelfield.studies import parse_study, resolve
from levelfield.studies.planning import cost_measured
from levelfield.studies.planning.cost_counted import count, countable, total
from levelfield.studies.planning.cost_measured import Estimate, estimate
from levelfield.studies.runs.inputs import inputs_for
from levelfield.studies.runs.run import Options
from levelfield.training import checkpoint


def estimated(photos: Path, **protocol: Any) -> Estimate:
    study = small_study(photos, ["lda"], overrides=tuple(f"protocol.{key}={value}" for key, value in protocol.items()))
    return estimate(resolve(study).runs, options=Options(), jobs=1)


def test_folds_store_the_features_of_an_image_once(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos", classes=16, each=3)
    plain = estimated(photos).feature_bytes
    assert plain > 0
    assert estimated(photos, name="mlrc").feature_bytes == plain
    assert estimated(photos, validation=0.3).feature_bytes == plain


def test_a_joined_run_takes_the_room_of_its_embeddings(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos")
    two: list[Any] = ["margin", {"label": "wide", "triplet": {"conditions": {"dim": 16}}}]
    three = [*two, {"label": "both", "ensemble": {"of": ["margin", "wide"]}}]
    plain, joined = (
        estimate(resolve(study).runs, options=Options(), jobs=1).run_bytes
        for study in (small_study(photos, methods) for methods in (two, three))
    )
    assert joined - plain == 4 * 20 * (8 + 16)  # 20 test images; the weights of the members get a second name

    study = small_study(photos, three)
    runs = completed(study, tmp_path / "runs")
    folder = next(run.folder(tmp_path / "runs") for run in runs if run.spec.joined)
    own = [path for path in folder.rglob("*") if path.is_file() and path.stat().st_nlink == 1]
    assert (folder / "embeddings.npy").stat().st_size == 128 + 4 * 20 * (8 + 16)
    assert not [path for path in own if path.suffix == ".safetensors"]


def test_what_is_stored_takes_no_more_work(photos: Path, tmp_path: Path) -> None:
    study, options = small_study(photos, ["lda"]), Options(cache_folder=tmp_path / "cache")
    before = estimate(resolve(study).runs, options=options, jobs=1)
    assert before.feature_seconds > 0
    assert "for features)" in before.text
    carry_out(study, tmp_path / "runs", options)
    after = estimate(resolve(study).runs, options=options, jobs=1)
    assert (after.feature_seconds, after.feature_bytes) == (0, before.feature_bytes)
    assert "(features are already stored)" in after.text
    wider = small_study(photos, ["lda", {"label": "larger", "lda": {"conditions": {"image": 48}}}])
    assert estimate(resolve(wider).runs, options=options, jobs=1).feature_bytes == 2 * before.feature_bytes


def test_methods_with_conditions_of_their_own_share_their_inputs(photos: Path) -> None:
    views = {"train_view": [{"resized_crop": 32}, {"flip": 0.5}], "test_view": [{"resize": 36}, {"centre": 32}]}
    own = {"label": "own", "lda": {"conditions": {"optimiser": "sgd", "dim": 4}}}
    one, two = (small_study(photos, methods, **views) for methods in (["lda"], ["lda", own]))
    first, second = (inputs_for(run.spec, None, "cpu") for run in resolve(two).runs)
    assert first is second
    bytes_of_one, bytes_of_two = (
        estimate(resolve(study).runs, options=Options(), jobs=1).feature_bytes for study in (one, two)
    )
    assert bytes_of_one == bytes_of_two > 0


@pytest.mark.parametrize(("long", "sizes"), [(0.0, [16, 16]), (1e9, [16, 16, 60, 60, 60])])
def test_of_a_long_step_only_a_few_images_are_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, long: float, sizes: list[int]
) -> None:
    seen, step = [], Method.step

    def counted(self: Method, embedder: Any, batch: Any, generator: Any) -> Any:
        seen.append(len(batch.labels))
        return step(self, embedder, batch, generator)

    monkeypatch.setattr(Method, "step", counted)
    monkeypatch.setattr(cost_measured, "MAX_PROBE_SECONDS", long)
    photos = make_photos(tmp_path / "photos", classes=60, each=2)
    study = small_study(photos, ["contrastive"], batch="30x2")
    [row] = estimate(resolve(study).runs, options=Options(), jobs=1).rows
    assert seen == sizes
    assert row.seconds > cost_measured.OVERHEAD


def test_a_run_takes_the_room_that_was_estimated(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the checkpoint of a run that trains: weights and two moments. A finished run has none."""
    sizes, save = [], checkpoint.save

    def measured(path: Path, state: dict[str, Any]) -> None:
        save(path, state)
        sizes.append(path.stat().st_size)

    monkeypatch.setattr(checkpoint, "save", measured)
    study = small_study(photos, ["contrastive"], cut="tuned", image=32)
    [run] = completed(study, tmp_path)
    taken = sum(file.stat().st_size for file in run.folder(tmp_path).iterdir())
    assert estimate(resolve(study).runs, options=Options(), jobs=1).run_bytes == pytest.approx(
        taken + sizes[-1], rel=0.1
    )


CONDITIONS = {"backbone": "resnet18", "cut": "tuned", "cache": False, "image": 64, "dim": 64, "batch": "8x4"}


def counted(method: Any = "margin", protocol: str = "standard", data: str = "cub", **conditions: Any) -> Any:
    content = {"data": data, "protocol": protocol, "methods": [method], "seeds": 1, "metrics": ["recall@1"]}
    return count(parse_study({**content, "conditions": {**CONDITIONS, "steps": 1000, **conditions}}))[1]


# multiplications at 224 pixels, as published: He et al. 2016 (resnet50 with strides in the 3x3), Ioffe and Szegedy 2015
@pytest.mark.parametrize(("backbone", "known"), [("resnet18", 1.82e9), ("resnet50", 4.11e9), ("bninception", 2.03e9)])
def test_operations_of_an_image_are_the_known_ones(backbone: str, known: float) -> None:
    [row] = counted("untrained", backbone=backbone, image=224)
    assert row.rows == 5_924
    assert row.operations / row.rows == pytest.approx(2 * known, rel=0.02)


def test_a_trained_image_costs_three_passes_and_a_finished_run_keeps_its_model_and_no_checkpoint() -> None:
    [still], [trained] = counted("untrained"), counted()
    assert (trained.images, trained.rows) == (32_000, 32_000 + 5_924)
    assert trained.operations / still.operations == pytest.approx((3 * 32_000 + 5_924) / 5_924)
    model = still.bytes - 4 * 5_924 * 64
    assert model == pytest.approx(4 * 11.2e6, rel=0.02)  # resnet18 without its classifier, and the head
    assert trained.bytes == still.bytes


def test_looks_for_selection_and_monitoring_are_counted() -> None:
    looks = 10  # of 1000 steps, one each 100
    [watched] = counted(selection="best_on_test")
    assert watched.rows == 32_000 + 5_924 + (looks + 1) * (5_000 + 5_924)  # also before the first step
    separated, joined = counted(protocol="mlrc", select="map@r", selection="validation")
    assert (separated.runs, joined.runs) == (4, 1)
    assert separated.rows == 4 * (32_000 + 5_924 + looks * 1_466)
    assert total([separated, joined]).images == 4 * 32_000
    assert (joined.operations, joined.bytes) == (0, 4 * 5_924 * 4 * 64)  # the embeddings of four folds side by side


def test_what_differs_from_the_conditions_is_said_without_data() -> None:
    [row] = counted({"proxy_anchor": {"lr": 0.1, "conditions": {"dim": 32, "optimiser": "sgd"}}})
    assert row.deviations[:2] == ("dim 32 (64)", "optimiser sgd (adamw)")
    assert {"extra parameters 3,200", "lr 0.1 (0.003)"} <= set(row.deviations)  # 100 classes of 32 numbers
    [row] = counted("untrained")
    assert "dim 512 (64)" in row.deviations
    assert counted({"dreml": {"members": 3, "meta_classes": 12}})[1].deviations == ("members 3 (1)",)
    separated, joined = counted({"drml": {"objective": "triplet"}}, protocol="mlrc")
    assert joined.deviations == ()  # four folds are what everybody has
    assert any(text.startswith("extra parameters") for text in separated.deviations)


def test_only_benchmarks_can_be_counted() -> None:
    for name, known in (("cub", True), ("emoji", False), ("a folder", False)):
        assert countable(parse_study({"data": name, "methods": ["margin"]})) == known
