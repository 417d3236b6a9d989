"""The leaderboard as a terminal table, Markdown, CSV and JSON. All are made from the same rows."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.text import Text

from levelfield.files.writing import write_json, write_text
from levelfield.reports.leaderboard import cells
from levelfield.reports.leaderboard.answer import answer
from levelfield.reports.leaderboard.explanation import explanation
from levelfield.reports.leaderboard.verdicts import pairs_table, verdicts
from levelfield.reports.published_comparison import published_table
from levelfield.reports.split_leaks import leak_links
from levelfield.studies.leaderboard.board import Leaderboard
from levelfield.studies.leaderboard.rows import Row, networks_differ
from levelfield.table import Column, Table, numbers

_COMPARISONS = "Comparisons"


def write_all(board: Leaderboard, folder: Path) -> list[Path]:
    """Write leaderboard.json, .csv and .md; returns the paths."""
    write_json(folder / "leaderboard.json", board.as_data(), in_lines="comparisons")
    write_text(folder / "leaderboard.csv", as_csv(board))
    write_text(folder / "leaderboard.md", as_markdown(board))
    return [folder / f"leaderboard.{suffix}" for suffix in ("json", "csv", "md")]


def as_csv(board: Leaderboard) -> str:
    """One line per row: mean, interval and spread of every metric, cost, best on test, deviations, varied values."""
    varied = sorted({key for row in board.rows for key in row.variation})
    scores = [f"{cells.heading(metric)} {part}" for metric in board.metrics for part in cells.PARTS]
    texts = ("best_on_test", "best_on_test_gap", "deviations", "warnings")
    columns = ["rank", "method", *scores, "seeds", *cells.COST_COLUMNS, *texts, *varied]
    rows = []
    for rank, row in enumerate(board.rows, 1):
        values = [
            value
            for metric in board.metrics
            for cell in [row.cells[metric]]
            for value in (cell.mean, cell.low, cell.high, cell.spread)
        ]
        best = (None, None) if row.best_on_test is None else (row.best_on_test.best, row.best_on_test.gap)
        lists = ["; ".join(row.deviations), "; ".join(row.warnings)]
        # a varied value is written as the study has it, not with the digits of a score
        variation = [str(row.variation.get(key, "")) for key in varied]
        rows.append([rank, row.label, *values, len(row.seeds), *cells.cost_numbers(row), *best, *lists, *variation])
    return Table(columns, rows).csv()


def as_markdown(board: Leaderboard) -> str:
    """The leaderboard and its comparisons as a Markdown page."""
    pairs, published = pairs_table(board), published_table(board)
    blocks = [
        f"# {board.study}",
        "\n".join(answer(board)),
        board.limit,
        _table(board).markdown(),
        "\n".join([*explanation(board), *leak_links(board), *cells.front_lines(board)]),
        f"## {_COMPARISONS}",
        "\n".join(verdicts(board)),
        pairs.markdown() if pairs else "",
        "\n".join(["## Claims", "", *claims(board)]) if board.claims else "",
        published.markdown(level=2) if published else "",
    ]
    return "\n\n".join(filter(None, blocks)) + "\n"


def show(board: Leaderboard, console: Console, *, full: bool = True) -> None:
    """Print the answer, the leaderboard with its explanation, the comparisons, and the verdicts on claims."""
    console.print(terminal(board, width=console.width, full=full))


def terminal(board: Leaderboard, *, width: int = 80, full: bool = True) -> RenderableType:
    """The answer, and tables that fit the width: the interval of the first metric, deviations as letters explained
    below. full: every row's comparisons, not only the best row's."""
    letters = cells.letters(text for row in board.rows for text in row.deviations)
    notes = "; ".join(f"{letter}: {text}" for text, letter in letters.items())
    use, *sentences = answer(board)
    shown: list[RenderableType] = [Text(use, style="bold"), *map(Text, sentences), Text()]
    shown += [Text(board.limit), Text()] if board.limit else []
    shown += [_short_table(board, letters).terminal(width), *map(Text, explanation(board)), Text()]
    shown += [Text("Deviations from the conditions (the common value in brackets)", style="bold")]
    shown += [Text(f"  {notes}." if notes else "  none"), Text(), Text(_COMPARISONS, style="bold")]
    shown += map(Text, verdicts(board, full=full))
    published = published_table(board, numbered=True)
    shown += [Text(), published.terminal(width)] if published else []
    shown += [Text(), Text("Claims", style="bold"), *map(Text, claims(board))] if board.claims else []
    return Group(*shown)


def claims(board: Leaderboard) -> list[str]:
    """The verdict on each claim of the study."""
    return [f"- {one.text}" for one in board.claims]


def _table(board: Leaderboard) -> Table:
    """Every metric with its interval, the costs, and the deviations in words."""
    intervals = {metric: any(row.cells[metric].low is not None for row in board.rows) for metric in board.metrics}
    names = [
        name
        for metric in board.metrics
        for name in (cells.heading(metric), *(["95 % interval"] if intervals[metric] else []), "sd")
    ]
    network = networks_differ(board.rows)
    costs = [*cells.COST_HEADINGS, *(cells.NETWORK_HEADINGS if network else ())]

    def fields(row: Row) -> list[str]:
        scores = []
        for metric, cell in ((metric, row.cells[metric]) for metric in board.metrics):
            scores += [cells.score(cell), *([cells.interval(cell)] if intervals[metric] else []), cells.spread(cell)]
        paid = [*cells.costs(row), *(cells.network(row) if network else [])]
        return [row.label, *scores, *paid, ", ".join(row.deviations) or "none"]

    columns: list[Column | str] = [*numbers("#"), "method", *numbers(*names, *costs), "deviations (conditions)"]
    return Table(columns, [[rank, *fields(row)] for rank, row in enumerate(board.rows, 1)])


def _short_table(board: Leaderboard, letters: dict[str, str]) -> Table:
    """What fits a terminal: further metrics without intervals, deviations as letters."""
    first, *others = board.metrics
    network = ["MFLOP"] if networks_differ(board.rows) else []
    columns = [
        *numbers("#"),
        Column("method", width=20),
        *numbers(first, "95 % interval", "sd"),
        *(Column(cells.heading(metric), right=True, group=metric) for metric in others),
        *numbers("sec", *network),
        Column("dev", width=4),
    ]

    def fields(row: Row) -> list[str]:
        cell = row.cells[first]
        # of the representation only the width; the deviations list ensembles
        scores = [cells.score(cell).split(",")[0], cells.interval(cell), cells.spread(cell)]
        scores += [f"{row.cells[metric].mean:.3f}" for metric in others]
        paid = [f"{row.seconds:.1f}" if row.trained else "-", *(cells.network(row)[1:] if network else [])]
        return [row.label, *scores, *paid, "".join(letters[text] for text in row.deviations) or "-"]

    rows = [[rank, *fields(row)] for rank, row in enumerate(board.rows, 1)]
    styles = ["bold" if row.tied_with_best else "dim" if not row.trained else "" for row in board.rows]
    return Table(columns, rows, f"{board.study}: best first by {first}", keys=2, styles=styles)
