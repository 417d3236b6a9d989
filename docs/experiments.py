"""Writes what the studies measured onto the page about experiments: `python docs/experiments.py [RUNS] [STUDY ...]`.

RUNS is the folder that `levelfield compare` wrote into. For each study its table replaces what stands between
`<!-- STUDY -->` and `<!-- end of STUDY -->`, and its figures are drawn into figures/. Trains nothing.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from levelfield.reports.figures import draw_figures, figures_of
from levelfield.reports.figures._rows import Drawn, drawn
from levelfield.reports.leaderboard import cells
from levelfield.reports.leaderboard.tables import claims
from levelfield.studies import gather, read_study
from levelfield.studies.runs.folder import read_plan

HERE = Path(__file__).parent
PAGE = HERE / "experiments.md"
STUDIES = ("methods", "rho", "switch", "batching", "mixup", "curves")


def write(runs: Path, study: str) -> None:
    """Table and figures of one study."""
    folder = runs / study
    described, planned = read_study(folder / "study.yaml"), read_plan(folder)
    board = gather(study, planned, folder, described.metrics, claims=described.claims)
    lines = []
    for path in draw_figures(figures_of(described), board, planned, folder):
        shown = HERE / "figures" / f"{study}-{path.name}"
        shown.write_bytes(path.read_bytes())
        lines += [f"![{study}: {path.stem}](figures/{shown.name})", ""]
    lines += table(drawn(board, planned, folder), board.metrics[:2])
    lines += ["", "What it says of the claims:", "", *claims(board)] if board.claims else []
    place = re.compile(rf"(<!-- {study} -->\n).*?(<!-- end of {study} -->)", re.DOTALL)
    text = "\n".join(lines) + "\n"
    PAGE.write_text(place.sub(lambda found: found[1] + text + found[2], PAGE.read_text(encoding="utf-8")), "utf-8")


def table(rows: list[Drawn], metrics: list[str]) -> list[str]:
    """One line for each row, best first. The share of planning in training time is shown where it counts."""
    planned = any(row.row.planning > 0.05 * row.row.seconds for row in rows)
    head = ["method", *metrics[:1], "95 % interval", "sd", *metrics[1:], "rho (training)"]
    head += ["planning"] if planned else []
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    for row in rows:
        first, others = row.cell(metrics[0]), [f"{row.cell(metric).mean:.3f}" for metric in metrics[1:]]
        spread = "-" if first.spread is None else f"{first.spread:.3f}"
        rho = "-" if row.rho is None else f"{row.rho:.3f}"
        fields = [row.row.label, f"{first.mean:.3f}", cells.interval(first), spread, *others, rho]
        fields += [f"{100 * row.row.planning / row.row.seconds:.0f} %"] if planned else []
        lines.append("| " + " | ".join(fields) + " |")
    seeds = sorted({len(row.row.seeds) for row in rows})
    return [*lines, "", f"Seeds: {', '.join(map(str, seeds))}." + (" planning: share of the training time." * planned)]


def main(arguments: list[str]) -> None:
    runs = Path(arguments[0]) if arguments else Path("runs")
    for study in arguments[1:] or STUDIES:
        write(runs, study)
        print(f"wrote {study} onto {PAGE.name}")


if __name__ == "__main__":
    main(sys.argv[1:])
