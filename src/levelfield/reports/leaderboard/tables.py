"""The leaderboard as a terminal table, Markdown, CSV and JSON. All are made from the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from levelfield.files.writing import write_json, write_text
from levelfield.reports.against_published import published_markdown, published_terminal
from levelfield.reports.leaderboard import cells, costs
from levelfield.reports.leaderboard.answer import answer
from levelfield.reports.leaderboard.comparisons import comparisons_markdown, how_compared
from levelfield.reports.leaderboard.csv_file import as_csv
from levelfield.reports.leaderboard.terminal import board_tables
from levelfield.reports.leaks import leak_lines, leak_links
from levelfield.studies.leaderboard.board import Leaderboard
from levelfield.studies.leaderboard.limits import needed_text
from levelfield.studies.leaderboard.rows import Row, networks_differ

_VERDICTS = "Comparisons"
_ROWS, _LABELS, _SHOWN = 40, 12, 6  # limits of the text; the JSON file has everything


def write_all(board: Leaderboard, folder: Path) -> list[Path]:
    """Write leaderboard.json, .csv and .md; returns the paths."""
    write_json(folder / "leaderboard.json", board.content(), in_lines="comparisons")
    write_text(folder / "leaderboard.csv", as_csv(board))
    write_text(folder / "leaderboard.md", as_markdown(board))
    return [folder / f"leaderboard.{suffix}" for suffix in ("json", "csv", "md")]


def as_markdown(board: Leaderboard) -> str:
    """The leaderboard and its comparisons as a Markdown page."""
    head, rows = _columns(board), [_fields(board, row, rank) for rank, row in enumerate(board.rows, 1)]
    lines = [f"# {board.study}", "", *answer(board), "", *([board.limit, ""] if board.limit else [])]
    lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(field.replace("|", "\\|").replace("\n", " ") for field in row) + " |" for row in rows]
    lines += ["", *explanation(board), *leak_links(board), *costs.front_lines(board), ""]
    lines += [f"## {_VERDICTS}", "", *verdicts(board), *comparisons_markdown(board)]
    lines += ["", "## Claims", "", *claims(board)] if board.claims else []
    lines += published_markdown(board)
    return "\n".join(lines) + "\n"


def show(board: Leaderboard, console: Console, *, full: bool = True) -> None:
    """Print the answer, the leaderboard with its explanation, the comparisons, and the verdicts on claims."""
    console.print(terminal(board, width=console.width, full=full))


def terminal(board: Leaderboard, *, width: int = 80, full: bool = True) -> RenderableType:
    """The answer, and tables that fit the width: the interval of the first metric, deviations as letters explained
    below. full: every row's comparisons, not only the best row's."""
    letters = cells.letters(text for row in board.rows for text in row.deviations)
    notes = [f"{letter}: {text}" for text, letter in letters.items()]
    deviations = [Text("Deviations from the conditions (the common value in brackets)", style="bold")]
    deviations += [Text("  " + "; ".join(notes) + ".")] if notes else [Text("  none")]
    explained = [Text(line) for line in explanation(board)]
    better = [Text(_VERDICTS, style="bold"), *(Text(line) for line in verdicts(board, full=full))]
    use, *sentences = answer(board)
    said_first = [Text(use, style="bold"), *map(Text, sentences), Text()]
    limit = [Text(board.limit), Text()] if board.limit else []
    findings = [Text(), Text("Claims", style="bold"), *(Text(line) for line in claims(board))] if board.claims else []
    tables = board_tables(board, letters, width)
    shown: list[RenderableType] = [*said_first, *limit, *tables, *explained, Text(), *deviations, Text(), *better]
    return Group(*shown, *published_terminal(board), *findings)


def explanation(board: Leaderboard) -> list[str]:
    """What the columns mean, and how the scores were computed."""
    again = " and retraining" if any(len(row.seeds) > 1 for row in board.rows) else ""
    lines = [
        f"Interval: 95 %, over other test classes{again}. sd: over seeds ('-': deterministic method, or only one run). "
        "sec: training time per run."
        + (" MFLOP: of the network for one image, in millions." if networks_differ(board.rows) else ""),
    ]
    for test_set, made in board.signatures.items():
        counted = board.facts.get("queries_that_count", {}).get(test_set)
        line = " ".join([_made(made[board.metrics[0]], counted), *_of_queries_alone(made, board.metrics[0])])
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
    lines += [f"{row.label}: {text}." for row in board.rows for text in row.warnings]
    return lines


def _made(definition: dict[str, Any], counted: int | None) -> str:
    """How the scores of the first metric were computed. counted: number of queries that count, if known."""
    if definition["clusterer"] != "none":
        return f"{definition['queries']:,} images, clustered by {definition['distance']} distance."
    own = "the query itself left out" if definition["self_excluded"] == "id" else "none of which is a query"
    return (
        f"{_queries(definition, counted)} against {definition['gallery']:,} images, {own}; {definition['distance']} "
        f"distance; ties: {definition['ties']}."
    )


def _queries(definition: dict[str, Any], counted: int | None) -> str:
    """The number of queries, and how those with no other image of their class are treated.

    >>> _queries({"queries": 63, "lone": "exclude"}, 62)
    '62 queries (1 more is left out: no other image of its class)'
    >>> _queries({"queries": 63, "lone": "miss"}, 63)
    '63 queries (missed where the gallery has no image of their class)'
    """
    queries = definition["queries"]
    if definition["lone"] != "exclude":
        return f"{queries:,} queries (missed where the gallery has no image of their class)"
    lone = 0 if counted is None else queries - counted
    if not lone:
        return f"{queries:,} queries"
    left_out = (
        "1 more is left out: no other image of its class"
        if lone == 1
        else (f"{lone:,} more are left out: no other image of their class")
    )
    return f"{counted:,} queries ({left_out})"


def _of_queries_alone(made: dict[str, dict[str, Any]], first: str) -> list[str]:
    """Metrics computed on the queries alone, without a gallery: clustering and geometry."""
    apart = [metric for metric, definition in made.items() if definition["gallery"] != made[first]["gallery"]]
    return [f"{', '.join(apart)}: computed on the queries alone."] if apart else []


def verdicts(board: Leaderboard, *, full: bool = True) -> list[str]:
    """For each row, or only the first: which rows it is better than, which it ties with, and what would resolve ties
    with the best."""
    if not board.comparisons:
        return ["Nothing to compare: one row, or no metric with a value per query."]
    lines = [how_compared(board), *_single_runs(board)]
    order = {row.label: place for place, row in enumerate(board.rows)}
    better: dict[str, list[str]] = {label: [] for label in order}
    tied: dict[str, list[str]] = {label: [] for label in order}
    for one in board.comparisons:
        first, second = sorted((one.first, one.second), key=lambda label: order[label])
        if one.winner is None:
            tied[first].append(second)
        else:
            better[one.winner].append(second if one.winner == first else first)
    shown = list(order)[: _ROWS if full else 1]
    for label in shown:
        parts = []
        if tied[label]:
            parts.append("tie with " + _named(tied[label], order))
        if better[label]:
            parts.append("better than " + _named(better[label], order))
        if parts:
            lines.append(f"- {label}: " + "; ".join(parts) + ".")
    if len(order) > len(shown):
        more = "in leaderboard.json" if full else "with --full and in leaderboard.md"
        left = len(order) - len(shown)
        lines.append(f"{left:,} more row{'s' * (left != 1)} {more}.")
    advice = board.facts.get("advice", "")
    return lines + (_resolving(board) if full else []) + ([advice] if advice else [])


def _single_runs(board: Leaderboard) -> list[str]:
    """Rows with a single run where others have more: their variance over retraining is unknown."""
    single = [row.label for row in board.rows if row.trained and len(row.seeds) == 1]
    if not single or not any(one.retrained for one in board.comparisons):
        return []
    return [
        f"One run only: {', '.join(single[:_LABELS])}. Comparisons with it hold only for that run, since training "
        "was not repeated."
    ]


def _resolving(board: Leaderboard) -> list[str]:
    """What would resolve the ties with the best row, largest difference first."""
    best = board.rows[0].label
    found = [
        (one.seen_from(best), text)
        for one in board.comparisons
        if best in (one.first, one.second) and not one.better() and (text := needed_text(one))
    ]
    if not found or board.limit:
        return []
    shown = [f"{one.second} {text}" for one, text in sorted(found, key=lambda entry: -entry[0].difference)]
    more = f"; {len(shown) - _SHOWN} more in leaderboard.json" if len(shown) > _SHOWN else ""
    return [f"What would resolve a tie with {best}, with 80 % power: {'; '.join(shown[:_SHOWN])}{more}."]


def claims(board: Leaderboard) -> list[str]:
    """The verdict on each claim of the study."""
    return [f"- {one.text}" for one in board.claims]


def _named(labels: list[str], order: dict[str, int]) -> str:
    """Labels in table order; a long list, or the whole tail of the table, is abbreviated."""
    labels = sorted(labels, key=lambda label: order[label])
    if len(labels) > 2 and order[labels[0]] == len(order) - len(labels):
        return f"{labels[0]} and all below it"
    more = f" and {len(labels) - _LABELS} more" if len(labels) > _LABELS else ""
    return ", ".join(labels[:_LABELS]) + more


def _columns(board: Leaderboard) -> list[str]:
    names = ["#", "method"]
    for metric in board.metrics:
        names += [cells.heading(metric), *(["95 % interval"] if _has_interval(board, metric) else []), "sd"]
    network = costs.NETWORK_HEADINGS if networks_differ(board.rows) else ()
    return [*names, *costs.HEADINGS, *network, "deviations (conditions)"]


def _fields(board: Leaderboard, row: Row, rank: int) -> list[str]:
    fields = [str(rank), row.label]
    for metric in board.metrics:
        cell = row.cells[metric]
        fields.append(cells.figure(cell))
        fields += [cells.interval(cell)] if _has_interval(board, metric) else []
        fields.append(cells.spread(cell))
    network = costs.network_fields(row) if networks_differ(board.rows) else []
    return [*fields, *costs.fields(row), *network, ", ".join(row.deviations) or "none"]


def _has_interval(board: Leaderboard, metric: str) -> bool:
    return any(row.cells[metric].low is not None for row in board.rows)
