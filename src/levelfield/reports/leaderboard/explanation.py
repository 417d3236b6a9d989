"""What the columns of a leaderboard mean, and how its scores were computed."""

from __future__ import annotations

from typing import Any

from levelfield.reports.split_leaks import leak_lines
from levelfield.studies.leaderboard.board import Leaderboard
from levelfield.studies.leaderboard.rows import networks_differ


def explanation(board: Leaderboard) -> list[str]:
    """What the columns mean, and how the scores were computed."""
    again = " and retraining" if any(len(row.seeds) > 1 for row in board.rows) else ""
    lines = [
        f"Interval: 95 %, over other test classes{again}. sd: over seeds ('-': deterministic method, or only one run). "
        "sec: training time per run."
        + (" MFLOP: of the network for one image, in millions." if networks_differ(board.rows) else ""),
    ]
    for test_set, definitions in board.signatures.items():
        counted = board.facts.get("queries_that_count", {}).get(test_set)
        line = " ".join(
            [_computed(definitions[board.metrics[0]], counted), *_of_queries_alone(definitions, board.metrics[0])]
        )
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


def _computed(definition: dict[str, Any], counted: int | None) -> str:
    """How the scores of the first metric were computed. counted: number of queries that count, if known."""
    if definition["clusterer"] != "none":
        return f"{definition['queries']:,} images, clustered by {definition['distance']} distance."
    others = "the query itself left out" if definition["self_excluded"] == "id" else "none of which is a query"
    return (
        f"{_queries(definition, counted)} against {definition['gallery']:,} images, {others}; {definition['distance']} "
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
    singular, plural = (
        "1 more is left out: no other image of its class",
        f"{lone:,} more are left out: no other image of their class",
    )
    left_out = singular if lone == 1 else plural
    return f"{counted:,} queries ({left_out})"


def _of_queries_alone(definitions: dict[str, dict[str, Any]], first: str) -> list[str]:
    """Metrics computed on the queries alone, without a gallery: clustering and geometry."""
    apart = [
        metric for metric, definition in definitions.items() if definition["gallery"] != definitions[first]["gallery"]
    ]
    return [f"{', '.join(apart)}: computed on the queries alone."] if apart else []
