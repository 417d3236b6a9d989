"""The identity of a run depends only on what can change its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from levelfield.studies.planning.foresight import foresee, sentence
from levelfield.studies.planning.plan import left_out, plan
from levelfield.studies.runs.spec import PlannedRun
from levelfield.studies.specification.study import parse_study
from levelfield.training import Conditions

PLAIN: dict[str, Any] = {"data": "emoji", "methods": [{"margin": {}}], "seeds": 1}

# another value for each condition, as a study file writes it
OTHER: dict[str, Any] = yaml.safe_load("""
{backbone: resnet18, weights: random, cut: last-1, taps: [blocks.3], pooling: max, normalize_taps: false,
batch_norm: train, channels_last: false, dim: 64, head_init: pca, layer_norm: plain, dropout: 0.1, rates: published,
proxies: class_means, codes: binary, image: 64, crop: 0.9, augment: light, train_view: [{resized_crop: 224}],
test_view: [{resize: [224, 224]}], views: 2, cache: false, steps: 9, batch: 5x4, batching: {spc: {replace: true}},
batches_per_epoch: 3, accumulate: 2, tuning_trials: 3, optimiser: sgd, lr: 0.1, trunk_lr: 0.1, weight_decay: 0.1,
momentum: 0.1, rmsprop_alpha: 0.9, rmsprop_alpha_decay: 0.9, schedule: constant, warmup: 1, trunk_warmup: 1,
step_every: 1, step_at: [5, 9], step_factor: 0.1, plateau_patience: 1, clip: 1.0, precision: bf16, validate_every: 1,
validate_start: true, min_delta: 0.1, patience: 1, monitor: test, threads: 2, output_norm: true, decay: all, eps: 1.0,
clip_value: 10, processes: 2, deterministic: true, compile: true, head: dropped, test_image: 96,
start_share: 0.5}
""")
WITH = {"views": {"augment": "light"}}  # what a condition needs


def planned(*overrides: str, digest: str = "images", **content: Any) -> list[PlannedRun]:
    return plan(parse_study({**PLAIN, **content}, overrides), digest=lambda data: digest)


def identity(*overrides: str, digest: str = "images", **content: Any) -> str:
    [run] = planned(*overrides, digest=digest, **content)
    return run.spec.identity


def test_labels_names_and_metrics_do_not_change_a_run() -> None:
    same = identity(methods=[{"label": "other", "margin": {}}], name="other", about="x", metrics=["nmi"])
    assert same == identity()


@pytest.mark.parametrize("condition", OTHER)
def test_each_condition_changes_a_run(condition: str) -> None:
    needed = WITH.get(condition, {})
    assert identity(conditions={condition: OTHER[condition], **needed}) != identity(conditions=needed)


def test_no_condition_was_forgotten() -> None:
    assert set(OTHER) | {"select"} == set(Conditions.model_fields)


def test_all_else_that_decides_the_weights_changes_a_run() -> None:
    selected = {"conditions": {"select": "map@r"}, "protocol": {"validation": 0.2}}
    variants = [
        identity(),
        identity(digest="other images"),
        identity(seeds=[1]),
        identity("methods.margin.beta=0.6"),
        identity(methods=["triplet"]),
        identity("protocol.validation=0.2"),
        identity("protocol=all-classes"),
        identity(**selected),
        identity("data.skip_unreadable=true"),
    ]
    assert len(set(variants)) == len(variants)


@pytest.mark.parametrize(
    ("name", "content"),
    [("my.py", {"methods": ["my.py:MyLoss"]}), ("w.safetensors", {"conditions": {"weights": "w.safetensors"}})],
)
def test_the_content_of_ones_own_files_changes_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    found = []
    for text in ("def MyLoss(): return 1", "def MyLoss(): return 2", "def MyLoss(): return 1"):
        (tmp_path / name).write_text(text)
        found.append(identity(**content))
    assert found[0] == found[2] != found[1]


def test_weights_of_other_backbones_do_not_change_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.pth").write_text("weights")
    plain = identity("conditions.backbone=resnet18", "conditions.weights=w.pth")
    by_name = [f"conditions.weights.{name}" for name in ("resnet18=w.pth", "resnet50.tv_in1k=other.pth")]
    assert identity("conditions.backbone=resnet18", *by_name) == plain
    assert identity("conditions.backbone=resnet50.tv_in1k", *by_name) != plain
    assert identity("conditions.backbone=conv4", *by_name) == identity("conditions.backbone=conv4")


def test_vary_is_a_grid() -> None:
    runs = planned(vary={"conditions.dim": [8, 16], "methods.margin.beta": [0.5, 1.5]})
    pairs = [(dim, beta) for dim in (8, 16) for beta in (0.5, 1.5)]
    assert [run.row for run in runs] == [f"margin [dim={dim}] [beta={beta}]" for dim, beta in pairs]
    assert [(run.spec.conditions.dim, run.spec.method.settings["beta"]) for run in runs] == pairs
    assert len({run.folder(Path()) for run in runs}) == 4


def test_seeds_come_one_after_another_and_a_setting_of_one_method_varies_no_other() -> None:
    runs = planned(methods=["lda", "margin"], seeds=[4, 2])  # no seed changes the closed form
    assert [(run.label, run.spec.seed) for run in runs] == [("lda", 4), ("margin", 4), ("margin", 2)]
    runs = planned(methods=["margin", "triplet"], seeds=2, vary={"methods.margin.beta": [0.5, 1.5]})
    first = [(row, seed) for seed in (0, 1) for row in ("margin [beta=0.5]", "triplet")]
    assert [(run.row, run.spec.seed) for run in runs] == first + [("margin [beta=1.5]", seed) for seed in (0, 1)]
    assert len({run.folder(Path()) for run in runs}) == 6


def test_a_condition_that_a_method_sets_itself_does_not_vary_for_it() -> None:
    methods = ["margin", {"triplet": {"conditions": {"dim": 32}}}, {"contrastive": {"batch": "5x2"}}, "lda"]
    for vary, rows in (
        ({"conditions.dim": [64, 128]}, ["contrastive [dim=64]", "lda [dim=64]", "margin [dim=64]", "triplet"]),
        ({"conditions.batch": [8, 16]}, ["contrastive", "lda", "margin [batch=8]", "triplet [batch=8]"]),
    ):
        runs = plan(parse_study({**PLAIN, "methods": methods, "vary": vary}))
        assert sorted(run.row for run in runs if "128" not in run.row and "16" not in run.row) == rows


def test_a_varied_batch_that_holds_no_tuple_is_left_out() -> None:
    needing = {"label": "both", "ensemble": {"of": ["triplet", "proxy_nca"]}}
    study = parse_study(
        {**PLAIN, "methods": ["triplet", "proxy_nca", needing], "vary": {"conditions.batch": [2, "2x2"]}}
    )
    assert left_out(study) == ["triplet [batch=2]"]
    assert [run.row for run in plan(study)] == [
        "proxy_nca [batch=2]",
        "triplet [batch=2x2]",
        "proxy_nca [batch=2x2]",
        "both [batch=2x2]",
    ]


def test_the_smallest_detectable_difference_of_a_plan() -> None:
    said = foresee(planned(digest="", methods=["margin", "triplet", "lda"], seeds=4))
    assert said.startswith("774 test classes, 4 seeds, 3 pairs of rows: smallest detectable difference about 0.0")
    assert "these runs" in sentence(50, 1, 10)
    assert sentence(50, 1, 0) == ""


def test_varied_data_are_identified_by_their_images() -> None:
    study = parse_study({**PLAIN, "vary": {"data": ["a", "b"], "conditions.dim": [8, 16]}})
    runs = plan(study, digest=lambda data: data.name)
    assert [run.spec.data_digest for run in runs] == ["a", "a", "b", "b"]
