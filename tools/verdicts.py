"""Write the verdicts of the papers' mini and small studies into their page: `python tools/verdicts.py [RUNS]`.

RUNS is the folder that `levelfield compare roth2020/table4 --mini` or `--small` and the like wrote into. For every
finished study there the script writes a log, such as `docs/logs/papers/mini/roth2020-table4.json`: claims with all
their numbers, rows with scores, deviations and settings. The page is made from the logs alone, so without RUNS only the
page is rewritten. Trains nothing. Each part replaces the text between its two marks, such as `<!-- overview -->` and
`<!-- end of overview -->`.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from levelfield import library
from levelfield.reports.published_comparison import resolved_settings
from levelfield.studies import read_study
from levelfield.studies.runs.shared import open_catalog
from levelfield.table import Table
from levelfield.wording import plural

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "papers.md"
LOGS = DOCS / "logs" / "papers"
FORMS = ("mini", "small")
HEADINGS = {
    "mini": "`--mini`: hold / do not / cannot be told",
    "small": "`--small`: hold / do not / cannot be told",
}
VERDICTS = ("holds", "does not hold", "cannot be told")
STUDIES = [name for name in library.names() if "/" in name]
_UNDECAYED = re.compile(r"weight decay of (.+) 0 \(.+\)")
Log = dict[str, Any]


def collect(runs: Path) -> None:
    """Write the log of each study that is finished in `runs`, in any form."""
    for study, form in itertools.product(STUDIES, FORMS):
        folder = runs / f"{study.replace('/', '-')}-{form}"
        if not (folder / "leaderboard.json").is_file():
            continue
        board = json.loads((folder / "leaderboard.json").read_text(encoding="utf-8"))
        if not board["missing"]:
            text = _in_lines(_shortened(log_of(board, folder / "study.yaml")))
            log_file(study, form).parent.mkdir(parents=True, exist_ok=True)
            log_file(study, form).write_text(text, encoding="utf-8")


def log_of(board: Log, study_file: Path) -> Log:
    """The facts of a leaderboard that the page needs, and the scores of its rows."""
    study = read_study(study_file)
    methods = {method.label: method for method in study.methods}
    rows = []
    for row in board["rows"]:
        method = methods[max((label for label in methods if row["label"].startswith(label)), key=len)]
        figures = {name: {key: cell[key] for key in ("mean", "low", "high")} for name, cell in row["cells"].items()}
        facts = {"seeds": len(row["seeds"]), "figures": figures, "deviations": row["deviations"]}
        rows.append({"label": row["label"], **facts, "method": method.name, "settings": method.settings})
    catalog = open_catalog(study.data)
    classes = len(np.unique(catalog.labels[study.protocol.divide(catalog)[0].train]))
    return {"training_classes": classes, "claims": board["claims"], "rows": rows}


def read(form: str) -> dict[str, Log]:
    """The logs of one form by the names of their studies."""
    there = [study for study in STUDIES if log_file(study, form).is_file()]
    return {study: json.loads(log_file(study, form).read_text(encoding="utf-8")) for study in there}


def log_file(study: str, form: str) -> Path:
    return LOGS / form / f"{study.replace('/', '-')}.json"


def overview(forms: dict[str, dict[str, Log]]) -> str:
    """How many claims of each paper hold in each form, beside how many the paper reports."""
    rows = []
    for paper in dict.fromkeys(study.partition("/")[0] for study in STUDIES):
        reported = sum(len(_own(read_study(study).claims)) for study in STUDIES if study.startswith(f"{paper}/"))
        of_paper = ([log for study, log in logs.items() if study.startswith(f"{paper}/")] for logs in forms.values())
        rows.append([paper, reported, *map(_counted, of_paper)])
    columns = ["paper", "reported by the paper (full form)", *(HEADINGS[form] for form in forms)]
    return Table(columns, rows).markdown() + "\n"


def _own(claims: Iterable[Any]) -> list[Any]:
    return [claim for claim in claims if claim.source != "control"]


def _counted(logs: list[Log]) -> str:
    """Verdicts on the papers' own claims, and how many studies were run."""
    if not logs:
        return "not run"
    found = Counter(one["verdict"] for log in logs for one in log["claims"] if one["source"] != "control")
    numbers = " / ".join(str(found[verdict]) for verdict in VERDICTS)
    return f"{numbers} ({plural(len(logs), 'study', 'studies')})"


