"""Published results for the terminal: a list of tables, one table, or all results of a method."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from levelfield.papers.published import Line, Table, ceiling, papers
from levelfield.reports.leaderboard.widths import divided

_SETTINGS = ("origin", "backbone", "dim", "protocol", "batch", "image", "sampler", "switch")
_SHORT = {
    "mlrc-concatenated": "joined",
    "mlrc-separated": "separated",
    "resnet50": "ResNet-50",
    "bninception": "BN-Inception",
}
_NAME = 26  # columns of a method's name before it is wrapped


def as_list(chosen: Iterable[Table]) -> RenderableType:
    """One line per table, under its paper."""
    grid = _grid("paper", "table", "datasets", "what")
    seen = []
    for one in chosen:
        grid.add_row("" if one.paper in seen else one.paper, one.name, ", ".join(one.datasets), Text(one.about))
        seen += [one.paper]
    titles = [Text(f"{paper}: {title}") for paper, title in papers().items() if paper in seen]
    return Group(grid, *titles)


def as_terminal(one: Table, *, width: int = 80) -> RenderableType:
    """The table as printed, one grid per dataset, split by metric if it is too wide."""
    shown: list[RenderableType] = [Text(f"{one.paper} {one.name}: {one.about} (per cent)", style="bold")]
    for dataset in one.datasets:
        lines = [line for line in one.lines if line.dataset == dataset]
        shown += [Text(f"{dataset}:") if len(one.datasets) > 1 else Text(""), *_grids(lines, width)]
    return Group(*shown, *map(Text, remarks(one)))


def remarks(one: Table) -> list[str]:
    """Notes needed to read the table: meaning of ±, conditions, suspect numbers, ceilings."""
    conditions = {
        key: value for key, value in one.conditions.items() if key not in ("stated_in_paper", "from_released_code")
    }
    lines = [f"{key.replace('_', ' ')}: {value}" for key, value in conditions.items()]
    lines += [f"missing: {one.missing}"] if one.missing else []
    lines += [f"remark: {one.remarks}"] if one.remarks else []
    lines += [
        f"{' and '.join(dict.fromkeys(line.printed_metric for line in one.lines if line.suspect == why))}: {why}"
        for why in dict.fromkeys(line.suspect for line in one.lines if line.suspect)
    ]
    if any(line.printed_metric == "mAP@C" for line in one.lines):
        lines += [
            f"mAP@C and mAP@1000 divide by the class size, counting the query: at most "
            f"{100 * ceiling(dataset):.1f} % on {dataset}"
            for dataset in one.datasets
        ]
    return lines


def of_method(method: str, metric: str, lines: Sequence[Line]) -> RenderableType:
    """Published results of a method in one metric, one grid per dataset."""
    shown: list[RenderableType] = [Text(f"{method}: {metric} as reported (per cent)", style="bold")]
    for dataset in dict.fromkeys(line.dataset for line in lines):
        own = [line for line in lines if line.dataset == dataset]
        grid = _grid(f"on {dataset}", "as printed", "backbone", "dim", "setting", numbers=metric)
        for line in own:
            parts = [
                line.protocol if "mlrc" in line.protocol else "",
                line.sampler,
                f"{line.image} px" if line.image not in ("", "224") else "",
                "" if line.origin == "own" else line.origin,
            ]
            setting = ", ".join(_SHORT.get(text, text) for text in parts if text)
            backbone, value = _SHORT.get(line.backbone, line.backbone), _cell(line, line.decimals)
            grid.add_row(line.source, Text(line.printed_method), backbone, line.dim, Text(setting), value)
        shown.append(grid)
    odd = dict.fromkeys(f"{line.source}, {line.printed_metric}: {line.suspect}" for line in lines if line.suspect)
    return Group(*shown, *map(Text, odd))


def as_csv(lines: Sequence[Line]) -> str:
    """One line per number."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = [one.name for one in fields(Line)]
    writer.writerow(columns)
    writer.writerows([_plain(getattr(line, column)) for column in columns] for line in lines)
    return text.getvalue()


def _grids(lines: list[Line], width: int) -> Iterator[RenderableType]:
    """Methods by metrics. A setting that differs between rows has a column; common settings are stated once."""
    settings = {
        key: [value for value in dict.fromkeys(_setting(line, key) for line in lines) if value] for key in _SETTINGS
    }
    varied = [key for key, values in settings.items() if len(values) > 1]
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    decimals = max(line.decimals for line in lines)
    for line in lines:
        head = (line.printed_method, *(_setting(line, key) for key in varied))
        rows.setdefault(head, {})[line.printed_metric] = _cell(line, decimals)
    metrics = list(dict.fromkeys(line.printed_metric for line in lines))
    method = min(max(len(head[0]) for head in rows), _NAME)
    taken = 2 + method + sum(max(map(len, [key, *settings[key]])) + 1 for key in varied)  # 2: the margins
    widths = {metric: max(len(metric), *(len(cells.get(metric, "-")) for cells in rows.values())) for metric in metrics}
    for part in divided(widths, width - taken):
        grid = _grid("method", *varied)
        grid.columns[0].min_width = method
        for metric in part:
            grid.add_column(metric, justify="right", no_wrap=True)
        for head, cells in rows.items():
            grid.add_row(Text(head[0]), *head[1:], *(cells.get(metric, "-") for metric in part))
        yield grid
    same = [f"{key} {values[0]}" for key, values in settings.items() if len(values) == 1]
    if same:
        yield Text(f"where stated: {', '.join(same)}")


def _grid(*columns: str, numbers: str = "") -> Grid:
    grid = Grid(box=SIMPLE_HEAD, padding=0, pad_edge=False)
    for name in columns:
        grid.add_column(name, overflow="fold")
    if numbers:
        grid.add_column(numbers, justify="right", no_wrap=True)
    return grid


def _setting(line: Line, key: str) -> str:
    value = getattr(line, key)
    return "" if value is None else _SHORT.get(str(value), str(value))


def _cell(line: Line, decimals: int) -> str:
    if line.value is None:
        return "-"
    spread = f" ±{line.spread:.{decimals}f}" if line.spread is not None else ""
    return f"{line.value:.{decimals}f}{spread}" + ("?" if line.suspect else "")


def _plain(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict) else "" if value is None else value
