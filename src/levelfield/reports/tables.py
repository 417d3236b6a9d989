"""The leaderboard as a terminal table, Markdown, CSV and JSON. All are made from the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from levelfield.files import write_json, write_text
from levelfield.reports import cells, costs
from levelfield.reports.against_published import published_markdown, published_terminal
from levelfield.reports.board_table import board_tables
from levelfield.reports.comparisons import comparisons_markdown
from levelfield.reports.csv_table import as_csv
from levelfield.reports.leaks import leak_lines, leak_links
from levelfield.studies.leaderboard import Leaderboard
from levelfield.studies.rows import Row

SURE = 0.05


def write_all(board: Leaderboard, folder: Path) -> list[Path]:
    """Write leaderboard.json, .csv and .md; returns the paths."""
    write_json(folder / "leaderboard.json", board.as_data())
    write_text(folder / "leaderboard.csv", as_csv(board))
    write_text(folder / "leaderboard.md", as_markdown(board))
    return [folder / f"leaderboard.{suffix}" for suffix in ("json", "csv", "md")]


def as_markdown(board: Leaderboard) -> str:
    """The leaderboard and its comparisons as a Markdown page."""
    head, rows = _columns(board), [_fields(board, row, rank) for rank, row in enumerate(board.rows, 1)]
    lines = [f"# {board.study}", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(field.replace("|", "\\|").replace("\n", " ") for field in row) + " |" for row in rows]
    lines += ["", *explanation(board), *leak_links(board), *_over_seeds(board), *costs.front_lines(board), ""]
    lines += ["## Which differences are real", "", *verdicts(board), *comparisons_markdown(board)]
    lines += ["", "## Claims", "", *claims(board)] if board.claims else []
    lines += published_markdown(board)
    return "\n".join(lines) + "\n"


def show(board: Leaderboard, console: Console) -> None:
    """Print the leaderboard, what it means, which differences are real, and what became of the study's claims."""
    console.print(terminal(board, width=console.width))


def terminal(board: Leaderboard, *, width: int = 80) -> RenderableType:
    """Tables that fit the width: the interval of the first metric, deviations as letters explained below."""
    letters = cells.letters(text for row in board.rows for text in row.deviations)
    notes = [f"{letter}: {text}" for text, letter in letters.items()]
    deviations = [Text("Deviations from the conditions (the common value in brackets)", style="bold")]
    deviations += [Text("  " + "; ".join(notes) + ".")] if notes else [Text("  none")]
    explained = [Text(line) for line in explanation(board)]
    real = [Text("Which differences are real", style="bold"), *(Text(line) for line in verdicts(board))]
    said = [Text(), Text("Claims", style="bold"), *(Text(line) for line in claims(board))] if board.claims else []
    shown: list[RenderableType] = [*board_tables(board, letters, width), *explained, Text(), *deviations, Text(), *real]
    return Group(*shown, *published_terminal(board), *said)


def explanation(board: Leaderboard) -> list[str]:
    """What the columns mean, and how the figures were made."""
    lines = [
        "Interval: 95 %, by resampling the test classes. sd: over seeds ('-': one run says all, or only one was made). "
        "sec: training of one run.",
    ]
    for test_set, made in board.signatures.items():
        told = " ".join([_made(made[board.metrics[0]]), *_of_queries_alone(made, board.metrics[0])])
        lines.append((f"{test_set}: " if len(board.signatures) > 1 else "") + told)
    lines += leak_lines(board)
    lines += [
        f"{row.label}: {row.planning:.1f} of its {row.seconds:.1f} seconds went into planning batches."
        for row in board.rows
        if row.planning > max(0.05 * row.seconds, 0.05)  # less than that would be printed as 0.0
    ]
    lines += [f"{row.label}: {row.best_on_test.text}." for row in board.rows if row.best_on_test]
    lines += [f"Missing: {text}." for text in board.missing]
    lines += [f"{row.label}: {text}." for row in board.rows for text in row.warnings]
    return lines


def _made(definition: dict[str, Any]) -> str:
    """How the figures of the first metric were made."""
    if definition["clusterer"] != "none":
        return f"{definition['queries']:,} images, clustered by {definition['distance']} distance."
    own = "the query itself left out" if definition["self_excluded"] == "id" else "none of which is a query"
    return (
        f"{definition['queries']:,} queries against {definition['gallery']:,} images, {own}; {definition['distance']} "
        f"distance; ties: {definition['ties']}; queries without relatives: {definition['lone']}."
    )


