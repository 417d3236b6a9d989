"""One table with five outputs: terminal, Markdown, CSV, JSON and HTML."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from levelfield.errors import import_extra

if TYPE_CHECKING:  # rich is imported when a table is printed
    from rich.console import Console, Group
    from rich.table import Table as RichTable

_MARGINS = 2  # of a table in the terminal


@dataclass(frozen=True)
class Column:
    """A column and how it is laid out.

    right: aligned right, as numbers are, and never wrapped. short: heading in the terminal, if it is another one; may
    have several lines. width: characters in the terminal before a text is wrapped. group: columns of one group move to
    a further table together if the terminal is too narrow; columns without a group stay in the first one.
    """

    heading: str
    right: bool = False
    short: str = ""
    width: int = 0
    group: str = ""


def numbers(*headings: str, group: str = "") -> list[Column]:
    """Columns of numbers."""
    return [Column(heading, right=True, group=group) for heading in headings]


@dataclass(frozen=True)
class Table:
    """Rows of cells below the headings of their columns, with a title above and notes below.

    keys: leading columns that name a row; a table that is divided repeats them. styles: of each row in the terminal.
    ruled: rows that a line follows in the terminal. A cell of None is unknown.

    >>> table = Table(["method", *numbers("recall@1")], [["margin", "0.731"], ["a|b", None]], "demo")
    >>> print(table.markdown())
    # demo
    <BLANKLINE>
    | method | recall@1 |
    | --- | ---: |
    | margin | 0.731 |
    | a\\|b | - |
    >>> table.csv()
    'method,recall@1\\nmargin,0.731\\na|b,\\n'
    """

    columns: Sequence[Column | str]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    notes: Sequence[str] = ()
    keys: int = 1
    styles: Sequence[str] = ()
    ruled: Sequence[int] = ()

    @property
    def layout(self) -> list[Column]:
        return [Column(column) if isinstance(column, str) else column for column in self.columns]

    def texts(self) -> list[list[str]]:
        """The cells for people: `-` where a value is unknown."""
        return [["-" if cell is None else str(cell) for cell in row] for row in self.rows]

    def markdown(self, *, level: int = 1) -> str:
        """The title as a heading of this level, the table, and the notes. Line breaks in a cell become spaces."""
        heads = [column.heading for column in self.layout]
        rules = " | ".join("---:" if column.right else "---" for column in self.layout)
        escaped = [[text.replace("|", "\\|").replace("\n", " ") for text in row] for row in [heads, *self.texts()]]
        first, *others = (f"| {' | '.join(row)} |" for row in escaped)
        title = f"{'#' * level} {self.title}" if self.title else ""
        return "\n\n".join(filter(None, [title, "\n".join([first, f"| {rules} |", *others]), "\n".join(self.notes)]))

    def csv(self, *, digits: int | None = 6) -> str:
        """Headings and rows for programs. digits: of a fraction; None: as many as restore it. Unknown: empty."""
        text = io.StringIO()
        plain, quoted = (
            csv.writer(text, lineterminator="\n", quoting=kind) for kind in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL)
        )
        plain.writerow(column.heading for column in self.layout)
        for row in self.rows:
            cells = [f"{cell:.{digits}f}" if isinstance(cell, float) and digits is not None else cell for cell in row]
            # without quotes, \r would end a line
            (quoted if any("\r" in str(cell) for cell in cells) else plain).writerow(cells)
        return text.getvalue()

    def as_data(self) -> dict[str, Any]:
        """Plain data for JSON, with the texts for people."""
        heads = [column.heading for column in self.layout]
        return {"title": self.title, "note": " ".join(self.notes), "columns": heads, "rows": self.texts()}

    def html(self) -> str:
        """An HTML table with a caption, and the notes below. All texts are escaped.

        >>> Table([], [["dim", "128"]], "<b>").html()
        '<table><caption>&lt;b&gt;</caption><tbody><tr><td>dim</td><td>128</td></tr></tbody></table>'
        """
        aligned = [' style="text-align: right"' if column.right else "" for column in self.layout]

        def line(tag: str, row: Iterable[str]) -> str:
            styled = zip(row, aligned or [""] * len(self.rows[0]), strict=True)
            return f"<tr>{''.join(f'<{tag}{style}>{escape(text)}</{tag}>' for text, style in styled)}</tr>"

        head = f"<thead>{line('th', [column.heading for column in self.layout])}</thead>" if self.columns else ""
        body = "".join(line("td", row) for row in self.texts())
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"<table><caption>{escape(self.title)}</caption>{head}<tbody>{body}</tbody></table>{notes}"

    def show(self, console: Console) -> None:
        """Print the table, divided if the terminal is too narrow."""
        console.print(self.terminal(console.width))

    def terminal(self, width: int = 80) -> Group:
        """Title, tables that fit the width, and notes. Names are wrapped; no number is truncated."""
        from rich.console import Group
        from rich.text import Text

        title = [Text(self.title, style="italic")] if self.title else []
        return Group(*title, *map(self._part, self._parts(width)), *map(Text, self.notes))

    def _parts(self, width: int) -> Iterator[list[int]]:
        """The columns of each part. Groups that do not fit follow in further parts."""
        every = range(len(self.layout))
        keys, groups = list(every[: self.keys]), [self.layout[k].group for k in every]
        fixed = [k for k in every[self.keys :] if not groups[k]]
        room = width - _MARGINS + 1 - sum(self._width(k) + 1 for k in keys)
        part, left = list(fixed), room - sum(self._width(k) + 1 for k in fixed)
        for group in dict.fromkeys(filter(None, groups)):
            members = [k for k in every if groups[k] == group]
            needed = sum(self._width(k) + 1 for k in members)
            if part and needed > left:
                yield [*keys, *sorted(part)]
                part, left = [], room
            part += members
            left -= needed
        yield [*keys, *sorted(part)]

    def _width(self, k: int) -> int:
        """Characters of a column, up to the width at which its texts are wrapped."""
        column = self.layout[k]
        texts = [column.short or column.heading, *(row[k] for row in self.texts())]
        longest = max(len(line) for text in texts for line in text.split("\n"))
        return min(longest, column.width or longest)

    def _part(self, columns: list[int]) -> RichTable:
        from rich.box import SIMPLE_HEAD
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(box=SIMPLE_HEAD, padding=0, pad_edge=False)
        for k in columns:
            column = self.layout[k]
            table.add_column(
                Text(column.short or column.heading),
                justify="right" if column.right else "left",
                overflow="fold",
                no_wrap=column.right,
                min_width=self._width(k) if column.width else None,
            )
        styles = self.styles or [""] * len(self.rows)
        for number, (row, style) in enumerate(zip(self.texts(), styles, strict=True)):
            table.add_row(*(Text(row[k]) for k in columns), style=style, end_section=number in self.ruled)
        return table


def frame(columns: Mapping[str, Any], *, index: str | None = None) -> Any:
    """pandas DataFrame of `columns`, one of which may be the index."""
    pandas = import_extra("pandas", "notebook", "to_pandas() needs pandas")
    table = pandas.DataFrame(dict(columns))
    return table if index is None else table.set_index(index)
