"""`levelfield published`: all tables, one table, and the published results of a method."""

from __future__ import annotations

import csv
import json

import pytest
from cli_room import Levelfield

from levelfield.cli import console as cli_console
from levelfield.papers import published


def test_all_tables_are_listed_with_their_papers(levelfield: Levelfield) -> None:
    said = levelfield("published").printed
    assert "roth2020: Roth et al. 2020" in said
    assert said.count("table") >= len(published.tables())
    assert "MPN" not in levelfield("published", "roth2020").printed


@pytest.mark.parametrize("one", published.tables(), ids=lambda one: f"{one.paper}-{one.name}")
def test_every_table_fits_80_columns_and_loses_no_number(
    levelfield: Levelfield, monkeypatch: pytest.MonkeyPatch, one: published.Table
) -> None:
    monkeypatch.setattr(cli_console.console, "_width", 80)
    said = levelfield("published", one.paper, one.name).printed
    assert max(map(len, said.splitlines())) <= 80
    assert "…" not in said
    shown = said.split()
    for line in one.lines:
        if line.value is not None:
            assert any(word.rstrip("?").startswith(f"{line.value:g}") for word in shown), line


def test_a_table_may_be_named_like_its_study(levelfield: Levelfield) -> None:
    said = levelfield("published", "zheng2021/table3").printed
    assert said == levelfield("published", "zheng2021", "table3").printed
    assert "'table3'" in levelfield("published", "zheng2021/tabel3").error


def test_the_ceiling_of_a_metric_stands_below_its_table(levelfield: Levelfield) -> None:
    assert "81.3 % on sop" in " ".join(levelfield("published", "roth2020", "6").printed.split())


def test_a_method_is_shown_over_all_papers(levelfield: Levelfield) -> None:
    said = levelfield("published", "margin").printed
    assert said == levelfield("published", "--method", "margin").printed
    assert "on cub" in said
    assert "fehervari2019 table2" in said
    assert "64.93 ±0.42" in said
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
    assert "'margin'" in levelfield("published", "margn").error
    assert "No paper here reports 'lda'" in levelfield("published", "lda").error
    assert "'roth2020'" in levelfield("published", "roth200", "table4").error
    assert "'recall@1'" in levelfield("published", "margin", "--metric", "recal@1").error
