"""Cost estimate of a study before training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_world import carry_out, completed, make_photos, small_study

from levelfield.methods import Method
from levelfield.studies import resolve
from levelfield.studies.planning import cost_measured
from levelfield.studies.planning.cost_measured import Estimate, estimate
from levelfield.studies.runs.inputs import inputs_for
from levelfield.studies.runs.run import Options
from levelfield.training import checkpoint


def estimated(photos: Path, **protocol: Any) -> Estimate:
    study = small_study(photos, ["lda"], overrides=tuple(f"protocol.{key}={value}" for key, value in protocol.items()))
    return estimate(study, resolve(study).runs, options=Options(), jobs=1)


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
        estimate(study, resolve(study).runs, options=Options(), jobs=1).run_bytes
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
    before = estimate(study, resolve(study).runs, options=options, jobs=1)
    assert before.feature_seconds > 0
    assert "for features)" in before.text
    carry_out(study, tmp_path / "runs", options)
    after = estimate(study, resolve(study).runs, options=options, jobs=1)
    assert (after.feature_seconds, after.feature_bytes) == (0, before.feature_bytes)
    assert "(features are already stored)" in after.text
    wider = small_study(photos, ["lda", {"label": "larger", "lda": {"conditions": {"image": 48}}}])
    assert estimate(wider, resolve(wider).runs, options=options, jobs=1).feature_bytes == 2 * before.feature_bytes


def test_methods_with_conditions_of_their_own_share_their_inputs(photos: Path) -> None:
    views = {"train_view": [{"resized_crop": 32}, {"flip": 0.5}], "test_view": [{"resize": 36}, {"centre": 32}]}
    own = {"label": "own", "lda": {"conditions": {"optimiser": "sgd", "dim": 4}}}
    one, two = (small_study(photos, methods, **views) for methods in (["lda"], ["lda", own]))
    first, second = (inputs_for(run.spec, None, "cpu") for run in resolve(two).runs)
    assert first is second
    bytes_of_one, bytes_of_two = (
        estimate(study, resolve(study).runs, options=Options(), jobs=1).feature_bytes for study in (one, two)
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
    monkeypatch.setattr(cost_measured, "LONG", long)
    photos = make_photos(tmp_path / "photos", classes=60, each=2)
    study = small_study(photos, ["contrastive"], batch="30x2")
    [row] = estimate(study, resolve(study).runs, options=Options(), jobs=1).rows
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
    assert estimate(study, resolve(study).runs, options=Options(), jobs=1).run_bytes == pytest.approx(
        taken + sizes[-1], rel=0.1
    )
