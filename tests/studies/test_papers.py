"""The papers' tables as studies: valid, complete, with claims that match the table; two run in small, five with their
real views on a drawn miniature of CUB."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from small_world import NETWORK, Heard, board_of, completed, make_photos

from drawn_cub import draw_cub
from levelfield import data, library, methods
from levelfield.evaluation import parse
from levelfield.papers import published
from levelfield.reports.finish import finish
from levelfield.reports.leaderboard.tables import as_markdown
from levelfield.studies import parse_study
from levelfield.studies.execution.workers import run_all
from levelfield.studies.leaderboard.claims import FAILS, HOLDS, OPEN
from levelfield.studies.planning.plan import plan
from levelfield.studies.runs.run import Options
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
        check_claims(study.claims, [run.row for run in plan(study)], study.metrics)
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


TINY = {**NETWORK, "image": 32, "steps": 4, "dim": 8, "batch": "3x3", "taps": ["final"], "pooling": "average"}


def tiny(name: str, photos: Path) -> Study:
    """The small form, smaller still: other images and network, few steps and seeds. Methods, protocol, claims stay."""
    content = read_study(name, mini=True).model_dump(mode="json")
    conditions = {**content["conditions"], **TINY, "warmup": 0, "validate_every": 2}
    methods = [m | {"settings": {k: v for k, v in m["settings"].items() if k != "batch"}} for m in content["methods"]]
    seeds = 1 if content["protocol"]["name"] == "mlrc" else 2
    return parse_study({**content, "data": str(photos), "conditions": conditions, "methods": methods, "seeds": seeds})


@pytest.mark.parametrize("name", ["lim2022/table4", "lim2022/table8"])
def test_a_table_runs_to_its_verdicts(tmp_path: Path, name: str) -> None:
    study = tiny(name, make_photos(tmp_path / "photos", classes=24, each=4))
    if study.protocol.name == "mlrc":  # many rows, and each has four folds
        claims = [claim for claim in study.claims if claim.source == "control"] + list(study.claims[-1:])
        named = {label for claim in claims for label in (claim.parts[0], claim.parts[2])}
        kept = tuple(m for m in study.methods if m.label in named)
        study = study.model_copy(update={"methods": kept, "claims": tuple(claims)})
    runs = completed(study, tmp_path / "runs")
    board = board_of(study, runs, tmp_path / "runs")
    assert not board.missing
    assert {verdict.claim for verdict in board.claims} == {claim.claim for claim in study.claims}
    page = as_markdown(board)
    for verdict in board.claims:
        assert verdict.verdict in (HOLDS, FAILS, OPEN)
        assert verdict.difference is not None
        assert verdict.text in page
    if study.protocol.name == "mlrc":
        rows = {row.label: row for row in board.rows}
        assert {f"{label} (separated)" for label in rows if not label.endswith("(separated)")} <= set(rows)
        assert not any("members" in text for row in board.rows for text in row.deviations), "all join four folds"


SHORT = ("conditions.backbone=test_byobnet", "conditions.weights=random", "seeds=1", "vary={}", "claims=[]")
SHORT += ("conditions.steps=2", "conditions.validate_every=2", "data.allow_incomplete=true")
# a table of each base, a method of it and its batch, and what else must be shorter
ON_CUB = {
    "fehervari2019/table2": ("Npairs", "4x2", ("conditions.step_at=[1]",)),
    "roth2020/table4": ("R-Margin (D, beta=0.6)", "4x2", ()),
    "lim2022/table4": ("HIST", "8", ("conditions.step_at=[1]", "conditions.trunk_warmup=1")),
    "seidenschwarz2021/table3": ("MPN Embeddings", "4x2", ("conditions.step_at=[1]",)),
    "zheng2021/table1": ("DRML-PA", "4x1", ("conditions.patience=2 steps",)),  # the base of MLRC: four folds
}


@pytest.fixture(scope="module")
def birds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw_cub(tmp_path_factory.mktemp("birds"), training=8, test=4, each=2)


@pytest.mark.parametrize("name", ON_CUB)
def test_the_conditions_of_a_paper_run_to_its_report(name: str, birds: Path, tmp_path: Path) -> None:
    label, batch, shorter = ON_CUB[name]
    whole = read_study(name)
    kept = json.dumps([one.model_dump() for one in whole.methods if one.label == label])
    changes = (f"methods={kept}", f"methods.{label}.batch={batch}", f"conditions.batch={batch}", f"data.root={birds}")
    study = reading.read_study(name, [*SHORT, *shorter, *changes])
    assert study.conditions.train_view == whole.conditions.train_view
    assert study.conditions.test_view == whole.conditions.test_view
    assert study.conditions.image == content_of(name)["conditions"]["image"] >= 224

    runs = completed(study, tmp_path)
    again = Heard()
    run_all(runs, tmp_path, study.metrics, jobs=0, options=Options(), progress=again)
    assert not again.of("start")

    made = finish(study, runs, tmp_path)
    assert not made.leaderboard.missing
    assert [row.label for row in made.leaderboard.rows if not row.label.endswith("(separated)")] == [label]
    beside = [one for one in made.leaderboard.facts["published"] if one["row"] == label]
    assert name.replace("/", " ") in {one["source"] for one in beside}
    assert all("not the official data: 8 test images here" in one["note"] for one in beside)
    assert "Compared with published results" in (tmp_path / "leaderboard.md").read_text()
