"""The page on papers matches its logs, and the logs judge the claims of the studies."""

from __future__ import annotations

from types import ModuleType

import pages
import pytest

from levelfield.studies import read_study

PAGE = (pages.ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
VERDICTS = "holds", "does not hold", "cannot be told"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return pages.script("verdicts")


def test_the_page_is_made_from_the_logs(script: ModuleType) -> None:
    for name, text in script.parts().items():
        part = PAGE.partition(f"<!-- {name} -->\n")[2].partition(f"<!-- end of {name} -->")[0]
        assert part == text, f"{name}: run `python tools/verdicts.py`"


@pytest.mark.parametrize("form", ["mini", "small"])
def test_every_claim_of_a_study_with_a_log_is_judged_and_its_rows_are_there(script: ModuleType, form: str) -> None:
    for study, log in script.read(form).items():
        claims = read_study(study, **{form: True}).claims
        judged = [(one["claim"], one["metric"], one["source"]) for one in log["claims"]]
        assert judged == [(one.claim, one.metric, one.source) for one in claims], (
            f"run {study} with --{form}, then `python tools/verdicts.py RUNS`"
        )
        assert {one["verdict"] for one in log["claims"]} <= set(VERDICTS)
        assert {row["label"] for row in log["rows"]} >= {part for one in claims for part in one.parts[::2]}


def test_controls_came_out(script: ModuleType) -> None:
    assert script.read("mini")
    for study, log in script.read("mini").items():
        controls = [one["verdict"] for one in log["claims"] if one["source"] == "control"]
        assert controls in (["holds", "holds"], []), study  # figures may have none


def row(label: str, method: str, *deviations: str, **settings: object) -> dict[str, object]:
    return {"label": label, "method": method, "settings": settings, "deviations": list(deviations)}


def test_what_only_one_row_of_a_claim_has_is_named(script: ModuleType) -> None:
    rows = [
        row("A", "margin", "start its own (pca)", "dim 64 (128)", "weight decay of beta 0 (0.0001)"),
        row("B", "triplet", "dim 64 (128)"),
        row("C", "dreml", meta_classes=12),
        row("DRML", "drml", objective="triplet", settings={"margin": 1.0}),
    ]
    log = {"training_classes": 120, "rows": rows}
    assert script.unequal("A > B", log) == "A: start its own (pca), no weight decay of beta"
    assert script.unequal("B > C", log) == "B: dim 64 (128); C: 10 classes per meta class"
    assert script.unequal("DRML > B", log) == "B: dim 64 (128); margin 1.0 and 0.2"
    assert script.unequal("B = B", log) == "nothing"
