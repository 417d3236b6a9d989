"""Leaderboard rows as tables that fit the terminal: names are wrapped, numbers are never truncated."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table

from levelfield.reports.leaderboard import cells, costs
from levelfield.reports.leaderboard.widths import divided
from levelfield.studies.leaderboard.board import Leaderboard
from levelfield.studies.leaderboard.rows import Row, networks_differ

_NAME = 20  # columns of a method's name before it is wrapped
_LETTERS = 4  # columns of its deviations
_MARGINS = 2


def board_tables(board: Leaderboard, letters: dict[str, str], width: int) -> list[Table]:
    """One table; metrics that do not fit follow in another. letters: the letter of each deviation."""
    first = board.metrics[0]
    ranks = [str(rank) for rank, _ in enumerate(board.rows, 1)]
    marked = {"dev": ["".join(letters[text] for text in row.deviations) or "-" for row in board.rows]}
    main = {
        # of the representation only the width; the deviations list ensembles
        first: [cells.figure(row.cells[first]).split(",")[0] for row in board.rows],
        "95 % interval": [cells.interval(row.cells[first]) for row in board.rows],
        "sd": [cells.spread(row.cells[first]) for row in board.rows],
    }
    others = {
        cells.heading(metric): [f"{row.cells[metric].mean:.3f}" for row in board.rows] for metric in board.metrics[1:]
    }
    paid = {"sec": [f"{row.seconds:.1f}" if row.trained else "-" for row in board.rows]}
    if networks_differ(board.rows):
        paid["MFLOP"] = [costs.network_fields(row)[1] for row in board.rows]
    names = min(_NAME, max(len("method"), *(len(row.label) for row in board.rows)))
    room = width - _MARGINS - len(ranks[-1]) - 1 - names
    taken = sum(_width(name, texts) + 1 for name, texts in {**main, **paid}.items())
    taken += min(_width("dev", marked["dev"]), _LETTERS) + 1
    parts = divided({name: _width(name, texts) for name, texts in others.items()}, room, first=room - taken)
    beside, *further = [{name: others[name] for name in part} for part in parts]
    tables = [_table(board.rows, ranks, names, {**main, **beside, **paid}, marked)]
    tables[0].title = f"{board.study}: best first by {first}"
    return tables + [_table(board.rows, ranks, names, columns, {}) for columns in further]


def _width(name: str, texts: list[str]) -> int:
    return max(map(len, [name, *texts]))


def _table(
    rows: list[Row], ranks: list[str], names: int, figures: dict[str, list[str]], folded: dict[str, list[str]]
) -> Table:
    table = Table(title_justify="left", box=SIMPLE_HEAD, padding=0, pad_edge=False)
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("method", overflow="fold", min_width=names)
    for name in figures:
        table.add_column(name, justify="right", no_wrap=True)
    for name in folded:
        table.add_column(name, overflow="fold")
    for k, row in enumerate(rows):
        style = "bold" if row.tied_with_best else "dim" if not row.trained else ""
        texts = [column[k] for column in (*figures.values(), *folded.values())]
        table.add_row(ranks[k], row.label, *texts, style=style)
    return table
