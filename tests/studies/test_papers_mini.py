"""Two of the papers' tables in their small form, up to the verdicts on their claims, on a few generated photos."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_world import NETWORK, board_of, carry_out, make_photos

from levelfield.reports.leaderboard.tables import as_markdown
from levelfield.studies import Study, parse_study
from levelfield.studies.leaderboard.claims import FAILS, HOLDS, OPEN
from levelfield.studies.specification.yaml_file import read_study

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
    runs, outcome = carry_out(study, tmp_path / "runs")
    assert not outcome.failed, outcome.failed
    board = board_of(study, runs, tmp_path / "runs")
    assert not board.missing
    judged = {verdict.claim: verdict for verdict in board.claims}
    assert set(judged) == {claim.claim for claim in study.claims}
    assert {verdict.verdict for verdict in judged.values()} <= {HOLDS, FAILS, OPEN}
    assert all(verdict.difference is not None for verdict in judged.values())
    page = as_markdown(board)
    assert all(verdict.text in page for verdict in judged.values())
    if study.protocol.name == "mlrc":
        rows = {row.label: row for row in board.rows}
        assert {f"{label} (separated)" for label in rows if not label.endswith("(separated)")} <= set(rows)
        assert not any("members" in text for row in board.rows for text in row.deviations), "all join four folds"
