"""Bytes per image against score for every leaderboard row, as a terminal table, Markdown, CSV and JSON."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from levelfield.evaluation.compacting import form_names
from levelfield.files.writing import write_forms
from levelfield.studies.leaderboard.compact import CompactCell, CompactTable
from levelfield.table import Column, Table

NAME = "compact"  # of the files, and among what could not be made
_SHORT = {"whitened": "white"}  # so that the eleven forms of 128 numbers fit 80 columns
_MEANS = "Means over seeds. int8, bits and whitened are fitted on training classes."
_INTERVALS = "Intervals: 95 %, over test classes, of the mean over seeds; retraining is not included."


def write_compact(scores: CompactTable, folder: Path) -> list[Path]:
    """Write compact.json, .csv and .md; returns the paths."""
    return write_forms(folder, NAME, asdict(scores), csv=compact_csv(scores), markdown=compact_markdown(scores))


def compact_csv(scores: CompactTable) -> str:
    """One line per row and form: forms of different rows may have different sizes."""
    parts = ("mean", "low", "high", "difference", "difference_low", "difference_high")
    headings = [f"{scores.metric} {part.replace('_', ' ')}" for part in parts]
    rows = [
        [row.label, row.dim, name, cell.bytes, *(getattr(cell, part) for part in parts), len(row.seeds)]
        for row in scores.rows
        for name, cell in row.cells.items()
    ]
    return Table(["method", "dim", "stored as", "bytes", *headings, "seeds"], rows).csv()


def compact_markdown(scores: CompactTable) -> str:
    parts = [f"{dim} dimensions.\n\n{table.markdown()}" for dim, table in compact_tables(scores).items()]
    return "\n\n".join([f"# {_title(scores)}", *parts, "\n".join(compact_notes(scores))]) + "\n"


def show_compact(scores: CompactTable, console: Console) -> None:
    """Print the scores without intervals, which are in the files."""
    console.print(f"\n{_title(scores)}, by form and bytes per image", style="italic", highlight=False)
    for table in compact_tables(scores, intervals=False).values():
        table.show(console)
    _, *left_out = compact_notes(scores)
    short = "".join(f"{brief}: {word}. " for word, brief in _SHORT.items())
    for line in [f"{short}{_MEANS} Intervals and differences from float32: {NAME}.csv.", *left_out]:
        console.print(line, highlight=False)


def compact_tables(scores: CompactTable, *, intervals: bool = True) -> dict[int, Table]:
    """One table for each number of dimensions, usually a single one: forms of equal size have the same bytes."""
    tables = {}
    for dim in dict.fromkeys(row.dim for row in scores.rows):
        rows = [row for row in scores.rows if row.dim == dim]
        sizes = {name: cell.bytes for row in rows for name, cell in row.cells.items()}
        forms = [name for name in form_names(dim) if name in sizes]
        columns = [
            Column(f"{name} ({sizes[name]} bytes)", True, f"{_two_lines(name)}\n{sizes[name]} B", group=name)
            for name in forms
        ]
        cells = [[row.label, *(_score(row.cells.get(name), intervals) for name in forms)] for row in rows]
        tables[dim] = Table([Column("method", width=12), *columns], cells)
    return tables


def compact_notes(scores: CompactTable) -> list[str]:
    return [f"{_MEANS} {_INTERVALS}", *(f"Left out: {text}" for text in scores.left_out)]


def _title(scores: CompactTable) -> str:
    return f"Compact embeddings: {scores.metric}"


def _score(cell: CompactCell | None, interval: bool) -> str | None:
    """The score as text.

    >>> _score(CompactCell(64, 0.5, 0.41, 0.59), True), _score(CompactCell(64, 0.5), True)
    ('0.500 (0.410-0.590)', '0.500')
    """
    if cell is None:
        return None
    return f"{cell.mean:.3f}" + (f" ({cell.low:.3f}-{cell.high:.3f})" if interval and cell.low is not None else "")


def _two_lines(name: str) -> str:
    """The name of a form in a narrow column.

    >>> _two_lines("float32"), _two_lines("whitened 64"), _two_lines("int8")
    ('float\\n32', 'white\\n64', 'int8\\n')
    """
    word, _, number = name.replace("float", "float ").partition(" ")
    return f"{_SHORT.get(word, word)}\n{number}"
