"""Pages that show measurements match their logs, and what the installed packages measure now."""

from __future__ import annotations

import json
import re

import pages
import pytest
import torch

from levelfield.studies import plan, read_study

FIGURE = re.compile(r"\d+\.\d\d")
# Numbers that are wrong because of rounding differ between machines; more than this and the page is out of date.
SLACK = 0.05
VERDICTS = "holds", "does not hold", "cannot be told"


def text_of(page: str) -> str:
    return (pages.ROOT / "docs" / page).read_text(encoding="utf-8")


def part_of(page: str, name: str) -> str:
    """The part of a page between its marks, without the first line break."""
    return text_of(page).partition(f"<!-- {name} -->\n")[2].partition(f"<!-- end of {name} -->")[0]


@pytest.mark.parametrize(
    "study", ["rho", "batching", "roth2020-fig8-mini", "roth2020-fig13-mini", "seidenschwarz2021-fig7-mini"]
)
def test_every_row_of_a_study_is_on_the_page_of_experiments(study: str) -> None:
    name, _, mini = study.replace("-", "/", 1).partition("-")
    described, part = read_study(name, mini=bool(mini)), part_of("experiments.md", study)
    rows = {line.split("|")[1].strip() for line in part.splitlines() if re.match(r"\| .* \| 0\.\d", line)}
    assert rows == {run.row for run in plan(described)}, "run the study, then `python tools/experiments.py`"
    for figure in described.figures:
        assert f"(figures/{study}-{figure}.png)" in part
        assert (pages.ROOT / "docs" / "figures" / f"{study}-{figure}.png").stat().st_size < 200_000


def test_the_page_of_experiments_shows_what_the_logs_hold() -> None:
    """The page is made from the logs in the repository: nothing on it was typed."""
    script = pages.script("experiments")
    for log in sorted(script.LOGS.glob("*.json")):
        written = script.written(log.stem, json.loads(log.read_text(encoding="utf-8")))
        assert written in text_of("experiments.md"), log.stem


def test_the_page_of_papers_is_made_from_the_logs() -> None:
    for name, text in pages.script("verdicts").parts().items():
        assert part_of("papers.md", name) == text, f"{name}: run `python tools/verdicts.py`"


@pytest.mark.parametrize("form", ["mini", "small"])
def test_every_claim_of_a_study_with_a_log_is_judged_and_its_rows_are_there(form: str) -> None:
    for study, log in pages.script("verdicts").read(form).items():
        claims = read_study(study, **{form: True}).claims
        judged = [(entry["claim"], entry["metric"], entry["source"]) for entry in log["claims"]]
        assert judged == [(entry.claim, entry.metric, entry.source) for entry in claims], (
            f"run {study} with --{form}, then `python tools/verdicts.py RUNS`"
        )
        assert {entry["verdict"] for entry in log["claims"]} <= set(VERDICTS)
        assert {row["label"] for row in log["rows"]} >= {part for entry in claims for part in entry.parts[::2]}


def test_the_table_of_starts_on_the_page_of_drml_says_what_the_log_says() -> None:
    log = json.loads(text_of("logs/drml_starts.json"))
    row_of = re.compile(r"^\| ([\w ]+) \| (0\.\d+ \| 0\.\d+ \| 0\.\d+ \| 0\.\d+) \|$", re.MULTILINE)
    shown, starts = dict(row_of.findall(text_of("drml.md"))), ("random", "pca")
    for row in log["trained"]["pca"]:
        kind = "drml" if row.startswith("DRML") else "plain"
        figures = [log["before_training"][start][kind] for start in starts]
        figures += [log["trained"][start][row]["mean"] for start in starts]
        assert shown.pop(row) == " | ".join(f"{figure:.3f}" for figure in figures)
    assert not shown


def test_every_difference_of_metrics_is_on_the_page_as_measured() -> None:
    pytest.importorskip("pytorch_metric_learning")
    script = pages.script("differences")
    shown, measured = part_of("metrics.md", "differences").strip().splitlines(), script.table().splitlines()
    assert [FIGURE.sub("#", line) for line in shown] == [FIGURE.sub("#", line) for line in measured], (
        "run `python tools/differences.py`"
    )
    for entry, other in zip(shown, measured, strict=True):
        figures = [[float(number) for number in FIGURE.findall(line)] for line in (entry, other)]
        assert figures[0] == pytest.approx(figures[1], abs=SLACK), "run `python tools/differences.py`"
    assert not [line for line in script.differences() if line.theirs.split()[0] == line.ours.split()[0]]


def test_laws_that_losses_of_pml_break_are_on_the_page() -> None:
    pytest.importorskip("pytorch_metric_learning")
    pml, page = pages.script("pml"), text_of("own-loss.md")
    assert not [name for name in pml.names() if f"`{name}`" not in page], "run `make docs`"
    for name in ("CircleLoss", "NCALoss", "NPairsLoss", "TripletMarginLoss"):
        rows = [line for line in page.splitlines() if line.startswith("| ") and f"`{name}`" in line]
        broken = {verdict.law.replace("_", " ") for verdict in pml.broken(name)}
        assert {row.split("|")[1].strip() for row in rows} == broken, "run `make docs`"


def test_the_wrapper_of_pml_gives_proxies_more_and_its_efficient_mode_another_gradient() -> None:
    pytest.importorskip("pytorch_metric_learning")
    torch.set_num_threads(1)
    measured = pages.script("pml_processes").measured(2)
    assert measured["ProxyAnchorLoss", "default"]["network"] == pytest.approx((1, 0), abs=1e-5)
    assert measured["ProxyAnchorLoss", "default"]["proxies"] == pytest.approx((2, 0), abs=1e-5)
    length, angle = measured["MultiSimilarityLoss", "efficient"]["network"]
    assert f"| `MultiSimilarityLoss` | efficient | 2 | x {length:.2f}, {angle:.0f}° | none |" in text_of("scale.md")
