"""Progress bars of a study: they move from the first image on, and never backwards."""

from __future__ import annotations

from levelfield.cli.console import StudyBars
from levelfield.studies.execution.events import Event


def test_features_move_the_bar_of_all_runs() -> None:
    bars = StudyBars(["margin, seed 0", "margin, seed 1"])
    [everything] = bars._progress.tasks
    assert everything.description == "all 2 runs: starting"
    moved = []
    for event in (
        Event("start", 0),
        Event("progress", 0, "features", 50, 100),
        Event("progress", 0, "features", 100, 100),
        Event("progress", 0, "training", 1, 100),
        Event("progress", 0, "training", 100, 100),
        Event("done", 0),
    ):
        bars.on_event(event)
        moved.append(everything.completed)
    assert everything.description == "all 2 runs"
    assert moved == sorted(moved)
    assert moved[1] > 0
    assert moved[-1] == 1
