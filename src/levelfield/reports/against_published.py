"""Compare our scores with published ones, with possible reasons for differences."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from levelfield import objectives
from levelfield.papers.published import benchmarks, is_benchmark, reported
from levelfield.studies.leaderboard.board import Leaderboard
from levelfield.studies.leaderboard.rows import Row
from levelfield.studies.runs.spec import PlannedRun, RunSpec

_SAMPLERS = {"spc_r": "SPC-R", "ddm": "DDM", "frd": "FRD", "greedy_coreset": "GC", "random": "random"}
_TITLE = "Compared with published results (per cent)"


def with_published(board: Leaderboard, runs: Sequence[PlannedRun]) -> Leaderboard:
    """The board with `facts["published"]`: for each row and metric, the published score with the closest setting.

    Of equally close ones that of the table which the study repeats. Adds nothing for data without published results.
    """
    source = _table_of(board.study)
    by_row = {run.row: run.spec for run in reversed(runs)}
    found = [
        entry
        for row in board.rows
        for metric in board.metrics
        if (entry := _entry(row, by_row[row.label], metric, board.signatures[row.test_set][metric], source)) is not None
    ]
    return replace(board, facts={**board.facts, "published": found}) if found else board


def published_terminal(board: Leaderboard) -> list[RenderableType]:
    """The table for 80 columns with its notes below; empty if nothing was reported."""
    found = board.facts.get("published", [])
    if not found:
        return []
    table = Table(box=SIMPLE_HEAD, padding=0, pad_edge=False)
    for name in ("method", "metric", "source", "reported", "ours", "difference", "notes"):
        figure = name in ("reported", "ours", "difference")
        table.add_column(name, justify="right" if figure else "left", overflow="fold", no_wrap=figure)
    numbers = _numbered(found)
    for one in found:
        table.add_row(Text(one["row"]), one["metric"], *_fields(one), "".join(f"[{n}]" for n in numbers[_key(one)]))
    return [Text(), Text(_TITLE, style="bold"), Group(table, *(Text(line) for line in _notes(found)))]


def published_markdown(board: Leaderboard) -> list[str]:
    """The table as lines of a Markdown page."""
    found = board.facts.get("published", [])
    if not found:
        return []
    head = ["method", "metric", "source", "reported", "ours", "difference", "as printed", "note"]
    lines = ["", f"## {_TITLE}", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for one in found:
        fields = [one["row"], one["metric"], *_fields(one), one["printed_method"], one["note"] or "-"]
        lines.append("| " + " | ".join(text.replace("|", "\\|") for text in fields) + " |")
    return [*lines, "", _EXPLAINED]


_EXPLAINED = (
    "The reported number is the one whose setting is closest to ours in protocol, backbone, dim, image size, batch, "
    "sampler, switch, epochs and selection; views, optimiser, rates and weights are not compared. See "
    "`levelfield published METHOD` and `levelfield published PAPER TABLE`."
)


def conditions_of(spec: RunSpec) -> dict[str, Any]:
    """The conditions of a run, with the keys of `published.reported`."""
    conditions, settings = spec.conditions, resolved_settings(spec.method.name, spec.method.settings)
    protocol = spec.protocol.name
    if protocol == "mlrc":
        protocol = "mlrc-concatenated" if spec.fold is None else "mlrc-separated"
    batch = str(settings.pop("batch", None) or conditions.batch)
    layout = conditions.model_copy(update={"batch": batch}).layout
    batching = _name(settings.pop("batching", None)) or layout.batching
    counts = benchmarks().get(spec.data.name)
    seen = conditions.steps * layout.batch_size
    return {
        **settings,
        "protocol": protocol,
        "backbone": conditions.backbone,
        "dim": conditions.dim * (len(spec.needs) if spec.joined else 1),
        "image": conditions.image,
        "batch": layout.batch_size,
        "sampler": _SAMPLERS.get(batching, f"SPC-{layout.per_class}" if layout.per_class else batching),
        "selection": "last" if conditions.select == "budget" else "validation",
        "networks": len(spec.needs) or None,
        "epochs": round(seen / counts["train_images"]) if counts and protocol == "standard" else None,
    }


def resolved_settings(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """A method's settings, including defaults and preset; a miner, refinement or teacher by name only.

    >>> found = resolved_settings("triplet", {"preset": "roth2020/cub"})
    >>> found["miner"], found["margin"]
    ('distance_weighted', 0.2)
    """
    settings: dict[str, Any] = {}
    if name in objectives.names():
        facts = objectives.describe(name)
        settings = {**facts.defaults, **facts.presets.get(str(given.get("preset")), {})}
    settings |= {key: value for key, value in given.items() if key != "preset"}
    for key, kind in (("miner", None), ("refine", "by"), ("student", "form")):
        if key in settings:
            settings[key] = settings[key][kind] if kind and isinstance(settings[key], Mapping) else _name(settings[key])
    if isinstance(settings.get("of"), list) and len(settings["of"]) == 1:
        [settings["of"]] = settings["of"]
    if "epsilon" in settings:
        settings["mined"] = settings["epsilon"] is not None
    return settings


def _table_of(study: str) -> str:
    """The table that a study of the library repeats, by the study's name.

    >>> _table_of("lim2022-table5-cars"), _table_of("demo")
    ('lim2022 table5', '')
    """
    found = re.match(r"(\w+)-(table\d+)(-|$)", study)
    return f"{found[1]} {found[2]}" if found else ""


def _entry(row: Row, spec: RunSpec, metric: str, definition: Mapping[str, Any], source: str) -> dict[str, Any] | None:
    if not is_benchmark(spec.data.name):
        return None
    found = reported(spec.data.name, spec.method.name, metric, conditions=conditions_of(spec), source=source)
    if not found:
        return None
    best, line, mean = found[0], found[0].line, row.cells[metric].mean
    notes = [*_incomplete(spec, definition), *best.notes]
    return {
        "row": row.label,
        "metric": metric,
        "source": line.source,
        "printed_method": line.printed_method,
        "printed_metric": line.printed_metric,
        "origin": line.origin,
        "reported": best.value,
        "spread": line.spread,
        "ours": 100 * mean,
        "difference": 100 * mean - best.value,
        "note": "; ".join(notes),
        "notes": notes,
        "others": sorted({one.line.source for one in found[1:]} - {line.source}),
    }


def _incomplete(spec: RunSpec, definition: Mapping[str, Any]) -> list[str]:
    """A note if the study allows an incomplete copy of the paper's data."""
    alone = definition["clusterer"] != "none" or definition["self_excluded"] == "id"
    ours = definition["queries"] + (0 if alone else definition["gallery"])
    official = benchmarks()[spec.data.name]["test_images"]
    if not spec.data.settings.get("allow_incomplete") or ours == official:
        return []
    return [f"not the official data: {ours:,} test images here, {official:,} in the paper"]


def _fields(one: Mapping[str, Any]) -> list[str]:
    spread = f" ±{one['spread']:g}" if one["spread"] is not None else ""
    quoted = "" if one["origin"] == "own" else f", {one['origin']}"
    return [one["source"] + quoted, f"{one['reported']:g}{spread}", f"{one['ours']:.2f}", f"{one['difference']:+.2f}"]


def _numbered(found: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], list[int]]:
    texts = list(dict.fromkeys(text for one in found for text in one["notes"]))
    return {_key(one): [1 + texts.index(text) for text in one["notes"]] for one in found}


def _notes(found: Sequence[Mapping[str, Any]]) -> list[str]:
    texts = dict.fromkeys(text for one in found for text in one["notes"])
    return [*(f"[{number}] {text}." for number, text in enumerate(texts, 1)), _EXPLAINED]


def _key(one: Mapping[str, Any]) -> tuple[str, str]:
    return one["row"], one["metric"]


def _name(value: Any) -> Any:
    """The name of a part: `semihard` for `{semihard: {mode: closest}}`."""
    return next(iter(value)) if isinstance(value, Mapping) and value else value
