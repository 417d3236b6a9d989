"""The numbers on the DRML page are those of its log."""

from __future__ import annotations

import json
import re

import pages


def test_the_table_of_starts_says_what_the_log_says() -> None:
    page = (pages.ROOT / "docs" / "drml.md").read_text(encoding="utf-8")
    log = json.loads((pages.ROOT / "docs" / "logs" / "drml_starts.json").read_text(encoding="utf-8"))
    shown = dict(re.findall(r"^\| ([\w ]+) \| (0\.\d+ \| 0\.\d+ \| 0\.\d+ \| 0\.\d+) \|$", page, re.MULTILINE))
    starts = ("random", "pca")
    for row in log["trained"]["pca"]:
        kind = "drml" if row.startswith("DRML") else "plain"
        figures = [log["before_training"][start][kind] for start in starts]
        figures += [log["trained"][start][row]["mean"] for start in starts]
        assert shown.pop(row) == " | ".join(f"{figure:.3f}" for figure in figures)
    assert not shown
