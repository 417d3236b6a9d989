"""Writes what the papers' studies in small say of their claims onto the page of papers: `python docs/verdicts.py RUNS`.

RUNS is the folder that `levelfield compare studies/papers/... --mini` wrote into. Trains nothing. The tables replace
what stands between `<!-- verdicts -->` and `<!-- end of verdicts -->`.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE / "papers.md"
STUDIES = HERE.parent / "studies" / "papers"


def read(runs: Path) -> dict[str, list[dict[str, Any]]]:
    """The judged claims of each study that was run, by its name."""
    found = {study.stem: runs / f"{study.stem}-mini" / "leaderboard.json" for study in sorted(STUDIES.glob("*.yaml"))}
    boards = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in found.items() if path.is_file()}
    return {name: board["claims"] for name, board in boards.items() if not board["missing"]}


def written(judged: dict[str, list[dict[str, Any]]]) -> str:
    """Controls counted, and the papers' own claims line by line."""
    controls = [one for claims in judged.values() for one in claims if one["source"] == "control"]
    held = sum(one["verdict"] == "holds" for one in controls)
    total = len(list(STUDIES.glob("*.yaml")))
    lines = [f"{len(judged)} of {total} studies were run. Controls: {held} of {len(controls)} hold.", ""]
    lines += [f"- {name}: {told(one)}" for name, claims in judged.items() for one in claims
              if one["source"] == "control" and one["verdict"] != "holds"]  # fmt: skip
    own = [(name, one) for name, claims in judged.items() for one in claims if one["source"] != "control"]
    found = Counter(one["verdict"] for _, one in own)
    counted = f"{found['holds']} hold, {found['does not hold']} do not, {found['cannot be told']} cannot be told"
    lines += [f"The papers' own claims: {counted}.", ""]
    lines += ["| study | claim | metric | verdict | difference |", "| --- | --- | --- | --- | --- |"]
    for name, one in own:
        more = f" (about {one['seeds']} seeds would settle it)" if one["seeds"] else ""
        cells = [f"`{name}`", one["claim"], one["metric"], one["verdict"] + more, difference(one)]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def told(one: dict[str, Any]) -> str:
    return f"{one['claim']}: {one['verdict']} ({difference(one)})"


def difference(one: dict[str, Any]) -> str:
    if one["difference"] is None:
        return "not known"
    return f"{one['difference']:+.3f} ({one['low']:+.3f} to {one['high']:+.3f})"


def main(arguments: list[str]) -> None:
    text = written(read(Path(arguments[0]) if arguments else Path("runs")))
    place = re.compile(r"(<!-- verdicts -->\n).*?(<!-- end of verdicts -->)", re.DOTALL)
    PAGE.write_text(place.sub(lambda found: found[1] + text + found[2], PAGE.read_text(encoding="utf-8")), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
