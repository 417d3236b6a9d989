"""Bytes per image against score for every leaderboard row, as a terminal table, Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from levelfield.evaluation.compacting import form_names
from levelfield.files.writing import write_json, write_text
from levelfield.reports.leaderboard.widths import divided
from levelfield.studies.leaderboard.compact import CompactCell, CompactRow, CompactTable

NAME = "compact"  # of the files, and among what could not be made
_LABEL = 12  # columns of a method's name before it is wrapped
_MARGINS = 2
_UNKNOWN = "-"
_SHORT = {"whitened": "white"}  # so that the eleven forms of 128 numbers fit 80 columns
_NOTES = (
    "Means over seeds. int8, bits and whitened are fitted on training classes.",
    "Intervals: 95 %, over test classes, of the mean over seeds; retraining is not included.",
)


@dataclass(frozen=True)
class OfSize:
    """The rows with embeddings of the same size, whose forms have the same bytes."""

    dim: int
    rows: list[CompactRow]

    @property
    def bytes(self) -> dict[str, int]:
        """Bytes of one image by form, in the order of the columns."""
        known = {name: cell.bytes for row in self.rows for name, cell in row.cells.items()}
        return {name: known[name] for name in form_names(self.dim) if name in known}

    def cells(self, row: CompactRow) -> list[CompactCell | None]:
        return [row.cells.get(name) for name in self.bytes]


def by_size(table: CompactTable) -> list[OfSize]:
    """One part for each size of embedding: usually a single one."""
    sizes = dict.fromkeys(row.dim for row in table.rows)
    return [OfSize(dim, [row for row in table.rows if row.dim == dim]) for dim in sizes]


def write_compact(table: CompactTable | None, folder: Path) -> list[Path]:
    """Write compact.json, .csv and .md; returns the paths."""
    if table is None:
        return []
    write_json(folder / f"{NAME}.json", asdict(table))
    write_text(folder / f"{NAME}.csv", compact_csv(table))
    write_text(folder / f"{NAME}.md", compact_markdown(table))
    return [folder / f"{NAME}.{suffix}" for suffix in ("json", "csv", "md")]


def compact_csv(table: CompactTable) -> str:
    """One line per row and form: forms of different rows may have different sizes."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    parts = ("mean", "low", "high", "difference", "difference low", "difference high")
    writer.writerow(["method", "dim", "stored as", "bytes", *(f"{table.metric} {part}" for part in parts), "seeds"])
    for row in table.rows:
        for name, cell in row.cells.items():
            apart = (cell.difference, cell.difference_low, cell.difference_high)
            values = ["" if value is None else f"{value:.6f}" for value in (cell.mean, cell.low, cell.high, *apart)]
            writer.writerow([row.label, row.dim, name, cell.bytes, *values, len(row.seeds)])
    return text.getvalue()


def compact_markdown(table: CompactTable) -> str:
    lines = [f"# {title(table)}"]
    for part in by_size(table):
        head = ["method", *headings(part)]
        lines += ["", f"{part.dim} dimensions.", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        for row in part.rows:
            fields = [row.label.replace("|", "\\|"), *map(with_interval, part.cells(row))]
            lines.append("| " + " | ".join(fields) + " |")
    return "\n".join([*lines, "", *notes(table, intervals=True)]) + "\n"


def show_compact(table: CompactTable | None, console: Console) -> None:
    """Print the scores without intervals, which are in the files, if there is a table."""
    if table is None:
        return
    console.print()
    console.print(f"{title(table)}, by form and bytes per image", style="italic", highlight=False)
    for part in by_size(table):
        for shown in _tables(part, console.width):
            console.print(shown)
    for line in notes(table, intervals=False):
        console.print(line, soft_wrap=False, highlight=False)


def title(table: CompactTable) -> str:
    return f"Compact embeddings: {table.metric}"


def headings(part: OfSize) -> list[str]:
    return [f"{name} ({size} bytes)" for name, size in part.bytes.items()]


def with_interval(cell: CompactCell | None) -> str:
    """The score as text.

    >>> with_interval(CompactCell(64, 0.5, 0.41, 0.59)), with_interval(CompactCell(64, 0.5)), with_interval(None)
    ('0.500 (0.410-0.590)', '0.500', '-')
    """
    if cell is None:
        return _UNKNOWN
    return f"{cell.mean:.3f}" + ("" if cell.low is None else f" ({cell.low:.3f}-{cell.high:.3f})")


def notes(table: CompactTable, *, intervals: bool) -> list[str]:
    """Sentences below the table. intervals: whether it shows them; if not, it is the terminal's."""
    lines = list(_NOTES)
    if not intervals:
        short = "".join(f"{brief}: {word}. " for word, brief in _SHORT.items())
        lines = [f"{short}{_NOTES[0]} Intervals and differences from float32: {NAME}.csv."]
    return lines + [f"Left out: {text}" for text in table.left_out]


def _tables(part: OfSize, width: int) -> Iterator[Table]:
    """One table; forms that do not fit follow in another."""
    heads = {name: f"{_two_lines(name)}\n{size} B" for name, size in part.bytes.items()}
    widths = {name: max(len("0.000"), *map(len, head.split("\n"))) for name, head in heads.items()}
    for names in divided(widths, width - _MARGINS - _LABEL):
        table = Table(box=SIMPLE_HEAD, padding=0, pad_edge=False)
        table.add_column("method", overflow="fold", min_width=_LABEL)
        for name in names:
            table.add_column(heads[name], justify="right", no_wrap=True)
        for row in part.rows:
            cells = [row.cells.get(name) for name in names]
            table.add_row(row.label, *(_UNKNOWN if cell is None else f"{cell.mean:.3f}" for cell in cells))
        yield table


def _two_lines(name: str) -> str:
    """The name of a form in a narrow column.

    >>> _two_lines("float32"), _two_lines("whitened 64"), _two_lines("int8")
    ('float\\n32', 'white\\n64', 'int8\\n')
    """
    word, _, number = name.replace("float", "float ").partition(" ")
    return f"{_SHORT.get(word, word)}\n{number}"
