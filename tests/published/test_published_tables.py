"""The papers' tables: every number is present under our names, and wrong numbers are marked."""

from __future__ import annotations

import csv
from importlib.resources import files

import numpy as np
import pytest

from levelfield import data, methods
from levelfield.embedder.trunk import backbones
from levelfield.errors import UnknownName
from levelfield.evaluation import evaluate, parse
from levelfield.papers import published
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


def test_a_table_or_paper_that_does_not_exist_is_told_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="'table4'"):
        published.table("roth2020", "table44")
    with pytest.raises(UnknownName, match=r"Unknown paper 'roth200'.*Did you mean 'roth2020'"):
        published.table("roth200", "table4")
