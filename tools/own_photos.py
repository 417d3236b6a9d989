"""Write the log of own photos with and without a search: `python tools/own_photos.py RUNS`.

RUNS has, for each subset of CUB-200-2011, the studies `plain-SIZE` (`levelfield compare --data SUBSET`) and
`timed-SIZE-tuned` (the same with `--time` and `--trials`). The log is `docs/logs/own_photos/tuned.json`, from which
`tools/generate.py` makes the table of the page. Trains nothing.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from levelfield.reports.finish import finish
from levelfield.reports.leaderboard.answer import answer
from levelfield.studies import read_study
from levelfield.studies.runs.folder.store import read_plan

LOG = Path(__file__).parents[1] / "docs" / "logs" / "own_photos" / "tuned.json"
SIZES = {"50x20": "50 x 20", "100x30": "100 x 30", "200": "200, all photos"}
METRICS = ("recall@1", "map@r")


def logged(folder: Path) -> dict[str, Any]:
    """What one study found: scores, settings and what its answer says."""
    study = read_study(folder / "study.yaml")
    board = finish(study, read_plan(folder), folder).leaderboard
    c = study.conditions
    return {
        "conditions": {key: getattr(c, key) for key in ("cut", "image", "views", "steps", "lr", "trunk_lr")},
        "trials": 0 if study.tuning is None else study.tuning.trials,
        "rows": {
            row.label: {
                "trained": row.trained,
                "seconds": round(row.seconds or 0.0, 1),
                **{metric: round(row.cells[metric].mean, 4) for metric in METRICS},
                "interval": [round(row.cells[METRICS[0]].low or 0.0, 4), round(row.cells[METRICS[0]].high or 0.0, 4)],
            }
            for row in board.rows
        },
        "settings": {m.label: m.settings for m in study.methods if m.settings},
        "answer": answer(board),
    }


def main() -> None:
    runs = Path(sys.argv[1])
    subsets = []
    for size, words in SIZES.items():
        found = {"untuned": runs / f"plain-{size}", "tuned": runs / f"timed-{size}-tuned"}
        if all((folder / "leaderboard.json").is_file() for folder in found.values()):
            subsets.append({"size": words, **{name: logged(folder) for name, folder in found.items()}})
    about = "CUB-200-2011 reduced to 160 px; half of the classes test; 3 seeds"
    LOG.write_text(json.dumps({"about": about, "subsets": subsets}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
