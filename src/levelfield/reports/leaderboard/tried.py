"""What the recipe for photos tried before the comparison, on validation classes: not ranked, since it trained less."""

from __future__ import annotations

from typing import Any

from levelfield.studies.leaderboard.board import Leaderboard
from levelfield.table import Column, Table, numbers


def tried_table(board: Leaderboard) -> Table | None:
    """The scores of every objective after each of its short trainings; None without a recipe."""
    recipe: dict[str, Any] | None = board.facts.get("recipe")
    if recipe is None:
        return None
    lengths = sorted({int(steps) for scores in recipe["scores"].values() for steps in scores})
    compared = {row.label for row in board.rows}
    rows = []
    for label, scores in sorted(recipe["scores"].items(), key=lambda item: -max(item[1].values(), default=0.0)):
        cells = [f"{scores[str(steps)]:.3f}" if str(steps) in scores else None for steps in lengths]
        outcome = "went on to the comparison" if label in compared else "dropped" if scores else "failed"
        rows.append([label, *cells, outcome])
    sizes = ", ".join(f"{score:.3f} at {size} px" for size, score in recipe["sizes"].items())
    judged = f"{recipe['metric']} of {recipe['judged_by']}; the test classes chose nothing."
    columns: list[Column | str] = ["method", *numbers(*(f"{steps} steps" for steps in lengths)), "outcome"]
    title = "Short trainings before the comparison"
    return Table(columns, rows, title, [f"Untrained features: {sizes}.", judged])
