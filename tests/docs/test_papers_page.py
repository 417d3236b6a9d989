"""The page of papers judges the claims that the studies make: of each study on it all, and of none another one."""

from __future__ import annotations

import re

import pages

from levelfield.studies import read_study

PAGE = (pages.ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
VERDICTS = "holds", "does not hold", "cannot be told"


def test_every_claim_of_a_study_on_the_page_is_judged() -> None:
    part = PAGE.partition("<!-- verdicts -->")[2].partition("<!-- end of verdicts -->")[0]
    lines = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \| (.*?) \| (.*?) \|$", part, re.MULTILINE)
    judged: dict[str, list[tuple[str, str]]] = {}
    for study, claim, metric, verdict, _ in lines:
        assert verdict.startswith(VERDICTS)
        judged.setdefault(study, []).append((claim, metric))
    assert judged
    for study, found in judged.items():
        claims = read_study(pages.ROOT / "studies" / "papers" / f"{study}.yaml", mini=True).claims
        own = [(one.claim, one.metric) for one in claims if one.source != "control"]
        assert found == own, f"run {study} with --mini, then `python docs/verdicts.py RUNS`"


def test_controls_came_out() -> None:
    said = re.search(r"^(\d+) of 30 studies were run. Controls: (\d+) of (\d+) hold.$", PAGE, re.MULTILINE)
    assert said
    studies, held, controls = map(int, said.groups())
    assert held == controls == 2 * studies