def written(logs: dict[str, Log], before: dict[str, Log] | None = None) -> str:
    """Controls counted, and the papers' own claims line by line; beside them the verdicts of an earlier form."""
    controls = [(name, one) for name, log in logs.items() for one in log["claims"] if one["source"] == "control"]
    held = sum(one["verdict"] == "holds" for _, one in controls)
    lines = [f"{len(logs)} of {len(STUDIES)} studies were run. Controls: {held} of {len(controls)} hold.", ""]
    failed = [(name, one) for name, one in controls if one["verdict"] != "holds"]
    lines += [f"- {name}: {one['claim']}: {one['verdict']} ({difference(one)})" for name, one in failed]
    own = [(name, log, one) for name, log in logs.items() for one in log["claims"] if one["source"] != "control"]
    found = Counter(one["verdict"] for _, _, one in own)
    counted = f"{found['holds']} hold, {found['does not hold']} do not, {found['cannot be told']} cannot be told"
    lines += [f"The papers' own claims: {counted}.", ""]
    titles = ["study", "claim", "metric", "verdict", "difference", *(["frozen"] if before else []), "unequal"]
    rows = []
    for name, log, one in own:
        said = one["verdict"] + (f" ({one['note']})" if one["note"] else "")
        cells = [f"`{name}`", one["claim"], one["metric"], said, difference(one)]
        cells += [_earlier(before.get(name), one["claim"])] if before else []
        rows.append([*cells, unequal(one["claim"], log)])
    return "\n".join([*lines, Table(titles, rows).markdown()]) + "\n"


def _earlier(log: Log | None, claim: str) -> str:
    found = [one for one in (log["claims"] if log else []) if one["claim"] == claim]
    return f"{found[0]['verdict']} ({found[0]['difference']:+.3f})" if found else "not run"


def difference(one: dict[str, Any]) -> str:
    if one["difference"] is None:
        return "not known"
    within = "" if one["low"] is None else f" ({one['low']:+.3f} to {one['high']:+.3f})"
    return f"{one['difference']:+.3f}{within}"


def unequal(claim: str, log: Log) -> str:
    """Where the two rows of a claim were not treated equally: deviations that only one of them has, and settings."""
    rows = {row["label"]: row for row in log["rows"]}
    first, second = (rows[label] for label in re.split(" [>=] ", claim))
    told = []
    for row, other in ((first, second), (second, first)):
        own = [text for text in row["deviations"] if text not in other["deviations"]]
        shares = _classes_per_meta_class(row, log["training_classes"])
        if own or shares:
            told.append(f"{row['label']}: {', '.join([*_in_short(own), *shares])}")
    return "; ".join([*told, *_wrapped_otherwise(first, second)]) or "nothing"


def _in_short(deviations: list[str]) -> list[str]:
    """Deviations, with those parameters that do not decay in one of them."""
    found = [(text, _UNDECAYED.fullmatch(text)) for text in deviations]
    undecayed = [match[1] for _, match in found if match]
    told = [text for text, match in found if not match]
    return [*told, f"no weight decay of {' and '.join(undecayed)}"] if undecayed else told


def _classes_per_meta_class(row: dict[str, Any], classes: int) -> list[str]:
    if row["method"] != "dreml":
        return []
    return [f"{classes / row['settings']['meta_classes']:.0f} classes per meta class"]


def _wrapped_otherwise(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    """Where DRML and its baseline train one loss: the settings in which it differs."""
    if first["method"] != "drml" or first["settings"].get("objective") != second["method"]:
        return []
    ours = resolved_settings(second["method"], first["settings"].get("settings", {}))
    theirs = resolved_settings(second["method"], second["settings"])
    keys = [key for key in ours if key in theirs and ours[key] != theirs[key] and not key.endswith("lr_multiplier")]
    return [f"{key} {ours[key]} and {theirs[key]}" for key in keys]


def _shortened(value: Any) -> Any:
    """Numbers to six digits: a log is read by people."""
    if isinstance(value, dict):
        return {key: _shortened(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_shortened(entry) for entry in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _in_lines(log: Log) -> str:
    """JSON with a line for each claim and each row."""
    told = []
    for key, value in log.items():
        entries = ",\n".join(f"  {json.dumps(entry)}" for entry in value) if isinstance(value, list) else ""
        told.append(f' "{key}": ' + (f"[\n{entries}\n ]" if entries else json.dumps(value)))
    return "{\n" + ",\n".join(told) + "\n}\n"


def main(arguments: list[str]) -> None:
    if arguments:
        collect(Path(arguments[0]))
    page = PAGE.read_text(encoding="utf-8")
    for name, text in parts().items():
        place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        page = place.sub(lambda found, text=text: found[1] + text + found[2], page)
    PAGE.write_text(page, "utf-8")


def parts() -> dict[str, str]:
    """The generated parts of the page, by the names of their places."""
    forms = {form: read(form) for form in FORMS}
    verdicts = {"mini verdicts": written(forms["mini"])}
    if forms["small"]:
        verdicts["small verdicts"] = written(forms["small"], before=forms["mini"])
    return {"overview": overview(forms), **verdicts}


if __name__ == "__main__":
    main(sys.argv[1:])
