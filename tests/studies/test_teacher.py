"""Teachers and students in a study: teacher outputs, resuming a killed student, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_world import Trial, carry_out, completed, log_of, make_photos, run_one, small_study

import levelfield
from levelfield.errors import BadInput
from levelfield.evaluation import joined
from levelfield.methods.refine.groups import Groups, cluster_groups
from levelfield.objectives.message_passing import MessagePassing
from levelfield.progress import SILENT
from levelfield.studies.planning.cost_measured import estimate
from levelfield.studies.runs.folder.method_file import load_method
from levelfield.studies.runs.folder.store import read_result, read_spec
from levelfield.studies.runs.inputs import inputs_for
from levelfield.studies.runs.joined.join import join
from levelfield.studies.runs.run import Options
from levelfield.studies.runs.teacher import after_messages, outputs_of

TEACHER = {"label": "teacher", "message_passing": {"heads": 1}}


def student(form: str, name: str = "softmax", teacher: str = "teacher", **settings: Any) -> dict[str, Any]:
    return {"label": form, name: {"student": {"teacher": teacher, "form": form, **settings}}}


def told(run: Path, output: str) -> np.ndarray:
    spec = read_spec(run)
    return outputs_of(run, output, spec, inputs_for(spec, None, "cpu"), SILENT)


def embedded(run: Path) -> np.ndarray:
    """Raw rows of the training images, from the images themselves."""
    inputs = inputs_for(read_spec(run), None, "cpu")
    paths = [inputs.catalog.paths[i] for i in inputs.fold.train]
    return levelfield.load(run).embed(paths, normalize=False)


@pytest.fixture(scope="module")
def home(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A teacher and a student of each form, trained in one study that names the students first."""
    methods = [student("distill", temperature=2), student("imitate", "contrastive"), student("relational"), TEACHER]
    folder = tmp_path_factory.mktemp("school")
    runs = completed(small_study(photos, methods), folder)
    return {run.label: run.folder(folder) for run in runs}


COPIES = """
import numpy as np
import torch
from levelfield.methods import Method
from levelfield.objectives import Contrastive


class Copies(Method):
    teacher_output, learns_from = "rows", "its elder"

    def __init__(self, *, elder):
        super().__init__(Contrastive())

    @classmethod
    def requires(cls, settings):
        return (settings["elder"],)

    def receive_teacher(self, outputs):
        self.outputs = outputs

    def step(self, embedder, batch, generator):
        rows = self.embed(embedder, batch.inputs)
        copied = torch.from_numpy(np.ascontiguousarray(self.outputs[batch.indices]))
        return {**self.losses(rows, batch, generator), "copied": (rows - copied).square().mean()}

    def deviations(self, setting):
        return super().deviations(setting) | {"teacher": self.learns_from}
"""


