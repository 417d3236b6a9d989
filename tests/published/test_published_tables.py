"""The papers' tables, number by number under our names, and the published results of a method."""

from __future__ import annotations

import csv
from importlib.resources import files

import numpy as np
import pytest

from levelfield import data, methods
from levelfield.embedder.trunk import backbones
from levelfield.evaluation import evaluate, parse
from levelfield.papers import published
from levelfield.papers.published import reported
from levelfield.papers.published._tables import names

LINES = [line for table in published.tables() for line in table.lines]


def test_every_file_is_a_table_and_every_number_a_line() -> None:
    folder = files("levelfield.papers.published").joinpath("csv")
    stored = [file for file in folder.iterdir() if file.name.endswith(".csv")]
    assert len(stored) == len(published.tables()) == 30
    assert len(LINES) == sum(len(list(csv.DictReader(file.read_text().splitlines()))) for file in stored)


def test_a_number_comes_with_its_setting() -> None:
    [line] = [
        line
        for line in published.table("roth2020", "table4").lines
        if line.printed_method == "R-Margin (D, beta=0.6)" and line.printed_metric == "R@1"
    ]
    assert (line.value, line.spread, line.switch, line.origin) == (64.93, 0.42, 0.4, "own")
    assert (line.method, dict(line.settings)) == ("margin", {"miner": "distance_weighted", "beta": 0.6})
    assert (line.dataset, line.backbone, line.dim) == ("cub", "resnet50", "128")
    assert (line.batch, line.sampler) == ("112", "SPC-2")


def test_our_names_are_names_of_ours() -> None:
    assert {line.method for line in LINES} - {""} <= set(methods.names())
    assert {line.dataset for line in LINES} <= set(data.names())
    assert {line.backbone for line in LINES} - {"", "GoogLeNet", "GoogleNet"} <= set(backbones.names())
    for metric in {line.metric for line in LINES}:
        parse(metric)
    for entry in names()["metrics"]:
        for metric in (*entry.get("also", ()), *entry.get("near", ())):
            parse(metric)


def test_settings_that_a_printed_name_says_are_settings_of_the_method() -> None:
    for printed, entry in names()["methods"].items():
        settings = {key: value for key, value in entry.get("settings", {}).items() if key not in ("mined", "networks")}
        if "student" in settings:
            settings["student"] = {"teacher": "other", "form": settings["student"]}
        if entry["method"] == "ensemble":
            settings["seeds"] = "all"
        assert methods.create(entry["method"], num_classes=16, dim=64, **settings), printed


def test_counts_of_the_benchmarks_are_those_of_their_makers() -> None:
    for name, counts in published.benchmarks().items():
        parts = data.describe(name).parts
        tested = [parts[part] for part in ("test", "query", "gallery") if part in parts]
        assert parts["train"][0] == counts["train_images"]
        assert sum(images for images, _ in tested) == counts["test_images"]
        assert tested[0][1] == counts["test_classes"]


@pytest.mark.parametrize("sizes", [(2, 2, 2), (5, 3, 7, 2), (59,) * 4])
def test_the_ceiling_is_what_perfect_embeddings_reach(sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    counts = {"made": {"test_images": len(labels), "test_classes": len(sizes)}}
    monkeypatch.setattr("levelfield.papers.published._tables.benchmarks", lambda: counts)
    found = evaluate(np.eye(len(sizes))[labels], labels, metrics=["map@c[released]", "map@1000[released]"])
    assert found["map@c[released]"] == pytest.approx(published.ceiling("made"))
    assert found["map@1000[released]"] == pytest.approx(published.ceiling("made"))


def test_exchanged_columns_and_a_misprint_are_marked_and_nothing_else_is() -> None:
    odd = {(line.source, line.printed_method, line.printed_metric) for line in LINES if line.suspect}
    imagenet = {
        ("zheng2021 table3", line.printed_method, metric)
        for line in published.table("zheng2021", "3").lines
        for metric in ("RP", "MAP@R")
    }
    assert odd == imagenet | {("fehervari2019 table4", "N-Pairs", "NMI")}


OURS = {"protocol": "standard", "backbone": "resnet50", "dim": 128, "image": 224, "selection": "last"}
OURS |= {"batch": 112, "sampler": "SPC-2", "epochs": 150}


def test_the_most_similar_setting_comes_first() -> None:
    [first, *_] = reported("cub", "n_pair", "recall@1", conditions=OURS)
    assert (first.line.source, first.value) == ("roth2020 table4", 61.63)
    wide = {**OURS, "backbone": "bninception", "dim": 64, "batch": 120}
    [first, *_] = reported("cub", "n_pair", "recall@1", conditions=wide)
    assert (first.line.source, first.value) == ("fehervari2019 table2", 53.7)


def test_what_differs_and_what_is_not_stated_is_in_the_note() -> None:
    [first, *_] = reported("cub", "n_pair", "recall@1", conditions={**OURS, "dim": 256, "batch": 80})
    assert "dim 128 (here 256)" in first.note
    assert "batch 112 (here 80)" in first.note
    assert "selection best_on_test (here last)" in first.note
    assert {"backbone", "image", "protocol"} <= set(first.same)
    every = reported("cub", "n_pair", "recall@1", conditions=OURS)
    [quoted] = [one for one in every if one.line.source == "seidenschwarz2021 table1"]
    assert "not stated there: backbone" in quoted.note


def test_a_printed_name_that_says_another_setting_is_another_method() -> None:
    def names(**settings: object) -> set[str]:
        found = reported("cub", "triplet", "recall@1", conditions={**OURS, **settings})
        return {one.line.printed_method for one in found if one.line.paper == "roth2020"}

    assert names(miner="random") == {"Triplet (R)"}
    assert names(miner="distance_weighted", switch=0.4) == {"R-Triplet (D)"}
    assert names(miner="distance_weighted") == {"Triplet (D)"}


def test_a_metric_of_another_definition_is_shown_with_its_ceiling() -> None:
    [first, *_] = reported("sop", "margin", "map@r", conditions={**OURS, "beta": 1.2, "epochs": 100})
    assert first.line.printed_metric == "mAP@C"
    assert "81.3 %" in first.note
    assert "class size with the query counted" in first.note
    [same, *_] = reported("sop", "margin", "map@c[released]", conditions={**OURS, "beta": 1.2, "epochs": 100})
    assert "divides" not in same.note
    assert "81.3 %" in same.note


def test_recall_and_precision_at_one_are_one_and_at_two_are_not() -> None:
    assert any(one.line.printed_metric == "P@1" for one in reported("cub", "cosface", "recall@1"))
    assert {one.line.printed_metric for one in reported("imagenet", "softmax", "recall@2")} == {"R@2"}


def test_a_dash_is_no_number_and_other_data_has_none() -> None:
    assert not [
        one for one in reported("sop", "proxy_nca", "recall@10") if one.line.source == "seidenschwarz2021 table1"
    ]
    assert reported("emoji", "margin", "recall@1") == []


def test_numbers_that_cannot_be_right_are_said_to_be() -> None:
    [found] = reported("imagenet", "softmax", "map@r")
    assert "probably exchanged" in found.note
