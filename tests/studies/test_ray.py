"""Runs on a Ray cluster have the bits of runs done here, whatever happens to nodes, processes and drivers."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
import yaml
from ray_world import World, ray_world, results
from small_world import Heard, command, completed, make_photos, processes, small_study

from levelfield import evaluation
from levelfield.cli import main
from levelfield.errors import BadInput
from levelfield.studies import PlannedRun, Study, resolve
from levelfield.studies.execution.cluster import on_ray
from levelfield.studies.execution.cluster.on_ray import OnRay, claimed_study
from levelfield.studies.execution.cluster.resources import Demands
from levelfield.studies.execution.events import Event
from levelfield.studies.execution.workers import Outcome, run_all
from levelfield.studies.runs.run import Options
from levelfield.training import Pace
from levelfield.tuning import Budget, Judge, SearchSettings, tune

LONG = {"steps": 40, "cut": "last-1"}
OFTEN = Options(pace=Pace(log_every=3, save_every_steps=2))


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with ray_world() as made:
        yield made


@pytest.fixture(scope="module")
def graph(photos: Path) -> Study:
    """Methods, a student that waits for its teacher, and an ensemble that waits for its members."""
    student = {"label": "student", "contrastive": {"student": {"teacher": "margin", "form": "imitate"}}}
    return small_study(photos, ["margin", "triplet", student, {"ensemble": {"of": ["margin", "triplet"]}}])


@pytest.fixture(scope="module")
def long(photos: Path) -> Study:
    return small_study(photos, ["margin", "normalized_softmax"], overrides=("seeds=2",), **LONG)


def here(study: Study, folder: Path) -> list[dict[str, object]]:
    runs = completed(study, folder, OFTEN)
    return results(runs, folder)


@pytest.fixture(scope="module")
def expected(long: Study, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    """The long study, done in this process."""
    return here(long, tmp_path_factory.mktemp("here"))


def there(study: Study, folder: Path, heard: Heard, *, shared: bool | None = None) -> tuple[list[PlannedRun], Outcome]:
    runs = resolve(study).runs
    executor = OnRay(ray, shared=shared)
    outcome = run_all(runs, folder, study.metrics, jobs=1, options=OFTEN, progress=heard, executor=executor)
    return runs, outcome


@pytest.mark.parametrize("shared", [None, False], ids=["shared folder", "sent back"])
def test_a_graph_of_runs_has_the_same_bits(world: World, graph: Study, tmp_path: Path, shared: bool | None) -> None:
    heard = Heard()
    runs, outcome = there(graph, tmp_path / "there", heard, shared=shared)
    assert not outcome.failed
    assert results(runs, tmp_path / "there") == here(graph, tmp_path / "here")
    assert sorted(heard.of("done")) == sorted(heard.of("start")) == list(range(len(runs)))
    assert {event.text for event in heard.events if event.kind == "progress"} >= {"training", "embedding"}
    order = [(event.kind, runs[event.run].label) for event in heard.events if event.kind in ("start", "done")]
    assert order.index(("start", "student")) > order.index(("done", "margin"))
    assert not list((tmp_path / "there").glob(".cluster*"))
    where = yaml.safe_load((runs[0].folder(tmp_path / "there") / "run.yaml").read_text())
    assert where["place"]["relative"] == os.path.relpath(where["place"]["absolute"], runs[0].folder(tmp_path / "there"))
    assert where["machine"]["capability"]


@pytest.mark.parametrize(("shared", "killed"), [(None, 1), (False, 2)], ids=["shared folder", "sent back"])
def test_nodes_that_are_killed_change_no_bit(
    world: World, long: Study, expected: list[dict[str, object]], tmp_path: Path, shared: bool | None, killed: int
) -> None:
    class Kills(Heard):
        kills = 0

        def on_event(self, event: Event) -> None:
            super().on_event(event)
            if self.kills < killed and self.of("start") and len(self.events) > 8 * self.kills + moments[self.kills]:
                world.replace(self.kills % 2)
                self.kills += 1

    moments = np.random.default_rng(5).integers(1, 8, size=killed)
    heard = Kills()
    runs, outcome = there(long, tmp_path, heard, shared=shared)
    assert not outcome.failed
    assert heard.kills == killed
    assert heard.of("lost")
    assert results(runs, tmp_path) == expected


def test_a_process_that_is_killed_is_replaced_and_continues(
    world: World, long: Study, expected: list[dict[str, object]], tmp_path: Path
) -> None:
    """As the kernel does when memory runs out."""

    class Kills(Heard):
        def on_event(self, event: Event) -> None:
            super().on_event(event)
            training = [one for one in self.events if one.kind == "progress" and one.text == "training"]
            if training and training[-1].done >= 10 and not self.of("lost") and not self.victims:
                begun = {one.run: one.text for one in self.events if one.kind == "start"}
                self.victims.append(int(begun[training[-1].run].split()[1]))
                os.kill(self.victims[0], signal.SIGKILL)

        victims: list[int] = []  # noqa: RUF012 - one test

    heard = Kills()
    runs, outcome = there(long, tmp_path, heard)
    assert not outcome.failed
    assert len(heard.of("lost")) == 1
    assert results(runs, tmp_path) == expected
    text = next(event.text for event in heard.events if event.kind == "lost")
    assert text == "its process was killed, often due to lack of memory"


def test_a_run_that_always_dies_fails_and_stops_no_other(
    world: World, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = tmp_path / "data.py"
    code.write_text(
        "import os\nfrom levelfield.data import create\n"
        "def images(folder):\n"
        f"    if os.getpid() != {os.getpid()}:\n"
        "        os.kill(os.getpid(), 9)\n"
        "    return create(folder)\n"
    )
    monkeypatch.setattr(on_ray, "MAX_CRASHES", 2)
    monkeypatch.setattr(OnRay, "_check_nodes", lambda *_: True)  # which would be killed, too
    bad = small_study(photos, ["lda"], overrides=(f"data={{name: '{code}:images', folder: '{photos}'}}",))
    _, outcome = there(bad, tmp_path / "bad", Heard())
    assert "2 times without getting further" in outcome.failed[0]
    assert "2 times" in next((tmp_path / "bad").glob("*/*/error.txt")).read_text()


def test_a_driver_that_is_stopped_or_killed_continues_when_started_again(
    world: World, long: Study, expected: list[dict[str, object]], tmp_path: Path
) -> None:
    file, log, cache = tmp_path / "long.yaml", tmp_path / "log.txt", Path(os.environ["LEVELFIELD_CACHE"])
    file.write_text(yaml.safe_dump(long.model_dump(mode="json", exclude_defaults=True) | {"name": "long"}))
    words = ["compare", str(file), "--out", str(tmp_path), "--ray", world.address, "--no-page"]

    ray_settings = {name: value for name, value in os.environ.items() if name.startswith("RAY_") or name == "HOME"}

    def start() -> Any:  # the token of the cluster, among others, is in its settings
        process = processes().Process(target=command, args=(words, log, cache, ray_settings))
        process.start()
        return process

    def written(name: str, count: int) -> bool:
        return len(list((tmp_path / "long").glob(f"*/*/{name}"))) >= count

    for how, name, count in ((signal.SIGINT, "log.jsonl", 1), (signal.SIGKILL, "training.json", 2)):
        driver, until = start(), time.monotonic() + 200
        while not written(name, count) and driver.exitcode is None and time.monotonic() < until:
            time.sleep(0.02)
        assert driver.exitcode is None, log.read_text()
        os.kill(driver.pid, how)
        driver.join(100)
        said = log.read_text()
        assert driver.exitcode == (-signal.SIGKILL if how == signal.SIGKILL else 130), said
        assert how == signal.SIGKILL or "Stopped. Nothing is lost: run the same command again to continue." in said
        assert not written("metrics.json", 4), "it was ended too late"
    runs, outcome = there(long, tmp_path / "long", Heard())
    assert not outcome.failed
    assert not list((tmp_path / "long").glob(".cluster*"))
    found = results(runs, tmp_path / "long")
    for one, other in zip(found, expected, strict=True):  # the command writes its log less often
        assert one | {"log.jsonl": b""} == other | {"log.jsonl": b""}


def test_a_search_on_a_cluster_finds_the_same_settings(world: World, tmp_path: Path) -> None:
    study = small_study(make_photos(tmp_path / "photos", classes=12), ["triplet"])
    study = study.model_copy(update={"search": {"triplet.margin": [0.05, 0.3, "log"]}})
    settings = SearchSettings(Budget(trials=2), Judge(validation=0.4), sampler="halton")
    with on_ray.on_ray(world.address, jobs=1, threads=1) as executor:
        there = tune(study, tmp_path / "there", settings, executor=executor)
    here = tune(study, tmp_path / "here", settings, jobs=0)
    assert [(trial.settings, trial.value) for trial in there.trials] == [
        (one.settings, one.value) for one in here.trials
    ]
    assert there.study.methods == here.study.methods


def test_an_evaluation_on_a_cluster_has_the_same_bits(world: World, tmp_path: Path) -> None:
    rows, labels = np.random.default_rng(0).normal(size=(400, 8)).astype(np.float16), np.arange(400) % 40
    np.save(tmp_path / "rows.npy", rows)
    with evaluation.on_ray(world.address) as shards:
        found = evaluation.evaluate(np.load(tmp_path / "rows.npy", mmap_mode="r"), labels, shards=shards)
    right = evaluation.evaluate(rows, labels)
    assert dict(found) == dict(right)
    assert all(np.array_equal(found.per_query[name], right.per_query[name]) for name in right.per_query)


def test_cluster_check_prints_a_line_for_every_node(
    world: World, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = tmp_path / "study.yaml"
    study.write_text(yaml.safe_dump({"data": str(photos), "methods": ["margin"]}))
    with pytest.raises(SystemExit) as ended:
        main(["cluster", "check", world.address, "--study", str(study), "--out", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    assert ended.value.code == 0, lines
    assert len(lines) == 2
    assert all("1 cores" in line and "40 images" in line and "sees the output folder" in line for line in lines)


def test_a_second_driver_of_a_study_is_refused(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("levelfield.studies.execution.cluster.on_ray.PATIENCE", 0.5)
    with (
        claimed_study(ray, tmp_path),
        pytest.raises(BadInput, match="Another command on this cluster is executing the study"),
        claimed_study(ray, tmp_path),
    ):
        pass


def test_a_run_asks_for_its_threads_and_its_estimated_memory(world: World, long: Study, tmp_path: Path) -> None:
    runs = resolve(long).runs
    demand = Demands(Options()).of(runs[0].spec, [])
    assert (demand["num_cpus"], demand["num_gpus"]) == (1, 0)
    assert 400e6 < demand["memory"] < 2e9
    assert Demands(Options(device="cuda:1")).of(runs[0].spec, [])["num_gpus"] == 1
    many = small_study(long.data.name, ["margin"], threads=64)
    with pytest.raises(BadInput, match=r"needs 64 cores \(conditions.threads\), but no node has more than 1"):
        there(many, tmp_path / "many", Heard())
