"""The fidelity tables of the papers: complete, current, and with names that exist."""

from __future__ import annotations

import functools
from typing import Any

import pages
import pytest

from levelfield.papers.presets import presets
from levelfield.studies import read_study
from levelfield.training import Conditions

PAGE = (pages.ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
# The trajectories of tests/parity.
TRAJECTORIES = {
    *("hist-resnet50-cub", "hist-resnet50-sop", "proxy-anchor-resnet50-cub", "message-passing-resnet50-cub"),
    *("revisiting-multisimilarity", "revisiting-margin-distance", "revisiting-margin-rho", "revisiting-proxynca"),
    *("revisiting-arcface", "drml-proxy-anchor-bninception-cub"),
}
script = pages.script("fidelity")
PARTS = functools.cache(script.parts)
CELLS = [(paper, row, cells) for paper, facts in script.FACTS["papers"].items() for row, cells in facts["rows"].items()]


def test_the_page_is_made_from_the_studies() -> None:
    for name, text in PARTS().items():
        part = PAGE.partition(f"<!-- {name} -->\n")[2].partition(f"<!-- end of {name} -->")[0]
        assert part == text, f"{name}: run `make tables`"


@pytest.mark.parametrize(("paper", "row", "cells"), CELLS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_cell_has_a_source_or_says_that_there_is_none(paper: str, row: str, cells: dict[str, str]) -> None:
    for key in ("text", "code"):
        assert cells[key] in ("unknown", "not stated") or cells[key].endswith(")"), key


@pytest.mark.parametrize(("paper", "row", "cells"), CELLS, ids=lambda value: value if isinstance(value, str) else "")
def test_what_verifies_a_row_exists(paper: str, row: str, cells: dict[str, str]) -> None:
    for kind, *names in (entry.split() for entry in cells["verified"].split(";")):
        if kind == "trajectory":
            assert set(names) <= TRAJECTORIES
            assert names
        elif kind == "preset":
            objective, preset = names
            assert preset in presets(objective)
        else:
            assert [kind, *names] == ["reading"]


def test_every_condition_is_in_a_row_or_does_not_change_what_is_trained() -> None:
    shown = {key.rstrip("?") for keys in script.ROWS.values() for key in keys.split()}
    assert set(Conditions.model_fields) <= shown | script.OTHERS, "add the new condition to ROWS in tools/fidelity.py"


@pytest.mark.parametrize("one", script.FACTS["differences"], ids=lambda one: f"{one['paper']}-{one['what']}")
def test_a_study_follows_text_or_code_and_can_follow_the_other(one: dict[str, Any]) -> None:
    follows, other = script.followed(one)
    assert follows in ("text", "code")
    assert other
    if "study" in one:
        assert read_study(one["study"], [other.strip("`")]).conditions != read_study(one["study"]).conditions


@pytest.mark.parametrize("one", script.FACTS["preset_differences"], ids=lambda one: f"{one['methods']}-{one['what']}")
def test_every_difference_of_text_and_code_is_a_pair_of_presets(one: dict[str, str]) -> None:
    for name in one["methods"].split(", "):
        known = presets(name)
        assert known[one["preset"]] != known[one["preset"].removesuffix("text").rstrip("_/")], name
