"""Write the results of the studies into the page about experiments: `python tools/experiments.py [RUNS]`.

RUNS is the folder that `levelfield compare` wrote into. For every finished study there, the script draws its figures
into `figures/` and writes a log, `docs/logs/experiments/STUDY.json`: rows with their scores, and claims. The page is
made from the logs alone: the table of a study replaces the text between `<!-- STUDY -->` and
`<!-- end of STUDY -->`. Trains nothing.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from levelfield.reports.figures import draw_figures, figures_of
from levelfield.reports.figures._rows import Drawn, drawn
from levelfield.reports.leaderboard import cells
from levelfield.reports.leaderboard.answer import fine_tuning_lines
from levelfield.reports.leaderboard.tables import claims
from levelfield.studies import gather, read_study
from levelfield.studies.runs.folder.store import read_plan

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "experiments.md"
LOGS = DOCS / "logs" / "experiments"
OWN_DATA = ("birds", "hist-parts", "drml-parts", "bird-curves", "characters")
CURVES = "seidenschwarz2021-fig7-mini"
OF_PAPERS = ("roth2020-fig8-mini", "roth2020-fig13-mini", CURVES)
STUDIES = ("methods", "rho", "batching", *OF_PAPERS, *OWN_DATA, "backbones", "demo-mobilenetv2")
Log = dict[str, Any]


def collect(runs: Path) -> None:
    """Write the log of each study that is finished in `runs`, and draw its figures."""
    LOGS.mkdir(parents=True, exist_ok=True)
    for study in STUDIES:
        folder = runs / study
        if not (folder / "leaderboard.json").is_file():
            continue
        described, planned = read_study(folder / "study.yaml"), read_plan(folder)
        board = gather(study, planned, folder, described.metrics, claims=described.claims)
        figures = []
        for path in draw_figures(figures_of(described), board, planned, folder):
            (DOCS / "figures" / f"{study}-{path.name}").write_bytes(path.read_bytes())
            figures.append(path.stem)
        rows = [logged(row, board.metrics[:2]) for row in drawn(board, planned, folder)]
        log = {"figures": figures, "metrics": board.metrics[:2], "rows": rows, "claims": claims(board)}
        log |= {"answer": lines} if (lines := fine_tuning_lines(board)) else {}
        (LOGS / f"{study}.json").write_text(in_lines(log), encoding="utf-8")


def logged(row: Drawn, metrics: list[str]) -> Log:
    """The figures of one row of a leaderboard."""
    first = row.cell(metrics[0])
    share = 100 * row.row.planning / row.row.seconds if row.row.seconds else 0.0
    return {
        "label": row.row.label,
        "seeds": len(row.row.seeds),
        "means": [round(row.cell(metric).mean, 6) for metric in metrics],
        "interval": cells.interval(first),
        "sd": None if first.spread is None else round(first.spread, 6),
        "rho": None if row.rho is None else round(row.rho, 6),
        "planning": round(share, 2),
        "seconds": round(row.row.seconds, 2),
        "operations": row.row.operations,
    }


def in_lines(log: Log) -> str:
    """JSON with one line for each row and each claim."""
    parts = []
    for key, value in log.items():
        listed = ",\n  ".join(json.dumps(entry) for entry in value)
        parts.append(f' "{key}": [\n  {listed}\n ]')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def written(study: str, log: Log) -> str:
    """Figures, table and claims of a study in Markdown."""
    lines = [text for name in log["figures"] for text in (f"![{study}: {name}](figures/{study}-{name}.png)", "")]
    lines += table(log["rows"], log["metrics"])
    lines += ["", "Verdicts:", "", *log["claims"]] if log["claims"] else []
    lines += ["", *(f"- {line}" for line in log["answer"])] if "answer" in log else []
    return "\n".join(lines) + "\n"


def table(rows: list[Log], metrics: list[str]) -> list[str]:
    """One line for each row, best first. The share of planning in the training time is shown if any exceeds 5 %, time
    and operations if networks differ."""
    planned = any(row["planning"] > 5 for row in rows)
    networks = len({row.get("operations") for row in rows}) > 1
    head = ["method", *metrics[:1], "95 % interval", "sd", *metrics[1:], "rho (training)"]
    head += ["planning"] if planned else []
    head += ["train s", "MFLOP/image"] if networks else []
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    for row in rows:
        spread, rho = ("-" if row[key] is None else f"{row[key]:.3f}" for key in ("sd", "rho"))
        first, *others = (f"{mean:.3f}" for mean in row["means"])
        fields = [row["label"], first, row["interval"], spread, *others, rho]
        fields += [f"{row['planning']:.0f} %"] if planned else []
        fields += (
            [f"{row['seconds']:.0f}" if row["seconds"] else "-", f"{row['operations'] / 1e6:.0f}"] if networks else []
        )
        lines.append("| " + " | ".join(fields) + " |")
    seeds = ", ".join(str(count) for count in sorted({row["seeds"] for row in rows}))
    return [*lines, "", f"Seeds: {seeds}." + (" planning: share of the training time." * planned)]


def main(arguments: list[str]) -> None:
    if arguments:
        collect(Path(arguments[0]))
    text = PAGE.read_text(encoding="utf-8")
    for path in sorted(LOGS.glob("*.json")):
        part = written(path.stem, json.loads(path.read_text(encoding="utf-8")))
        place = re.compile(rf"(<!-- {path.stem} -->\n).*?(<!-- end of {path.stem} -->)", re.DOTALL)
        text = place.sub(lambda found, part=part: found[1] + part + found[2], text)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
