"""Published score, ours and the difference: only on benchmarks, in text, Markdown and JSON."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from made_runs import METRICS, class_means, planned, write_run
from rich.console import Console

from levelfield.papers.published import reported
from levelfield.reports import as_markdown, show, with_published, write_all
from levelfield.reports.published_comparison import conditions_of
from levelfield.studies.leaderboard.board import Leaderboard, gather
from levelfield.studies.planning.plan import plan
from levelfield.studies.specification.yaml_file import read_study

METHODS = [
    {"margin": {"preset": "roth2020/cub"}},
    {"label": "R-margin", "margin": {"preset": "roth2020/cub/rho_beta06"}},
    "lda",
]


def board(folder: Path, data: Any) -> Leaderboard:
    conditions = {"backbone": "resnet50", "cut": "tuned", "dim": 128, "batch": "56x2", "steps": 7854}
    runs = planned(METHODS, seeds=2, data=data, conditions=conditions)
    for run in runs:
        write_run(run, folder, class_means(0.6, seed=run.spec.seed))
    return with_published(gather("made", runs, folder, METRICS), runs)


def test_a_benchmark_shows_reported_ours_and_the_difference(tmp_path: Path) -> None:
    found = board(tmp_path, "cub")
    entries = {(one["row"], one["metric"]): one for one in found.facts["published"]}
    plain = entries["margin", "recall@1"]
    assert (plain["source"], plain["printed_method"]) == ("roth2020 table4", "Margin (D, beta=1.2)")
    assert plain["reported"] == 63.09
    assert plain["ours"] == pytest.approx(60)
    assert plain["difference"] == pytest.approx(60 - 63.09)
    assert plain["note"] == "there selection best_on_test (here last)"  # all else was the same
    assert entries["R-margin", "recall@1"]["printed_method"] == "R-Margin (D, beta=0.6)"
    assert "98.3 %" in entries["margin", "map@r"]["note"]
    assert not [row for row, _ in entries if row == "lda"]  # no paper here has it


def test_an_incomplete_copy_is_said_to_be_one(tmp_path: Path) -> None:
    found = board(tmp_path, {"name": "cub", "allow_incomplete": True})
    images = found.signatures["cub"]["recall@1"]["queries"]
    for one in found.facts["published"]:
        assert one["note"].startswith(f"not the official data: {images} test images here, 5,924 in the paper")


def test_the_table_is_in_text_markdown_and_json(tmp_path: Path) -> None:
    found = board(tmp_path, "cub")
    console = Console(width=80, file=io.StringIO(), markup=False, highlight=False)
    show(found, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, text.splitlines())) <= 80
    assert "63.09 ±0.46 60.00" in text
    assert "| margin | recall@1 | roth2020 table4 | 63.09 ±0.46 | 60.00 | -3.09 |" in as_markdown(found)
    write_all(found, tmp_path)
    stored = json.loads((tmp_path / "leaderboard.json").read_text())
    assert stored["facts"]["published"][0]["source"] == "roth2020 table4"


def test_other_data_shows_nothing(tmp_path: Path) -> None:
    found = board(tmp_path, "emoji")
    assert "published" not in found.facts
    assert "papers reported" not in as_markdown(found)


@pytest.mark.parametrize("name", ["roth2020/table4", "lim2022/table5", "lim2022/table6", "lim2022/table10"])
def test_a_table_that_is_repeated_is_compared_with_its_own_numbers(name: str) -> None:
    """Although another table of the same paper may have the same setting, or a quoted number states none."""
    study, own = read_study(name, ["seeds=1"]), name.replace("/", " ")
    for run in plan(study, digest=lambda _: "", device="cpu"):
        for metric in study.metrics:
            how: Any = {"conditions": conditions_of(run.spec), "source": own}
            found = [one.line for one in reported(study.data.name, run.spec.method.name, metric, **how)]
            assert own in [line.source for line in found[:1]] or own not in [line.source for line in found]


@pytest.mark.parametrize("backbone", ["resnet50.tv_in1k", "resnet50", "tv_resnet50"])
@pytest.mark.parametrize("source", ["roth2020 table4", ""])
def test_the_published_figure_follows_the_network_and_not_the_spelling_of_its_name(backbone: str, source: str) -> None:
    study = read_study("roth2020/table4", ["seeds=1", f"conditions.backbone={backbone}"])
    ours = next(conditions_of(run.spec) for run in plan(study) if run.label == "Margin (D, beta=0.6)")
    nearest = reported("cub", "margin", "recall@1", conditions=ours, source=source)[0]
    assert (nearest.line.source, nearest.value) == ("roth2020 table4", 62.5)
    assert "backbone" in nearest.same


def test_epochs_without_the_last_small_batch_and_balanced_batches_agree() -> None:
    cars = {"backbone": "resnet50", "dim": 128, "image": 224, "batch": 112, "sampler": "SPC-2", "beta": 0.6}
    assert reported("cars", "margin", "recall@1", conditions={**cars, "epochs": 148})[0].value == 77.7
    birds = {"backbone": "resnet50", "dim": 512, "image": 224, "batch": 32, "sampler": "SPC-4"}
    assert reported("cub", "hist", "recall@1", conditions=birds)[0].value == 71.7


def test_the_board_knows_its_table_by_the_name_of_the_study(tmp_path: Path) -> None:
    conditions = {"backbone": "resnet50", "dim": 64, "batch": 32}
    runs = planned([{"proxy_nca": {"preset": "roth2020/cub"}}], seeds=1, data="cub", conditions=conditions)
    for run in runs:
        write_run(run, tmp_path, class_means(0.6, seed=0))
    sources = [
        with_published(gather(name, runs, tmp_path, METRICS), runs).facts["published"][0]["source"]
        for name in ("own", "lim2022-table10")
    ]
    assert sources == ["fehervari2019 table2", "lim2022 table10"]
