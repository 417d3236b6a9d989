"""The papers' result tables, number by number, with our names added."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from levelfield.errors import unknown

_PROTOCOLS = {"ImageNet": "closed", "In-Shop": "query-gallery"}  # where a table states none


@dataclass(frozen=True)
class Line:
    """One published number, in per cent, with our names.

    method, metric: our names; empty if not implemented. settings: settings in the published name (miner, variant).
    value: None if the paper has a dash or is illegible. spread: the number after ±.
    origin: `own` (trained by the paper), `quoted`, `reproduced` (third-party code run again) or `not stated`.
    """

    paper: str
    table: str
    printed_method: str
    method: str
    settings: Mapping[str, Any]
    dataset: str
    backbone: str
    dim: str
    protocol: str
    batch: str
    image: str
    sampler: str
    switch: float | None
    origin: str
    printed_metric: str
    metric: str
    value: float | None
    spread: float | None
    note: str
    suspect: str = ""
    decimals: int = 0

    @property
    def source(self) -> str:
        return f"{self.paper} {self.table}"


@dataclass(frozen=True)
class PaperTable:
    """One results table. conditions: as stated in the paper or its code; remarks and missing: irregularities."""

    paper: str
    name: str
    about: str
    lines: tuple[Line, ...]
    conditions: Mapping[str, Any] = field(default_factory=dict)
    remarks: str = ""
    missing: str = ""

    @property
    def datasets(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(line.dataset for line in self.lines))


@cache
def tables() -> tuple[PaperTable, ...]:
    """Every table, by paper and number.

    >>> [table.name for table in tables() if table.paper == "roth2020"][:3]
    ['table3', 'table4', 'table5']
    """
    described = entries_of("tables.json")
    return tuple(_table(entry) for entry in sorted(described, key=lambda entry: (entry["paper"], entry["table"])))


def table(paper: str, name: str) -> PaperTable:
    """One table, by name or number.

    >>> table("roth2020", "table4").about, table("roth2020", "4").datasets
    ('objectives on CUB', ('cub',))
    >>> table("lim2022", "table9x")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    levelfield.errors.UnknownName: Unknown table of lim2022 'table9x'. Did you mean 'table9'? ...
    """
    if paper not in papers():
        raise unknown("paper", paper, papers(), see="levelfield published")
    wanted = re.sub(r"^(table)?[ _.]*", "table", name.lower())
    by_name = {table.name: table for table in tables() if table.paper == paper}
    if wanted not in by_name:
        raise unknown(f"table of {paper}", name, by_name, see="levelfield published")
    return by_name[wanted]


def papers() -> dict[str, str]:
    """The papers by name.

    >>> papers()["roth2020"].split(",")[0]
    'Roth et al. 2020'
    """
    return dict(names()["papers"])


@cache
def names() -> dict[str, Any]:
    """Our names of the papers' methods, datasets, backbones and metrics, and the published numbers that are wrong."""
    return dict(json.loads(_read("names.json")))


def architecture(backbone: str) -> str:
    """Our name of a network without its pretraining, which timm writes after a dot (or before, in older names).

    >>> architecture("resnet50.tv_in1k"), architecture("tv_resnet50"), architecture("ResNet50")
    ('resnet50', 'resnet50', 'resnet50')
    """
    plain = backbone.partition(".")[0].removeprefix("tv_")
    return str(names()["backbones"].get(plain, plain))


@cache
def benchmarks() -> dict[str, dict[str, Any]]:
    """Numbers of images and classes of the papers' datasets, by our name.

    >>> benchmarks()["sop"]["test_classes"]
    11316
    """
    return {entry["name"]: entry for entry in names()["datasets"].values()}


def ceiling(dataset: str) -> float:
    """Maximum of an average precision that is divided by the class size including the query.

    A perfect class of c images gives (c - 1) / c to each of its c queries, so the mean over queries is sum (c - 1) /
    sum c = 1 - classes / images, for any sizes.

    >>> round(ceiling("sop"), 3), round(ceiling("cub"), 3)
    (0.813, 0.983)
    """
    counts = benchmarks()[dataset]
    return float(1 - counts["test_classes"] / counts["test_images"])


def metric_entry(printed: str, paper: str) -> dict[str, Any]:
    """Facts of a published metric, with `name`, `also` and `near` for its own K; empty if unknown.

    >>> metric_entry("R@10", "seidenschwarz2021")["name"], metric_entry("NMI", "fehervari2019")["name"]
    ('recall@10', 'nmi[geometric]')
    """
    stem, at, number = printed.partition("@")
    for entry in names()["metrics"]:
        if paper not in entry.get("papers", [paper]):
            continue
        if entry["printed"] == printed:
            return dict(entry)
        if at and number.isdecimal() and entry["printed"] == f"{stem}@K":
            also = entry.get("also", []) if number == "1" else []  # recall@1 equals precision@1
            return {**entry, "name": entry["name"].replace("K", number), "also": also}
    return {}


def _table(described: Mapping[str, Any]) -> PaperTable:
    rows = csv.DictReader(_read("csv", described["csv"]).splitlines())
    paper, name = described["paper"], f"table{described['table']}"
    lines = tuple(_line(paper, described["table"], row) for row in rows)
    details = {key: described[key] for key in ("conditions", "remarks", "missing")}
    return PaperTable(paper, name, described["about"], lines, **details)


def _line(paper: str, number: int, row: Mapping[str, str]) -> Line:
    known = names()
    suspect = ""
    for wrong in known["suspect"]:
        same = (wrong["paper"], wrong["table"]) == (paper, number) and row["metric"] in wrong["metrics"]
        if same and wrong.get("method", row["method"]) == row["method"] and row["origin"] == "own":
            suspect = suspect or str(wrong["why"])
    variant = f"{row['method']} [{row['protocol'].partition('-')[0]}]"  # the name may have another meaning there
    method = known["methods"].get(variant) or known["methods"].get(row["method"]) or {}
    as_printed = {key: row[key] for key in ("dim", "batch", "sampler", "origin", "note")}
    return Line(
        paper=paper,
        table=f"table{number}",
        printed_method=row["method"],
        method=method.get("method", ""),
        settings=method.get("settings", {}),
        dataset=known["datasets"][row["dataset"]]["name"],
        backbone=architecture(row["backbone"]),
        protocol=row["protocol"] or _PROTOCOLS.get(row["dataset"], "standard"),
        image=row["image_size"],
        switch=_number(row["p_switch"]),
        printed_metric=row["metric"],
        metric=metric_entry(row["metric"], paper).get("name", ""),
        value=_number(row["mean"]),
        spread=_number(row["ci_or_std"]),
        suspect=suspect,
        decimals=len(row["mean"].partition(".")[2]),
        **as_printed,
    )


def _number(text: str) -> float | None:
    return float(text) if text else None


def entries_of(name: str) -> list[dict[str, Any]]:
    """The entries of a JSON file of this folder."""
    return list(json.loads(_read(name))["entries"])


def _read(*parts: str) -> str:
    return files(__package__).joinpath(*parts).read_text(encoding="utf-8")
