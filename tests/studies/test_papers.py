"""The papers' tables as studies: valid, complete, and with claims that match the table."""

from __future__ import annotations

from functools import cache

import pytest

from levelfield import data, library, methods
from levelfield.evaluation import parse
from levelfield.papers import published
from levelfield.studies.planning.plan import plan
from levelfield.studies.specification import yaml_file as reading
from levelfield.studies.specification.choices import check_claims
from levelfield.studies.specification.study import Study
from levelfield.studies.specification.yaml_file import content_of

read_study = cache(reading.read_study)  # each form is made once and looked at by many tests
STUDIES = [name for name in library.names() if "/" in name]
SETTINGS = "lim2022/table2"  # a table of settings, without results
OF_TABLES = [name for name in STUDIES if "table" in name and name != SETTINGS]
TABLES = {
    "zheng2021": (1, 2, 3),
    "fehervari2019": (2, 3, 4),
    "roth2020": (4, 5, 6, 7, 8, 9),
    "lim2022": (4, 5, 6, 7, 8, 9, 10, 11),
    "seidenschwarz2021": (1, 2, 3, 4, 5, 6, 7, 8),
}
FIGURES = {
    "zheng2021": (1,),
    "fehervari2019": (1, 2),
    "roth2020": (8, 13),
    "lim2022": (1, 2),
    "seidenschwarz2021": (2, 4, 7, 15),
}
BATCH_TABLES = ("table7", "table8", "table9")  # of roth2020: a row is a loss with a batching


def rows_of(study: Study) -> list[str]:
    """The rows of its leaderboard."""
    return list(dict.fromkeys(run.row for run in plan(study)))


def test_every_results_table_and_figure_has_a_study() -> None:
    wanted = {f"{paper}/table{number}" for paper, numbers in TABLES.items() for number in numbers}
    wanted |= {f"{paper}/fig{number}" for paper, numbers in FIGURES.items() for number in numbers}
    assert set(STUDIES) == wanted | {SETTINGS, "kim2020/cub"}


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_and_its_mini_form_are_readable_and_its_methods_can_be_made(name: str) -> None:
    elsewhere = [read_study(name, on=other) for other in content_of(name).get("also", {})]
    mini, small = read_study(name, mini=True), read_study(name, small=True)
    for study in (read_study(name), *elsewhere, mini, small):
        for metric in study.metrics:
            parse(metric)
        for method in study.methods:
            methods.create(method.name, num_classes=16, dim=64, **method.settings)
        check_claims(study.claims, rows_of(study), study.metrics)
    assert (mini.data.name, small.data.name) == ("emoji", "cub")


@pytest.mark.parametrize("name", STUDIES)
def test_the_best_on_test_is_chosen_among_epochs(name: str) -> None:
    for study in (read_study(name, on=other) for other in (None, *content_of(name).get("also", {}))):
        conditions = study.conditions
        if conditions.monitor == "test":
            images, _ = data.describe(study.data.name).parts["train"]
            epoch = conditions.batches_per_epoch or images // conditions.layout.batch_size
            assert conditions.validate_every == pytest.approx(epoch, abs=1)
            assert conditions.steps % conditions.validate_every == 0


@pytest.mark.parametrize("name", STUDIES)
def test_claims_name_their_table_and_two_of_them_are_controls(name: str) -> None:
    """Pictures and grids, which need no other rows, have no controls."""
    for study in (read_study(name), read_study(name, mini=True)):
        sources = [claim.source for claim in study.claims]
        assert sources.count("control") == 2 or ("fig" in name and "control" not in sources)
        for source in sources:
            written = source.replace(" table ", "/table").replace(" figure ", "/fig")
            assert written in ("control", name)


@pytest.mark.parametrize("name", OF_TABLES)
def test_a_study_has_every_row_of_its_table_whose_method_we_have(name: str) -> None:
    table = published.table(*name.split("/"))
    content = content_of(name)
    assert {content["data"], *content.get("also", {})} == set(table.datasets)
    names = {method.name for method in read_study(name).methods}
    assert not {line.printed_method for line in table.lines if line.method and line.method not in names}


@pytest.mark.parametrize("name", OF_TABLES)
def test_a_claim_is_what_the_paper_found(name: str) -> None:
    """Where both rows can be read in the table, the first is above the second."""
    content = content_of(name)
    paper, number = name.split("/")
    batches = paper == "roth2020" and number in BATCH_TABLES
    values: dict[tuple[str, str], float] = {}
    for line in published.table(paper, number).lines:
        same = line.dataset == content["data"] and line.image in ("", str(content["conditions"]["image"]))
        if line.value is not None and same and not line.protocol.endswith("separated"):
            metric = "recall@1" if line.metric == "precision@1" else line.metric
            label = line.printed_method.replace("MPN intra-batch (Ours)", "MPN").replace(" (single classification)", "")
            values.setdefault((f"{label} {line.sampler}" if batches else label, metric), line.value)
    for claim in content["claims"]:
        first, second = ((side, claim["metric"]) for side in claim["claim"].split(" > "))
        if {first, second} <= values.keys():
            assert values[first] > values[second], claim["claim"]
