"""The conditions of every paper with its real views and image sizes, on a drawn miniature of CUB: two steps, resumed,
reported, with the published scores beside ours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_world import Heard, carry_out

from drawn_cub import draw_cub
from levelfield.reports.finish import finish
from levelfield.studies.execution.workers import run_all
from levelfield.studies.runs.run import Options
from levelfield.studies.specification.yaml_file import content_of, read_study

SHORT = ("conditions.backbone=test_byobnet", "conditions.weights=random", "seeds=1", "vary={}", "claims=[]")
SHORT += ("conditions.steps=2", "conditions.validate_every=2", "data.allow_incomplete=true")
# a table of each base, a method of it and its batch, and what else must be shorter
TABLES = {
    "fehervari2019/table2": ("Npairs", "4x2", ("conditions.step_at=[1]",)),
    "roth2020/table4": ("R-Margin (D, beta=0.6)", "4x2", ()),
    "lim2022/table4": ("HIST", "8", ("conditions.step_at=[1]", "conditions.trunk_warmup=1")),
    "seidenschwarz2021/table3": ("MPN Embeddings", "4x2", ("conditions.step_at=[1]",)),
    "zheng2021/table1": ("DRML-PA", "4x1", ("conditions.patience=2 steps",)),  # the base of MLRC: four folds
}


@pytest.fixture(scope="module")
def birds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw_cub(tmp_path_factory.mktemp("birds"), training=8, test=4, each=2)


@pytest.mark.parametrize("name", TABLES)
def test_the_conditions_of_a_paper_run_to_its_report(name: str, birds: Path, tmp_path: Path) -> None:
    label, batch, shorter = TABLES[name]
    whole = read_study(name)
    kept = json.dumps([one.model_dump() for one in whole.methods if one.label == label])
    changes = (f"methods={kept}", f"methods.{label}.batch={batch}", f"conditions.batch={batch}", f"data.root={birds}")
    study = read_study(name, [*SHORT, *shorter, *changes])
    assert study.conditions.train_view == whole.conditions.train_view
    assert study.conditions.test_view == whole.conditions.test_view
    assert study.conditions.image == content_of(name)["conditions"]["image"] >= 224

    runs, outcome = carry_out(study, tmp_path)
    assert not outcome.failed, outcome.failed
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
