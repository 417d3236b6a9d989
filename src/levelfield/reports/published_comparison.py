"""Compare our scores with published ones, with possible reasons for differences."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from levelfield import objectives
from levelfield.papers.published import benchmarks, reported
from levelfield.studies import Leaderboard, PlannedRun, RunSpec
from levelfield.table import Column, Table, numbers

_SAMPLERS = {"spc_r": "SPC-R", "ddm": "DDM", "frd": "FRD", "greedy_coreset": "GC", "random": "random"}
_WHOLE = ("standard", "query-gallery")  # protocols that train on all training images of a benchmark
_TITLE = "Compared with published results (per cent)"


def with_published(board: Leaderboard, runs: Sequence[PlannedRun]) -> Leaderboard:
    """The board with `facts["published"]`: for each row and metric, the published score with the closest setting.

    Of equally close ones that of the table which the study repeats. Adds nothing for data without published results.
    """
    source = _table_of(board.study)
    by_row = {run.row: run.spec for run in reversed(runs)}
    conditions = {label: conditions_of(spec, runs) for label, spec in by_row.items() if spec.data.name in benchmarks()}
    entries = []
    for row, metric in product(board.rows, board.metrics):
        if row.label not in conditions:
            continue
        spec = by_row[row.label]
        how: dict[str, Any] = {"conditions": conditions[row.label], "source": source}
        scores = reported(spec.data.name, spec.method.name, metric, **how)
        if not scores:
            continue
        best, line, ours = scores[0], scores[0].line, 100 * row.cells[metric].mean
        definition = board.signatures[row.test_set][metric]
        alone = definition["clusterer"] != "none" or definition["self_excluded"] == "id"
        images = definition["queries"] + (0 if alone else definition["gallery"])
        official = benchmarks()[spec.data.name]["test_images"]
        notes = list(best.notes)
        if spec.data.settings.get("allow_incomplete") and images != official:
            notes.insert(0, f"not the official data: {images:,} test images here, {official:,} in the paper")
        entry = {
            "row": row.label,
            "metric": metric,
            **{name: getattr(line, name) for name in ("source", "printed_method", "printed_metric", "origin")},
            "reported": best.value,
            "spread": line.spread,
            "ours": ours,
            "difference": ours - best.value,
            "note": "; ".join(notes),
            "notes": notes,
            "others": sorted({score.line.source for score in scores[1:]} - {line.source}),
        }
        entries.append(entry)
    return replace(board, facts={**board.facts, "published": entries}) if entries else board


def published_table(board: Leaderboard, *, numbered: bool = False) -> Table | None:
    """Published beside ours; None if nothing was reported. numbered: notes are numbers explained below, for a terminal;
    otherwise each row has its note and the name of the method in the paper."""
    entries = board.facts.get("published", [])
    if not entries:
        return None
    texts = list(dict.fromkeys(text for entry in entries for text in entry["notes"]))
    rows = []
    for entry in entries:
        source = entry["source"] if entry["origin"] == "own" else f"{entry['source']}, {entry['origin']}"
        spread = f" ±{entry['spread']:g}" if entry["spread"] is not None else ""
        figures = [f"{entry['reported']:g}{spread}", f"{entry['ours']:.2f}", f"{entry['difference']:+.2f}"]
        note = "".join(f"[{1 + texts.index(text)}]" for text in entry["notes"])
        last = [note] if numbered else [entry["printed_method"], entry["note"] or None]
        rows.append([entry["row"], entry["metric"], source, *figures, *last])
    columns: list[Column | str] = ["method", "metric", "source", *numbers("reported", "ours", "difference")]
    columns += ["notes"] if numbered else ["as printed", "note"]
    notes = [f"[{number}] {text}." for number, text in enumerate(texts, 1)] if numbered else []
    return Table(columns, rows, _TITLE, [*notes, _EXPLAINED])


_EXPLAINED = (
    "The reported number is the one whose setting is closest to ours in protocol, backbone, dim, image size, batch, "
    "sampler, switch, epochs and selection; views, optimiser, rates and weights are not compared. See "
    "`levelfield published METHOD` and `levelfield published PAPER TABLE`."
)


def conditions_of(spec: RunSpec, runs: Sequence[PlannedRun] = ()) -> dict[str, Any]:
    """The conditions of a run, with the keys of `published.reported`. `runs`: those of its study."""
    conditions, settings = spec.conditions, resolved_settings(spec.method.name, spec.method.settings)
    if spec.method.name == "ensemble":  # papers name the joined method, a study the label of its row
        settings["of"] = next((run.spec.method.name for run in runs if run.label == settings["of"]), settings["of"])
    protocol = spec.protocol.name
    if protocol == "mlrc":
        protocol = "mlrc-concatenated" if spec.fold is None else "mlrc-separated"
    batch = str(settings.pop("batch", None) or conditions.batch)
    layout = conditions.model_copy(update={"batch": batch}).layout
    batching = _name(settings.pop("batching", None)) or layout.batching
    dim = settings.get("meta_classes", conditions.dim)  # DREML has a number for each meta class
    counts = benchmarks().get(spec.data.name)
    epoch = conditions.batches_per_epoch or (counts["train_images"] / layout.batch_size if counts else None)
    return {
        **settings,
        "protocol": protocol,
        "backbone": conditions.backbone,
        "dim": dim * (len(spec.needs) if spec.joined else 1),
        "image": conditions.image,
        "batch": layout.batch_size,
        "sampler": _SAMPLERS.get(batching, f"SPC-{layout.per_class}" if layout.per_class else batching),
        "selection": "last" if conditions.select == "budget" else "validation",
        "networks": len(spec.needs) or None,
        "epochs": round(conditions.steps / epoch) if epoch and protocol in _WHOLE else None,
    }


def resolved_settings(name: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """A method's settings, including defaults and preset; a miner, refinement or teacher by name only.

    >>> settings = resolved_settings("triplet", {"preset": "roth2020/cub"})
    >>> settings["miner"], settings["margin"]
    ('distance_weighted', 0.2)
    """
    settings: dict[str, Any] = {}
    if name in objectives.names():
        facts = objectives.describe(name)
        settings = {**facts.defaults, **facts.presets.get(str(chosen.get("preset")), {})}
    settings |= {key: value for key, value in chosen.items() if key != "preset"}
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
    parts = re.match(r"(\w+)-(table\d+)(-|$)", study)
    return f"{parts[1]} {parts[2]}" if parts else ""


def _name(value: Any) -> Any:
    """The name of a part: `semihard` for `{semihard: {mode: closest}}`."""
    return next(iter(value)) if isinstance(value, Mapping) and value else value
