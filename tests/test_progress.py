"""Progress: reports of the implementations."""

from __future__ import annotations

import logging

import pytest

from levelfield.progress import CallbackProgress, LoggedProgress
from levelfield.studies.execution.events import Event, RunsProgress


def test_a_stage_counts_from_nothing_to_its_total_and_steps_of_nothing_are_not_reported() -> None:
    heard: list[tuple[str, int, int]] = []
    stage = CallbackProgress(lambda *now: heard.append(now)).stage("rows", 5)
    for count in (2, 0, 3):
        stage.advance(count)
    assert heard == [("rows", 0, 5), ("rows", 2, 5), ("rows", 5, 5)]


def test_a_pause_leaves_out_what_comes_too_soon_but_never_the_end_of_a_stage() -> None:
    heard: list[tuple[str, int, int]] = []
    progress = CallbackProgress(lambda *now: heard.append(now), pause=1e9)
    for text in ("first", "second"):
        stage = progress.stage(text, 2)
        stage.advance()
        stage.advance()
    assert heard == [("first", 0, 2), ("first", 2, 2), ("second", 2, 2)]


def test_the_log_says_when_a_stage_begins_and_is_complete(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "levelfield"):
        stage = LoggedProgress().stage("features", 1200)
        stage.advance(600)
        stage.advance(600)
    assert caplog.messages == ["features: 0 of 1,200", "features: 1,200 of 1,200"]


def test_stages_of_a_run_become_its_events() -> None:
    heard: list[Event] = []

    class Kept(RunsProgress):
        def on_event(self, event: Event) -> None:
            heard.append(event)

    Kept().of_run(3).stage("training", 1).advance()
    assert heard == [Event("progress", 3, "training", 0, 1), Event("progress", 3, "training", 1, 1)]
