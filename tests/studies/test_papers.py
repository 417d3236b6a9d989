"""The papers' tables as studies: each is readable, complete, and claims only what its table says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from levelfield import methods, published
from levelfield.evaluation import parse
from levelfield.studies.claims import check_claims
from levelfield.studies.extending import extended
from levelfield.studies.plain_yaml import read_yaml
from levelfield.studies.specification import Study, assign, parse_study
from levelfield.training import Conditions

FOLDER = Path(__file__).parents[2] / "studies" / "papers"
FILES = sorted(FOLDER.glob("*.yaml"))
TABLES = {
    "000": (1, 2, 3), "001": (2, 3, 4), "002": (4, 5, 6, 7, 8, 9), "003": (4, 5, 6, 7, 8, 9, 10, 11),
    "004": (1, 2, 3, 4, 5, 6, 7, 8),
}  # fmt: skip
BATCH_TABLES = ("table7", "table8", "table9")  # of 002: a row is a loss with a batching
# rows whose training a study leaves out, with the reason in its comment
LEFT_OUT = {"004_table8": {"Group Loss x2", "MPN intra-batch (Ours) x2"}}


def content_of(file: Path) -> dict[str, Any]:
    return extended(read_yaml(file.read_text(encoding="utf-8"), origin=file.name), file)


def parsed(content: dict[str, Any]) -> Study:
    """The study without its parts on other data and on the embedded data."""
    plain = {key: value for key, value in content.items() if key not in ("also", "mini")}
    if "selection" not in Conditions.model_fields:
        plain["conditions"] = {key: value for key, value in plain["conditions"].items() if key != "selection"}
    return parse_study(plain)


def rows_of(study: Study) -> list[str]:
    """The rows of its leaderboard."""
    variations = [f" [{key.split('.')[-1]}={value}]" for key, values in study.vary.items() for value in values]
    return [method.label + variation for method in study.methods for variation in variations or [""]]


def changed(content: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """With other values, dotted keys last. A method whose value is null is left out, with the claims about it."""
    content = {**content, "conditions": dict(content["conditions"]), "methods": list(content["methods"])}
    for key, value in sorted(changes.items(), key=lambda item: "." in item[0]):
        if key.startswith("methods.") and value is None:
            gone = key.removeprefix("methods.")
            kept = [method for method in content["methods"] if method.get("label", method.get("name")) != gone]
            assert len(kept) == len(content["methods"]) - 1, f"{gone} is no method of the study"
            content["methods"] = kept
            content["claims"] = [claim for claim in content["claims"] if gone not in claim["claim"].split(" > ")]
        else:
            assign(content, key, value)
    return content


def test_every_results_table_and_figure_has_a_study() -> None:
    wanted = {f"{paper}_table{number}" for paper, numbers in TABLES.items() for number in numbers}
    assert {file.stem for file in FILES} == wanted | {"001_fig1", "001_fig2"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_study_and_its_mini_form_are_readable_and_its_methods_can_be_made(file: Path) -> None:
    content = content_of(file)
    elsewhere = [changed({**content, "data": name}, changes) for name, changes in content.get("also", {}).items()]
    mini = changed(content, content["mini"])
    for part in (content, *elsewhere, mini):
        study = parsed(part)
        for metric in study.metrics:
            parse(metric)
        for method in study.methods:
            methods.create(method.name, num_classes=16, dim=64, **method.settings)
        check_claims(study.claims, rows_of(study), study.metrics)
    assert parsed(mini).data.name == "emoji"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_claims_name_their_table_and_two_of_them_are_controls(file: Path) -> None:
    content = content_of(file)
    for part in (content, changed(content, content["mini"])):
        sources = [claim["source"] for claim in part["claims"]]
        assert sources.count("control") == 2
        for source in sources:
            assert source == "control" or source.replace(" table ", "_table") == file.stem


@pytest.mark.parametrize("file", [file for file in FILES if "table" in file.stem], ids=lambda file: file.stem)
def test_a_study_has_every_row_of_its_table_whose_method_we_have(file: Path) -> None:
    paper, _, name = file.stem.partition("_")
    table = published.table(paper, name)
    content = content_of(file)
    assert {content["data"], *content.get("also", {})} == set(table.datasets)
    names = {method.name for method in parsed(content).methods}
    left = LEFT_OUT.get(file.stem, set())
    missing = {line.printed_method for line in table.lines if line.method and line.method not in names}
    assert missing <= left


@pytest.mark.parametrize("file", [file for file in FILES if "table" in file.stem], ids=lambda file: file.stem)
def test_a_claim_is_what_the_paper_found(file: Path) -> None:
    """Where both rows can be read in the table, the first is above the second."""
    content = content_of(file)
    paper, _, name = file.stem.partition("_")
    batches = paper == "002" and name in BATCH_TABLES
    values: dict[tuple[str, str], float] = {}
    for line in published.table(paper, name).lines:
        same = line.dataset == content["data"] and line.image in ("", str(content["conditions"]["image"]))
        if line.value is not None and same and not line.protocol.endswith("separated"):
            metric = "recall@1" if line.metric == "precision@1" else line.metric
            label = line.printed_method.replace("MPN intra-batch (Ours)", "MPN").replace(" (single classification)", "")
            values.setdefault((f"{label} {line.sampler}" if batches else label, metric), line.value)
    for claim in content["claims"]:
        first, second = ((side, claim["metric"]) for side in claim["claim"].split(" > "))
        if {first, second} <= values.keys():
            assert values[first] > values[second], claim["claim"]