def _of_queries_alone(made: dict[str, dict[str, Any]], first: str) -> list[str]:
    """Metrics that do not look into the gallery of the first one: clusterings, and those of geometry."""
    apart = [metric for metric, definition in made.items() if definition["gallery"] != made[first]["gallery"]]
    return [f"{', '.join(apart)}: of the queries alone."] if apart else []


def verdicts(board: Leaderboard) -> list[str]:
    """For each row, what it is really better than, and what it cannot be told from."""
    if not board.comparisons:
        return ["Nothing to compare: one row, or no metric with a value per query."]
    metric = next(m for m in board.metrics if board.rows[0].cells[m].low is not None)
    lines = [
        f"Paired bootstrap of {metric} over test classes within shared seeds, Holm-corrected over "
        f"{len(board.comparisons)} pairs, 5 % in all."
    ]
    order = [row.label for row in board.rows]
    better: dict[str, list[str]] = {label: [] for label in order}
    tied: dict[str, list[str]] = {label: [] for label in order}
    open_: list[str] = []
    for c in board.comparisons:
        if c.real():
            winner, loser = (c.first, c.second) if c.difference > 0 else (c.second, c.first)
            better[winner].append(loser)
        else:
            first, second = sorted((c.first, c.second), key=order.index)
            tied[first].append(second)
            if c.seeds is not None and c.p_seeds is not None and c.p_seeds >= SURE:  # else it is not for want of seeds
                open_.append(f"{first} and {second} {c.seeds}")
    for label in order:
        said = []
        if tied[label]:
            said.append("tie with " + _named(tied[label], order))
        if better[label]:
            said.append("better than " + _named(better[label], order))
        if said:
            lines.append(f"- {label}: " + "; ".join(said) + ".")
    if open_:
        shown = "; ".join(open_[:6]) + (f"; {len(open_) - 6} more in leaderboard.json" if len(open_) > 6 else "")
        lines.append(f"Seeds that would settle a tie, as far as training again decides it: {shown}.")
    return lines + _advice(board, better)


def claims(board: Leaderboard) -> list[str]:
    """What came out of each claim of the study."""
    return [f"- {one.text}" for one in board.claims]


def _named(labels: list[str], order: list[str]) -> str:
    """Labels in the order of the table; a whole tail of the table in short."""
    labels = sorted(labels, key=order.index)
    if len(labels) > 2 and labels == order[-len(labels) :]:
        return f"{labels[0]} and all below it"
    return ", ".join(labels)


def _advice(board: Leaderboard, better: dict[str, list[str]]) -> list[str]:
    """What to try when training a head did not pay."""
    idle = [row.label for row in board.rows if not row.trained]
    trained = [row.label for row in board.rows if row.trained]
    unbeaten = [label for label in idle if not any(label in better[other] for other in trained)]
    if not unbeaten or not trained:
        return []
    return [
        f"No trained method is really better than: {', '.join(unbeaten)}. Give them more to learn with: train a part "
        "of the network (conditions.cut=last-2 conditions.augment=light conditions.views=4), more images, or more "
        "classes."
    ]


def _columns(board: Leaderboard) -> list[str]:
    names = ["#", "method"]
    for metric in board.metrics:
        names += [cells.heading(metric), *(["95 % interval"] if board.rows[0].cells[metric].low is not None else [])]
        names += ["sd", *(["95 % over seeds"] if _has_seeds(board) else [])]
    return [*names, *costs.HEADINGS, "deviations (conditions)"]


def _fields(board: Leaderboard, row: Row, rank: int) -> list[str]:
    fields = [str(rank), row.label]
    for metric in board.metrics:
        cell = row.cells[metric]
        fields.append(cells.figure(cell))
        if board.rows[0].cells[metric].low is not None:
            fields.append(cells.interval(cell))
        fields += [cells.spread(cell), *([cells.over_seeds(cell)] if _has_seeds(board) else [])]
    return [*fields, *costs.fields(row), ", ".join(row.deviations) or "none"]


def _has_seeds(board: Leaderboard) -> bool:
    return any(cell.seeds_low is not None for row in board.rows for cell in row.cells.values())


def _over_seeds(board: Leaderboard) -> list[str]:
    said = "95 % over seeds: Student's interval of the mean, if it were trained again on the same classes."
    return [said] if _has_seeds(board) else []
