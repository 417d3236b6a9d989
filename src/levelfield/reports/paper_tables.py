"""Published results for the terminal: a list of tables, one table, or all results of a method."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import fields

from rich.console import Group, RenderableType
from rich.text import Text

from levelfield.papers.published import Line, PaperTable, ceiling, papers
from levelfield.table import Column, Table, numbers

_SETTINGS = ("origin", "backbone", "dim", "protocol", "batch", "image", "sampler", "switch")
_SHORT = {
    "mlrc-concatenated": "joined",
    "mlrc-separated": "separated",
    "resnet50": "ResNet-50",
    "bninception": "BN-Inception",
}


def as_list(tables: Iterable[PaperTable]) -> RenderableType:
    """One line per table, under its paper."""
    rows: list[list[str]] = []
    seen: list[str] = []
    for table in tables:
        rows.append(["" if table.paper in seen else table.paper, table.name, ", ".join(table.datasets), table.about])
        seen.append(table.paper)
    notes = [f"{paper}: {title}" for paper, title in papers().items() if paper in seen]
    return Table(["paper", "table", "datasets", "what"], rows, notes=notes).terminal()


def as_terminal(table: PaperTable, *, width: int = 80) -> RenderableType:
    """The table as printed, one part per dataset, divided by metric if it is too wide."""
    shown: list[RenderableType] = [Text(f"{table.paper} {table.name}: {table.about} (per cent)", style="bold")]
    for dataset in table.datasets:
        lines = [line for line in table.lines if line.dataset == dataset]
        shown += [Text(f"{dataset}:" if len(table.datasets) > 1 else ""), _of_dataset(lines).terminal(width)]
    return Group(*shown, *map(Text, remarks(table)))


def remarks(table: PaperTable) -> list[str]:
    """Notes needed to read the table: meaning of ±, conditions, suspect numbers, ceilings."""
    conditions = {
        key: value for key, value in table.conditions.items() if key not in ("stated_in_paper", "from_released_code")
    }
    lines = [f"{key.replace('_', ' ')}: {value}" for key, value in conditions.items()]
    lines += [f"missing: {table.missing}"] if table.missing else []
    lines += [f"remark: {table.remarks}"] if table.remarks else []
    lines += [
        f"{' and '.join(dict.fromkeys(line.printed_metric for line in table.lines if line.suspect == why))}: {why}"
        for why in dict.fromkeys(line.suspect for line in table.lines if line.suspect)
    ]
    if any(line.printed_metric == "mAP@C" for line in table.lines):
        lines += [
            f"mAP@C and mAP@1000 divide by the class size, counting the query: at most "
            f"{100 * ceiling(dataset):.1f} % on {dataset}"
            for dataset in table.datasets
        ]
    return lines


def of_method(method: str, metric: str, lines: Sequence[Line]) -> RenderableType:
    """Published results of a method in one metric, one grid per dataset."""
    shown: list[RenderableType] = [Text(f"{method}: {metric} as reported (per cent)", style="bold")]
    for dataset in dict.fromkeys(line.dataset for line in lines):
        rows = []
        for line in (line for line in lines if line.dataset == dataset):
            parts = [
                line.protocol if "mlrc" in line.protocol else "",
                line.sampler,
                f"{line.image} px" if line.image not in ("", "224") else "",
                "" if line.origin == "own" else line.origin,
            ]
            setting = ", ".join(_SHORT.get(text, text) for text in parts if text)
            backbone, value = _SHORT.get(line.backbone, line.backbone), _cell(line, line.decimals)
            rows.append([line.source, line.printed_method, backbone, line.dim, setting, value])
        columns: list[Column | str] = [f"on {dataset}", "as printed", "backbone", "dim", "setting", *numbers(metric)]
        shown.append(Table(columns, rows).terminal())
    odd = dict.fromkeys(f"{line.source}, {line.printed_metric}: {line.suspect}" for line in lines if line.suspect)
    return Group(*shown, *map(Text, odd))


def as_csv(lines: Sequence[Line]) -> str:
    """One line per number."""
    columns = [field.name for field in fields(Line)]
    values = [[getattr(line, column) for column in columns] for line in lines]
    rows = [[json.dumps(value) if isinstance(value, dict) else value for value in row] for row in values]
    return Table(columns, rows).csv(digits=None)


def _of_dataset(lines: list[Line]) -> Table:
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
    columns = [Column("method", width=26), *map(Column, varied)]
    columns += [Column(metric, right=True, group=metric) for metric in metrics]
    same = [f"{key} {values[0]}" for key, values in settings.items() if len(values) == 1]
    notes = [f"where stated: {', '.join(same)}"] if same else []
    cells = [[*head, *(scores.get(metric) for metric in metrics)] for head, scores in rows.items()]
    return Table(columns, cells, notes=notes, keys=1 + len(varied))


def _setting(line: Line, key: str) -> str:
    value = getattr(line, key)
    return "" if value is None else _SHORT.get(str(value), str(value))


def _cell(line: Line, decimals: int) -> str:
    if line.value is None:
        return "-"
    spread = f" ±{line.spread:.{decimals}f}" if line.spread is not None else ""
    return f"{line.value:.{decimals}f}{spread}" + ("?" if line.suspect else "")
