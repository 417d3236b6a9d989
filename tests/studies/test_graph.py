"""Runs that need other runs: planning, order, and failures."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_world import board_of, carry_out, completed, small_study

from levelfield import load
from levelfield.errors import BadSpecification
from levelfield.studies import parse_study
from levelfield.studies.execution import executor
from levelfield.studies.execution.executor import Agenda
from levelfield.studies.execution.workers import run_all
from levelfield.studies.planning.plan import in_order, needed_labels, plan
from levelfield.studies.runs.run import Options
from levelfield.studies.runs.spec import PlannedRun

OWN = """
from levelfield.methods import Method
from levelfield.objectives import Contrastive

class Turned(Method):
    def __init__(self, *, members=3):
        super().__init__(Contrastive())
        self.members = members

    def labels(self, labels, member, seed):
        return (labels + member) % 2
"""


def planned(methods: list[Any], **content: Any) -> list[PlannedRun]:
    return plan(parse_study({"data": "emoji", "methods": methods, **content}))


@pytest.fixture
def own(tmp_path: Path) -> str:
    (tmp_path / "own.py").write_text(OWN)
    return f"{tmp_path / 'own.py'}:Turned"


def test_an_ensemble_comes_after_its_members_and_needs_those_of_its_seed() -> None:
    runs = planned([{"label": "both", "ensemble": {"of": ["margin", "triplet"]}}, "margin", "triplet"], seeds=2)
    in_order = [(label, seed) for seed in (0, 1) for label in ("margin", "triplet", "both")]
    assert [(run.label, run.spec.seed) for run in runs] == in_order
    assert [need.name for need in runs[2].spec.needs] == [run.spec.folder_name for run in runs[:2]]
    assert [need.identity for need in runs[5].spec.needs] == [run.spec.identity for run in runs[3:5]]
    assert runs[2].spec.joined
    assert not runs[0].spec.joined


def test_all_or_some_seeds_join_to_one_run() -> None:
    runs = planned([{"label": "five", "ensemble": {"of": "margin", "seeds": "all"}}, "margin"], seeds=5)
    assert [run.label for run in runs] == ["margin"] * 5 + ["five"]
    assert len(runs[-1].spec.needs) == 5
    methods = [{"label": "two", "ensemble": {"of": "margin", "seeds": [0, 2]}}, "margin"]
    runs = planned(methods, seeds=3)
    assert [need.name for need in runs[-1].spec.needs] == [runs[0].spec.folder_name, runs[2].spec.folder_name]
    with pytest.raises(BadSpecification, match="joins seed 2, but the study has the seeds 0, 1"):
        planned(methods, seeds=2)


def test_what_no_seed_changes_is_joined_with_every_seed() -> None:
    runs = planned([{"label": "both", "ensemble": {"of": ["margin", "lda"]}}, "margin", "lda"], seeds=2)
    lda = next(run for run in runs if run.label == "lda")
    joined = [run for run in runs if run.label == "both"]
    assert [run.spec.needs[1].identity for run in joined] == [lda.spec.identity] * 2


def test_members_are_runs_of_their_own(own: str) -> None:
    runs = planned([{"label": "turned", own: {"members": 2}}])
    first = [run for run in runs if run.spec.seed == 0]
    assert [run.spec.member for run in first] == [0, 1, None]
    assert [run.row for run in first] == ["turned (separated)", "turned (separated)", "turned"]
    assert len({run.spec.training_seed for run in runs if run.spec.member is not None}) == 6, "independent draws"
    assert len({run.spec.folder_name for run in runs}) == len(runs)
    assert [need.name for need in first[2].spec.needs] == [run.spec.folder_name for run in first[:2]]


def test_a_teacher_comes_before_its_student_and_its_students_student() -> None:
    study = parse_study(
        {
            "data": "emoji",
            "methods": [
                {"label": "c", "softmax": {"student": {"teacher": "b"}}},
                {"label": "b", "softmax": {"student": {"teacher": "a"}}},
                {"label": "a", "message_passing": {}},
                "margin",
            ],
        }
    )
    assert [one.label for one in in_order(study.methods)] == ["a", "b", "c", "margin"]
    assert needed_labels(study.methods, "c") == {"a", "b", "c"}
    assert needed_labels(study.methods, "margin") == {"margin"}


def test_what_varies_in_a_teacher_varies_in_those_who_need_it() -> None:
    """Else two different runs of one seed would be one row, and averaged as if they were members."""
    methods = [
        {"label": "both", "ensemble": {"of": ["pupil", "margin"]}},
        {"label": "pupil", "softmax": {"student": {"teacher": "teacher"}}},
        {"label": "teacher", "message_passing": {}},
        "margin",
    ]
    runs = planned(methods, seeds=1, vary={"methods.teacher.heads": [1, 2]})
    rows = [run.row for run in runs]
    assert len(rows) == len(set(rows)) == 7
    assert {"pupil [heads=1]", "pupil [heads=2]", "both [heads=1]", "margin"} <= set(rows)


def test_a_circle_and_a_name_that_nobody_has_are_told() -> None:
    circle = [
        {"label": "a", "ensemble": {"of": ["b", "margin"]}},
        {"label": "b", "ensemble": {"of": ["a", "margin"]}},
        "margin",
    ]
    with pytest.raises(BadSpecification, match="wait for each other: a -> b -> a"):
        planned(circle)
    with pytest.raises(BadSpecification, match=r"Method 'both' needs another run: .*'margn'.*mean 'margin'"):
        planned([{"label": "both", "ensemble": {"of": ["margn", "triplet"]}}, "margin", "triplet"])
    with pytest.raises(BadSpecification, match="equals that run"):
        carry_out(small_study("emoji", [{"ensemble": {"of": ["margin"]}}, "margin"]), Path("nowhere"))


def test_the_agenda_gives_what_is_ready_and_gives_up_what_cannot_be() -> None:
    methods = ["margin", "triplet", {"label": "both", "ensemble": {"of": ["margin", "triplet"]}}]
    methods += [{"label": "more", "ensemble": {"of": ["both", "margin"]}}]
    runs = planned(methods, seeds=1)
    agenda = Agenda(runs, [0, 1, 2, 3])
    assert [agenda.next(), agenda.next(), agenda.next()] == [0, 1, None], "both are being done"
    assert agenda.end(0, failed=False) == []
    assert agenda.next() is None
    lost = agenda.end(1, failed=True)
    assert [(event.kind, event.run) for event in lost] == [("failed", 2), ("failed", 3)]
    assert "triplet, seed 0" in lost[0].text
    assert not agenda.waiting
    assert Agenda(runs, [2, 3]).next() == 2, "what was finished before is not waited for"
    twice: list[Any] = [{"label": "a", "margin": {}}, {"label": "b", "margin": {}}]  # one run under two labels
    runs = planned([*twice, {"label": "pupil", "softmax": {"student": {"teacher": "a"}}}], seeds=1)
    agenda = Agenda(runs, [0, 1, 2])
    assert [agenda.next(), agenda.next()] == [0, 1]
    agenda.end(1, failed=False)
    assert agenda.next() is None
    agenda.end(0, failed=False)
    assert agenda.next() == 2


def test_a_failed_member_fails_what_needs_it_and_nothing_else(
    photos: Path, tmp_path: Path, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = small_study(photos, [{"label": "turned", own: {"members": 2}}, "contrastive"])
    real = executor.execute

    def broken(task: Any, *args: Any) -> None:
        if task.spec.member == 1:
            raise RuntimeError("no luck")
        real(task, *args)

    with monkeypatch.context() as patch:
        patch.setattr(executor, "execute", broken)
        runs, outcome = carry_out(study, tmp_path)
    assert sorted(outcome.failed) == [1, 2]
    assert "it needs a run that failed: turned (separated), seed 0, member 1" in outcome.failed[2]
    board = board_of(study, runs, tmp_path)
    assert [row.label for row in board.rows] == ["contrastive"], "half a separated row is none"
    assert len(board.missing) == 2
    outcome = run_all(runs, tmp_path, study.metrics, jobs=0, options=Options())
    assert not outcome.failed, "the next attempt does what is left"


def test_finished_runs_of_another_study_can_be_joined(photos: Path, tmp_path: Path) -> None:
    first, _ = carry_out(small_study(photos, ["contrastive", "triplet"]), tmp_path / "a")
    folders = [str(run.folder(tmp_path / "a")) for run in first]
    study = small_study(photos, [{"label": "both", "ensemble": {"of": folders}}])
    runs = completed(study, tmp_path / "b")
    assert np.load(runs[0].folder(tmp_path / "b") / "embeddings.npy").shape[1] == 16
    shutil.rmtree(folders[0])
    assert load(runs[0].folder(tmp_path / "b")).dim == 16, "the ensemble is complete in itself"


def test_what_was_trained_otherwise_is_told_when_it_is_joined(photos: Path, tmp_path: Path) -> None:
    elsewhere = small_study(photos, ["contrastive"], overrides=("protocol.validation=0.5",), steps=9, batch="2x2")
    more, _ = carry_out(elsewhere, tmp_path / "a")
    same, _ = carry_out(small_study(photos, ["contrastive"]), tmp_path / "b")
    joined = [
        {"label": label, "ensemble": {"of": ["triplet", str(runs[0].folder(tmp_path / folder))]}}
        for label, runs, folder in (("other", more, "a"), ("same", same, "b"))
    ]
    study = small_study(photos, ["triplet", *joined])
    runs = completed(study, tmp_path / "c")
    rows = {row.label: row.deviations for row in board_of(study, runs, tmp_path / "c").rows}
    assert rows["same"] == ["members 2 (1)", "dim 16 (8)", "trunk passes 2 (1)"]
    more = ["joined protocol validation 0.5", "joined steps 9 (4)", "joined batch 2x2 (4x3)"]
    assert rows["other"] == [*rows["same"], *more]
