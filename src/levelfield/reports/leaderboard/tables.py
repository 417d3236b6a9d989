"""The leaderboard as a terminal table, Markdown, CSV and JSON, and what its columns mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from levelfield.files.writing import write_forms
from levelfield.reports.leaderboard import cells
from levelfield.reports.leaderboard.answer import answer
from levelfield.reports.leaderboard.verdicts import pairs_table, verdicts
from levelfield.reports.published_comparison import published_table
from levelfield.reports.search_results import tried_table
from levelfield.reports.split_leaks import leak_lines, leak_links
from levelfield.studies.leaderboard.board import Leaderboard
from levelfield.studies.leaderboard.rows import networks_differ
from levelfield.table import Column, Table, numbers
from levelfield.wording import plural

_COMPARISONS = "Comparisons"


def write_all(board: Leaderboard, folder: Path) -> list[Path]:
    """Write leaderboard.json, .csv and .md; returns the paths."""
    return write_forms(folder, "leaderboard", board.as_data(), csv=as_csv(board), markdown=as_markdown(board))


def as_csv(board: Leaderboard) -> str:
    """One line per row: mean, interval and spread of every metric, cost, best on test, deviations, varied values."""
    varied = sorted({key for row in board.rows for key in row.variation})
    scores = [f"{cells.heading(metric)} {part}" for metric in board.metrics for part in cells.PARTS]
    texts = ("best_on_test", "best_on_test_gap", "deviations", "warnings")
    columns = ["rank", "method", *scores, "seeds", "seconds", *cells.COUNTS, *texts, *varied]
    rows = []
    for rank, row in enumerate(board.rows, 1):
        values: list[float | None] = []
        for metric in board.metrics:
            cell = row.cells[metric]
            values += cell.mean, cell.low, cell.high, cell.spread
        counts = (getattr(row, name) for name in cells.COUNTS)
        costs = [f"{row.seconds:.2f}", *(None if count is None else f"{count:.0f}" for count in counts)]
        best = (None, None) if row.best_on_test is None else (row.best_on_test.best, row.best_on_test.gap)
        lists = ["; ".join(row.deviations), "; ".join(row.warnings)]
        # a varied value is written as the study has it, not with the digits of a score
        variation = [str(row.variation.get(key, "")) for key in varied]
        rows.append([rank, row.label, *values, len(row.seeds), *costs, *best, *lists, *variation])
    return Table(columns, rows).csv()


def as_markdown(board: Leaderboard) -> str:
    """The leaderboard and its comparisons as a Markdown page."""
    pairs, published, tried = pairs_table(board), published_table(board), tried_table(board)
    blocks = [
        f"# {board.study}",
        "\n".join(answer(board)),
        board.limit,
        _table(board).markdown(),
        "\n".join([*explanation(board), *leak_links(board), *cells.front_lines(board)]),
        tried.markdown(level=2) if tried else "",
        f"## {_COMPARISONS}",
        "\n".join(verdicts(board)),
        pairs.markdown() if pairs else "",
        "\n".join(["## Claims", "", *claims(board)]) if board.claims else "",
        published.markdown(level=2) if published else "",
    ]
    return "\n\n".join(filter(None, blocks)) + "\n"


def show(board: Leaderboard, console: Console, *, full: bool = True) -> None:
    """Print the answer, the leaderboard with its explanation, the comparisons, and the verdicts on claims.

    The tables fit the width: the interval of the first metric, deviations as letters explained below. full: every row's
    comparisons, not only the best row's.
    """
    letters = cells.letters(text for row in board.rows for text in row.deviations)
    notes = "; ".join(f"{letter}: {text}" for text, letter in letters.items())
    use, *sentences = answer(board)
    width = console.width
    shown: list[RenderableType] = [Text(use, style="bold"), *map(Text, sentences), Text()]
    shown += [Text(board.limit), Text()] if board.limit else []
    shown += [_short_table(board, letters).terminal(width), *map(Text, explanation(board)), Text()]
    shown += [tried.terminal(width), Text()] if (tried := tried_table(board)) else []
    shown += [Text("Deviations from the conditions (the common value in brackets)", style="bold")]
    shown += [Text(f"  {notes}." if notes else "  none"), Text(), Text(_COMPARISONS, style="bold")]
    shown += map(Text, verdicts(board, full=full))
    published = published_table(board, numbered=True)
    shown += [Text(), published.terminal(width)] if published else []
    shown += [Text(), Text("Claims", style="bold"), *map(Text, claims(board))] if board.claims else []
    console.print(Group(*shown))


def claims(board: Leaderboard) -> list[str]:
    """The verdict on each claim of the study."""
    return [f"- {verdict.text}" for verdict in board.claims]


def _table(board: Leaderboard) -> Table:
    """Every metric with its interval, the costs, and the deviations in words."""
    network = networks_differ(board.rows)
    names: list[str] = []
    rows = [[str(rank), row.label] for rank, row in enumerate(board.rows, 1)]
    for metric in board.metrics:
        has_interval = any(row.cells[metric].low is not None for row in board.rows)
        names += [cells.heading(metric), *(["95 % interval"] if has_interval else []), "sd"]
        for line, row in zip(rows, board.rows, strict=True):
            cell = row.cells[metric]
            line += [cells.score(cell), *([cells.interval(cell)] if has_interval else []), cells.spread(cell)]
    for line, row in zip(rows, board.rows, strict=True):
        line += [*cells.costs(row), *(cells.network(row) if network else []), ", ".join(row.deviations) or "none"]
    names += [*cells.COST_HEADINGS, *(cells.NETWORK_HEADINGS if network else ())]
    return Table([*numbers("#"), "method", *numbers(*names), "deviations (conditions)"], rows)


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

    rows = []
    for rank, row in enumerate(board.rows, 1):
        cell = row.cells[first]
        # of the representation only the width; the deviations list ensembles
        scores = [cells.score(cell).split(",")[0], cells.interval(cell), cells.spread(cell)]
        scores += [f"{row.cells[metric].mean:.3f}" for metric in others]
        paid = [f"{row.seconds:.1f}" if row.trained else "-", *(cells.network(row)[1:] if network else [])]
        rows.append([rank, row.label, *scores, *paid, "".join(letters[text] for text in row.deviations) or "-"])
    styles = ["bold" if row.tied_with_best else "dim" if not row.trained else "" for row in board.rows]
    return Table(columns, rows, f"{board.study}: best first by {first}", keys=2, styles=styles)


def explanation(board: Leaderboard) -> list[str]:
    """What the columns mean, and how the scores were computed."""
    again = " and retraining" if any(len(row.seeds) > 1 for row in board.rows) else ""
    network = " MFLOP: of the network for one image, in millions." if networks_differ(board.rows) else ""
    lines = [
        f"Interval: 95 %, over other test classes{again}. sd: over seeds ('-': deterministic method, or only one run). "
        f"sec: training time per run.{network}"
    ]
    for test_set, definitions in board.signatures.items():
        first = definitions[board.metrics[0]]
        line = _computed(first, board.facts.get("queries_that_count", {}).get(test_set))
        alone = [metric for metric, other in definitions.items() if other["gallery"] != first["gallery"]]
        line += f" {', '.join(alone)}: computed on the queries alone." if alone else ""
        lines.append((f"{test_set}: " if len(board.signatures) > 1 else "") + line)
    lines += leak_lines(board)
    lines += [
        f"{row.label}: {row.planning:.1f} of its {row.seconds:.1f} seconds were spent planning batches."
        for row in board.rows
        if row.planning > max(0.05 * row.seconds, 0.05)  # smaller values would be printed as 0.0
    ]
    lines += [f"{row.label}: {row.best_on_test.text}." for row in board.rows if row.best_on_test]
    lines += [
        f"Not all runs were computed alike ({text}), so they can differ in the last bits."
        for text in board.facts.get("machines", [])
    ]
    if board.facts.get("bits_can_differ"):
        lines.append("On a GPU, without `deterministic: true`: the same study again can differ in the last bits.")
    lines += [f"Missing: {text}." for text in board.missing]
    return lines + [f"{row.label}: {text}." for row in board.rows for text in row.warnings]


def _computed(definition: dict[str, Any], counted: int | None) -> str:
    """How the scores of the first metric were computed. counted: number of queries that count, if known."""
    distance = definition["distance"]
    if definition["clusterer"] != "none":
        return f"{definition['queries']:,} images, clustered by {distance} distance."
    others = "the query itself left out" if definition["self_excluded"] == "id" else "none of which is a query"
    return (
        f"{_queries(definition, counted)} against {definition['gallery']:,} images, {others}; {distance} "
        f"distance; ties: {definition['ties']}."
    )


def _queries(definition: dict[str, Any], counted: int | None) -> str:
    """The number of queries, and how those with no other image of their class are treated."""
    queries = definition["queries"]
    if definition["lone"] != "exclude":
        return f"{queries:,} queries (missed where the gallery has no image of their class)"
    lone = 0 if counted is None else queries - counted
    if not lone:
        return f"{queries:,} queries"
    left_out = plural(lone, "more is left out: no other image of its", "more are left out: no other image of their")
    return f"{counted:,} queries ({left_out} class)"
