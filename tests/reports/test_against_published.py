"""Published score, ours and the difference: only on benchmarks, in text, Markdown and JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_runs import METRICS, class_means, planned, printed, write_run

from levelfield import library
from levelfield.papers.published import reported
from levelfield.reports import as_markdown, show, with_published, write_all
from levelfield.reports.published_comparison import conditions_of
from levelfield.studies.leaderboard.board import Leaderboard, gather
from levelfield.studies.planning.plan import plan
from levelfield.studies.specification.yaml_file import read_study

ENSEMBLES = "seidenschwarz2021/table8"
ILLEGIBLE = ("roth2020/table7", "roth2020/table8", "roth2020/table9")  # some of their numbers
TABLES = [name for name in library.names() if "/table" in name and name not in ILLEGIBLE]
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
    text = printed(show, found)
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


@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_is_repeated_is_compared_with_its_own_numbers(name: str) -> None:
    """Although another table of the same paper may have the same setting, or a quoted number states none.

    Numbers that the paper itself trained differ from the study's conditions in nothing but the selection.
    """
    study, own = read_study(name, ["seeds=1"] if name != ENSEMBLES else []), name.replace("/", " ")
    runs = plan(study, digest=lambda _: "", device="cpu")
    for run in runs:
        if run.spec.part:
            continue
        for metric in study.metrics:
            how: Any = {"conditions": conditions_of(run.spec, runs), "source": own}
            found = reported(study.data.name, run.spec.method.name, metric, **how)
            assert own in [one.line.source for one in found[:1]] or own not in [one.line.source for one in found]
            if found and found[0].line.source == own and found[0].line.origin == "own":
                assert [text.split()[0] for text in found[0].differs] in (["selection"], []), (run.row, found[0].note)


def test_joined_networks_are_compared_with_the_papers_ensembles() -> None:
    study = read_study(ENSEMBLES)
    runs = plan(study, digest=lambda _: "", device="cpu")
    values = {
        run.label: reported("cub", "ensemble", "recall@1", conditions=conditions_of(run.spec, runs))[0].value
        for run in runs
        if run.spec.joined
    }
    assert values == {"Group Loss x2": 65.8, "MPN x2": 72.2, "Group Loss x5": 66.9, "MPN x5": 73.1}


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
