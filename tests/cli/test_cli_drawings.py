"""Commands that draw or show: `maps`, `toy`, `ranks`, `published`."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from cli_room import Levelfield, make_photos
from PIL import Image

from levelfield.cli import console as cli_console
from levelfield.evaluation.statistics.friedman import rank
from levelfield.papers import published, toy
from levelfield.reports.dataset_ranks import verdict


def test_maps_are_drawn_for_each_run(levelfield: Levelfield, compared: Path, trained: Path) -> None:
    other = next((compared / "runs" / "small" / "contrastive").glob("seed1-*"))
    photo = next((compared / "photos").rglob("*.png"))
    sizes = []
    for runs in ([trained], [trained, other]):
        levelfield("maps", *runs, "--image", photo, "--out", "maps.png")
        with Image.open(compared / "maps.png") as drawn:
            sizes.append(drawn.size)
    assert sizes[0][1] < sizes[1][1]


def test_maps_need_the_name_of_a_picture(levelfield: Levelfield, compared: Path, trained: Path) -> None:
    photo = next((compared / "photos").rglob("*.png"))
    assert "the file name must end with" in levelfield("maps", trained, "--image", photo, "--out", "maps.txt").error
    assert "contains no trained model" in levelfield("maps", "photos", "--image", photo, "--out", "maps.png").error


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy, "STEPS", 2)


def test_toy_prints_every_loss_and_draws_them(levelfield: Levelfield, tmp_path: Path) -> None:
    printed = levelfield("toy", "--seeds", "2", "--out", str(tmp_path / "toy.png"), "--switch", "0.6").printed
    assert [printed.count(words) for words in ("contrastive", "switch 0.001", "switch 0.6", "no pull")] == [2] * 4
    assert all(name in printed for name in ("rho", "arc", "r1@0.02", "train r1", "diagonal", "vertical"))
    assert "…" not in printed
    with Image.open(tmp_path / "toy.png") as picture:
        assert picture.width > 1000


def test_one_form_of_toy_can_be_chosen(levelfield: Levelfield, tmp_path: Path) -> None:
    printed = levelfield("toy", "--form", "vertical", "--seeds", "1", "--out", str(tmp_path / "v.svg")).printed
    assert "diagonal:" not in printed
    assert (tmp_path / "v.svg").read_text().count("<svg") == 1


def test_toy_refuses_a_file_that_is_no_figure_before_anything_trains(levelfield: Levelfield, tmp_path: Path) -> None:
    assert ".png, .pdf or .svg" in levelfield("toy", "--out", str(tmp_path / "toy.txt")).error
    assert levelfield("toy", "--switch", "1.5").code == 2


def test_mean_ranks_of_two_studies_are_printed_and_written(levelfield: Levelfield, compared: Path) -> None:
    make_photos(compared / "other", classes=9, each=5)
    methods = "methods=[lda, normalized_softmax, contrastive, triplet]"
    assert levelfield("-q", "compare", "small.yaml", "data=other", "name=other", methods, "seeds=1").code == 0
    printed = levelfield("ranks", "runs/small", "runs/other", "--out", "ranks").printed
    assert "Note: triplet is excluded: it has no finished run on photos." in printed
    assert "Mean ranks by recall@1, best first" in printed
    assert "With 2 datasets the test is approximate" in printed
    content = json.loads((compared / "ranks" / "ranks.json").read_text())
    assert sorted(content["mean_ranks"]) == ["contrastive", "lda", "normalized_softmax"]
    assert sum(content["mean_ranks"].values()) == pytest.approx(1 + 2 + 3)
    assert content["datasets"] == list(content["table"]) == ["photos", "other"]
    with Image.open(compared / "ranks" / "critical-difference.png") as picture:
        assert picture.width > picture.height > 150
    again = json.loads(levelfield("ranks", "runs/small", "runs/other", "--json").printed)
    assert again == content
    other = json.loads(levelfield("ranks", "runs/small", "runs/other", "--json", "--metric", "map@r").printed)
    assert other["metric"] == "map@r"


def test_too_little_to_rank_is_said(levelfield: Levelfield, compared: Path) -> None:
    assert "Ranks need at least 2 datasets, not 1." in levelfield("ranks", "runs/small").error
    assert "is not a study folder" in levelfield("ranks", "runs/small", "runs/nowhere").error
    assert "no finished run with the metric mrr" in levelfield("ranks", "runs/small", "--metric", "mrr").error
    assert "recall@1" in levelfield("ranks", "runs/small", "--metric", "recal@1").error


def test_who_is_told_apart_is_said_only_if_the_methods_differ() -> None:
    clear = rank({str(k): {"a": 0.9, "b": 0.8, "c": 0.7} for k in range(12)})
    assert verdict(clear)[1:] == [
        "Nemenyi: critical difference of mean ranks 0.96, 5% over all pairs.",
        "- a: better than b, c.",
        "- b: better than c.",
    ]
    assert verdict(rank({"x": {"a": 3, "b": 2, "c": 1}, "y": {"a": 1, "b": 2, "c": 3}}))[-1] == (
        "The methods do not differ significantly at 5%."
    )


def test_all_tables_are_listed_with_their_papers(levelfield: Levelfield) -> None:
    printed = levelfield("published").printed
    assert "roth2020: Roth et al. 2020" in printed
    assert printed.count("table") >= len(published.tables())
    assert "MPN" not in levelfield("published", "roth2020").printed
    printed = levelfield("published", "zheng2021/table3").printed
    assert printed == levelfield("published", "zheng2021", "table3").printed
    assert "81.3 % on sop" in " ".join(levelfield("published", "roth2020", "6").printed.split())


@pytest.mark.parametrize("one", published.tables(), ids=lambda one: f"{one.paper}-{one.name}")
def test_every_table_fits_80_columns_and_loses_no_number(
    levelfield: Levelfield, monkeypatch: pytest.MonkeyPatch, one: published.PaperTable
) -> None:
    monkeypatch.setattr(cli_console.console, "_width", 80)
    printed = levelfield("published", one.paper, one.name).printed
    assert max(map(len, printed.splitlines())) <= 80
    assert "…" not in printed
    shown = printed.split()
    for line in one.lines:
        if line.value is not None:
            assert any(word.rstrip("?").startswith(f"{line.value:g}") for word in shown), line


def test_a_method_is_shown_over_all_papers(levelfield: Levelfield) -> None:
    printed = levelfield("published", "margin").printed
    assert printed == levelfield("published", "--method", "margin").printed
    assert "on cub" in printed
    assert "fehervari2019 table2" in printed
    assert "64.93 ±0.42" in printed
    assert "26.4" in levelfield("published", "arcface", "--metric", "map@r").printed


def test_data_comes_out_as_csv_and_json(levelfield: Levelfield) -> None:
    rows = list(csv.DictReader(levelfield("published", "roth2020", "table4", "--csv").printed.splitlines()))
    assert len(rows) == 144
    assert rows[0]["printed_method"] == "ImageNet pretrained"
    content = json.loads(levelfield("published", "roth2020", "table4", "--json").printed)
    assert content["lines"][0]["value"] == 43.77
    assert content["conditions"]["batch"] == 112


def test_what_is_not_there_is_one_message_with_the_nearest(levelfield: Levelfield) -> None:
    assert "'table4'" in levelfield("published", "roth2020", "table44").error
    assert "'table3'" in levelfield("published", "zheng2021/tabel3").error
    assert "'margin'" in levelfield("published", "margn").error
    assert "No paper here reports 'lda'" in levelfield("published", "lda").error
    assert "'roth2020'" in levelfield("published", "roth200", "table4").error
    assert "'recall@1'" in levelfield("published", "margin", "--metric", "recal@1").error