@pytest.mark.usefixtures("quick_processes")
def test_somebodys_own_method_waits_for_the_run_that_it_requires(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(COPIES)
    own = {"label": "own", f"{tmp_path}/own.py:Copies": {"elder": "margin"}}
    runs = completed(small_study(photos, [own, "margin"]), tmp_path / "runs")
    assert [run.label for run in runs] == ["margin", "own"]
    (elder, copy) = runs
    assert [need.identity for need in copy.spec.needs] == [elder.spec.identity]
    assert "teacher its elder" in read_result(copy.folder(tmp_path / "runs")).deviation_texts
    assert log_of(copy.folder(tmp_path / "runs"))[-1]["terms"]["copied"] > 0


@pytest.mark.parametrize("form", ["distill", "imitate", "relational"])
def test_a_student_waits_for_its_teacher_and_says_so(home: dict[str, Path], form: str) -> None:
    texts = read_result(home[form]).deviation_texts
    assert any(text.startswith(f"teacher teacher, {form}, training time of the") for text in texts)
    terms = log_of(home[form])[0]["terms"]
    assert set(terms) == {"own", form}
    assert terms[form] > 0
    outputs = np.load(home[form] / "teacher.npy")
    np.testing.assert_array_equal(outputs, told(home["teacher"], "logits" if form == "distill" else "rows"))


def test_messages_of_the_teacher_pass_in_groups_of_true_classes(home: dict[str, Path]) -> None:
    spec = read_spec(home["teacher"])
    labels = inputs_for(spec, None, "cpu").train_labels
    objective: Any = load_method(home["teacher"]).objective
    groups = cluster_groups(labels, chunks=4, size=3, seed=spec.training_seed)  # batches were 4x3
    assert all(len(set(labels[chunk])) == 1 for group in groups.members for chunk in group.reshape(4, 3))
    for output in ("rows", "logits"):
        expected = after_messages(objective, embedded(home["teacher"]), groups, output)
        np.testing.assert_allclose(told(home["teacher"], output), expected, atol=1e-4)


def test_the_first_time_a_row_appears_counts() -> None:
    objective = MessagePassing(num_classes=3, dim=4)
    rows = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    groups = Groups(np.array([[0, 1, 0], [1, 2, 3], [4, 2, 0]]), (0, 1, 2))
    lessons = [objective.lesson(torch.from_numpy(rows[members])) for members in groups.members]
    expected = [(0, 0), (0, 1), (1, 1), (1, 2), (2, 0)]  # group and place of each row
    for part, output in enumerate(("rows", "logits")):
        found = after_messages(objective, rows, groups, output)
        for row, (group, place) in enumerate(expected):
            np.testing.assert_array_equal(found[row], lessons[group][part][place].numpy())


def test_other_teachers_give_their_rows_and_logits_if_they_have_classes(
    photos: Path, tmp_path: Path, home: dict[str, Path]
) -> None:
    with pytest.raises(BadInput, match=r"cannot be a teacher.*Contrastive has none"):
        told(home["imitate"], "logits")
    run = run_one(small_study(photos, ["normalized_softmax"]), tmp_path)
    rows = embedded(run)
    np.testing.assert_allclose(told(run, "rows"), rows, atol=1e-6)
    objective: Any = load_method(run).objective
    unit = torch.nn.functional.normalize
    cosines = unit(torch.from_numpy(rows)) @ unit(objective.proxies).T
    np.testing.assert_allclose(told(run, "logits"), (cosines / 0.05).detach().numpy(), atol=1e-4)


def test_a_finished_run_anywhere_may_teach(photos: Path, tmp_path: Path, home: dict[str, Path]) -> None:
    run = run_one(small_study(photos, [student("relational", teacher=str(home["teacher"]))], dim=6), tmp_path)
    np.testing.assert_array_equal(np.load(run / "teacher.npy"), np.load(home["relational"] / "teacher.npy"))


def test_an_ensemble_that_the_command_made_may_teach(photos: Path, tmp_path: Path, home: dict[str, Path]) -> None:
    join([home["teacher"], home["imitate"]], tmp_path / "both", ("recall@1",))
    run = run_one(small_study(photos, [student("relational", teacher=str(tmp_path / "both"))]), tmp_path / "out")
    expected = joined([told(home[name], "rows") for name in ("teacher", "imitate")])
    np.testing.assert_array_equal(np.load(run / "teacher.npy"), expected)


def test_of_an_ensemble_of_folds_those_of_the_student_teach(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos", classes=8, each=2)
    both = {"label": "both", "ensemble": {"of": ["margin", "triplet"]}}
    methods = ["margin", "triplet", both, student("relational", teacher="both")]
    study = small_study(photos, methods, overrides=("protocol={name: mlrc, folds: 2}",), steps=1, batch="2x2")
    runs = completed(study, tmp_path)
    parts = {(run.label, run.spec.fold): run.folder(tmp_path) for run in runs}
    for fold in range(2):
        expected = joined([told(parts[name, fold], "rows") for name in ("margin", "triplet")])
        np.testing.assert_array_equal(np.load(parts["relational", fold] / "teacher.npy"), expected)


@pytest.mark.parametrize(
    ("form", "conditions", "overrides", "message"),
    [
        ("imitate", {"dim": 4}, (), "8 embedding dimensions but the student has 4"),
        ("distill", {"batch": "2x3"}, ("protocol.validation=0.5",), "their order must be the same"),
    ],
)
def test_a_teacher_of_another_kind_is_refused(
    photos: Path, tmp_path: Path, home: dict[str, Path], form: str, conditions: Any, overrides: Any, message: str
) -> None:
    study = small_study(photos, [student(form, teacher=str(home["teacher"]))], overrides=overrides, **conditions)
    _, outcome = carry_out(study, tmp_path)
    assert message in outcome.failed[0]


def test_a_plan_knows_what_a_student_will_cost(photos: Path) -> None:
    study = small_study(photos, [TEACHER, *map(student, ("distill", "imitate", "relational"))])
    costs = estimate(levelfield.studies.resolve(study).runs, options=Options(), jobs=1).rows
    assert [cost for cost in costs if any("fails" in text for text in cost.deviations)] == []
    assert all(any(text.startswith("teacher teacher") for text in cost.deviations) for cost in costs[1:])


def test_a_killed_student_learns_the_same(photos: Path, tmp_path: Path, home: dict[str, Path]) -> None:
    study = small_study(photos, [student("distill", teacher=str(home["teacher"]))], steps=8)
    (run,) = levelfield.studies.resolve(study).runs
    whole, killed = Trial(run, tmp_path / "whole"), Trial(run, tmp_path / "killed")
    assert whole.start()
    for strike in (("before", "teacher.npy", 1), ("after", "checkpoint", 2)):
        assert not killed.start(strike=strike)
    assert killed.start()
    assert killed.result() == whole.result()
    assert (killed.folder / "teacher.npy").read_bytes() == (whole.folder / "teacher.npy").read_bytes()
