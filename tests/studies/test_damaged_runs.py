"""Damaged run folders: every file of a finished run in every bad state gives one message or a correct result, the other
runs stay on the leaderboard, and `compare` recreates the damaged run."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_world import Heard, board_of, carry_out, completed, make_photos, small_study

from levelfield.errors import Damaged, LevelfieldError
from levelfield.studies import PlannedRun, Study
from levelfield.studies.runs.finished import how_many_bits, how_many_models, how_refined, stored_test
from levelfield.studies.runs.folder.files import FINISHED, MADE, PER_QUERY, read_spectrum
from levelfield.studies.runs.folder.store import finished_result, is_finished, read_plan, read_spec, write_plan
from levelfield.studies.runs.joined.members import checked

JSON, TABLES = ("metrics.json", "training.json"), ("items.csv", "run.yaml")
FILES = ("metrics.json", "training.json", "per_query.npz", "items.csv", "embeddings.npy", "run.yaml")


class World:
    """A finished study of two runs; each damage is done to a copy of the first one."""

    def __init__(self, home: Path) -> None:
        self.home = home
        photos = make_photos(home / "photos", classes=6, each=4)
        self.study: Study = small_study(photos, ["contrastive", "lda"], steps=2, batch="3x2")
        self.runs = completed(self.study, home / "runs")
        write_plan(home / "runs", self.runs)
        self.run: PlannedRun = self.runs[0]
        self.answer = ask(self.folder)

    @property
    def folder(self) -> Path:
        return self.run.folder(self.home / "runs")

    def copy(self, to: Path) -> tuple[Path, Path]:
        """The study's folder and the first run's, in a copy."""
        shutil.copytree(self.home / "runs", to)
        return to, self.run.folder(to)


def ask(folder: Path) -> dict[str, Any]:
    """All that the readers say of a run."""
    rows, items = stored_test(folder)
    [member] = checked([folder])
    return {
        "rows": np.asarray(rows).tolist(),
        "items": items.paths,
        "classes": items.classes.tolist(),
        "spec": read_spec(folder).identity,
        "values": member.result.values,
        "labels": member.labels.tolist(),
        "queries": member.result.per_query("recall@1")[0].tolist(),
        "spectrum": read_spectrum(folder, "spectrum").tolist(),
        "how": (how_refined(folder), how_many_models(folder), how_many_bits(folder), member.dim, member.passes),
    }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


def large_shape(path: Path) -> None:
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (2**40, 2**20)})


def objects(path: Path) -> None:
    array = np.array([{}, []], dtype=object)
    with path.open("wb") as file:
        if path.suffix == ".npz":
            np.savez(file, labels=array)
        else:
            np.save(file, array, allow_pickle=True)


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) * 3 // 4] ^= 4
    path.write_bytes(content)


def loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def text(content: str | bytes) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    change.__name__ = repr(content[:20])
    return change


ANY = [text(""), text(b"\xff\xfe\x00\x80"), text("null"), text("[]"), text("{}"), flipped, loop, folder, pipe]
DAMAGES = [
    *((name, change) for name in FILES for change in ANY),
    *((name, lambda path: path.write_bytes(path.read_bytes()[:-9])) for name in FILES if name != "run.yaml"),
    *((name, lambda path: path.unlink()) for name in FILES),
    *((name, text("[" * 100_000)) for name in JSON),
    *((name, text("1" * 5_000)) for name in JSON),
    ("per_query.npz", objects),
    ("embeddings.npy", large_shape),
    ("embeddings.npy", objects),
    ("items.csv", text("path,class\n" + "x" * 200_000 + ",a\n")),
    ("items.csv", text("path,class\na\n")),
    ("items.csv", text("path\na\n")),
    ("items.csv", text('path,class\na,"\n')),
    ("items.csv", text("path,class\na,\0\n")),
    ("run.yaml", text("identity: 2024-13-45\nversions: 2024-02-31")),
    ("run.yaml", text("identity: !!int x")),
]


@pytest.mark.parametrize(("name", "damage"), DAMAGES, ids=lambda part: getattr(part, "__name__", part))
def test_a_damaged_file_is_named_and_the_other_run_stays(
    world: World, tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    study_folder, run_folder = world.copy(tmp_path / "runs")
    damage(run_folder / name)
    with pytest.raises(LevelfieldError) as error:
        ask(run_folder)
    unfinished = "is not a finished run" in str(error.value) or "has no test embeddings" in str(error.value)
    gone = not os.path.lexists(run_folder / name)
    assert name in str(error.value) or (gone and (unfinished or name == "run.yaml"))
    assert "to make it again" in str(error.value) or gone
    assert not is_finished(run_folder, world.run.spec, world.study.metrics)
    board = board_of(world.study, world.runs, study_folder)
    assert [row.label for row in board.rows if row.label == "lda"] == ["lda"]


@pytest.mark.parametrize("name", [*FILES, *(name for name in MADE if name not in FILES)])
@pytest.mark.parametrize("damage", [flipped, text("")])
def test_a_damaged_run_is_made_again(world: World, tmp_path: Path, name: str, damage: Callable[[Path], None]) -> None:
    study_folder, run_folder = world.copy(tmp_path / "runs")
    damage(run_folder / name)
    heard = Heard()
    completed(world.study, study_folder, progress=heard)
    assert heard.of("start") == [0]
    assert ask(run_folder) == world.answer
    assert is_finished(run_folder, world.run.spec, world.study.metrics)


def test_an_unfinished_run_whose_description_lacks_its_identity_is_made_again(world: World, tmp_path: Path) -> None:
    study_folder, run_folder = world.copy(tmp_path / "runs")
    for name in JSON:
        (run_folder / name).unlink()
    lines = (run_folder / "run.yaml").read_text().splitlines(keepends=True)
    (run_folder / "run.yaml").write_text("".join(line for line in lines if not line.startswith("identity")))
    completed(world.study, study_folder)
    assert ask(run_folder) == world.answer


@pytest.mark.parametrize("names", [(PER_QUERY,), FILES], ids=["one", "all"])
def test_a_folder_in_the_place_of_a_file_is_renamed(world: World, tmp_path: Path, names: tuple[str, ...]) -> None:
    study_folder, run_folder = world.copy(tmp_path / "runs")
    for name in names:
        folder(run_folder / name)
        (run_folder / name / "notes.txt").write_text("of a user")
    completed(world.study, study_folder)
    assert ask(run_folder) == world.answer
    assert all((run_folder / f"{name}.damaged" / "notes.txt").exists() for name in names)


def test_measuring_again_trains_nothing(world: World, tmp_path: Path) -> None:
    study_folder, run_folder = world.copy(tmp_path / "runs")
    flipped(run_folder / PER_QUERY)
    heard = Heard()
    carry_out(world.study, study_folder, progress=heard)
    assert {event.text for event in heard.events if event.kind == "progress"} == {"measuring"}


def test_a_file_without_its_checksum_is_damaged(world: World, tmp_path: Path) -> None:
    _, run_folder = world.copy(tmp_path / "runs")
    content = json.loads((run_folder / FINISHED).read_text())
    for key in ("checksum", "checksums"):
        (run_folder / FINISHED).write_text(json.dumps({name: content[name] for name in content if name != key}))
        with pytest.raises(Damaged, match="it has no checksums"):
            ask(run_folder)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FUZZ = settings(
    max_examples=60,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def answers(world: World, run_folder: Path, name: str) -> None:
    """A right answer, or an error of ours. A run without the damaged file is asked for what it still has."""
    result, reason = finished_result(run_folder, world.run.spec, world.study.metrics)
    assert result is None or result.values == world.answer["values"]
    assert isinstance(reason, str)
    try:
        found = ask(run_folder)
    except LevelfieldError:
        return
    assert found == world.answer, name


@FUZZ
@given(st.sampled_from(FILES), st.data())
def test_any_bytes_give_an_error_or_the_right_answer(world: World, name: str, data: st.DataObject) -> None:
    path = world.folder / name
    before = path.read_bytes()
    start = data.draw(st.integers(0, len(before)), "from")
    end = data.draw(st.just(len(before)) | st.integers(start, len(before)), "to")
    try:
        path.write_bytes(before[:start] + data.draw(st.binary(max_size=40), "bytes") + before[end:])
        answers(world, world.folder, name)
    finally:
        path.write_bytes(before)


@FUZZ
@given(PLAIN | st.binary(max_size=30), st.data())
def test_any_plan_of_a_study_is_read_or_refused(world: World, tmp_path: Path, value: Any, data: st.DataObject) -> None:
    content = json.loads((world.home / "runs" / "runs.json").read_text())
    place: Any = content
    key: Any = 0
    while isinstance(place[key], dict | list) and place[key] and data.draw(st.booleans()):
        place = place[key]
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
    if not isinstance(value, bytes):
        place[key] = value
    written = value if isinstance(value, bytes) else json.dumps(content).encode()
    (tmp_path / "runs.json").write_bytes(written)
    try:
        read_plan(tmp_path)
    except LevelfieldError as error:
        assert "runs.json" in str(error)  # noqa: PT017 - either outcome is right
