"""Runs of several processes in a study: started and ended together, continued by the next command."""

from __future__ import annotations

import socket
import tempfile
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
import yaml
from safetensors.torch import load_file
from small_world import carry_out, one_run, processes, run_one, small_study, told, wait_for

from levelfield.cli import app
from levelfield.distributed.ranks import Ranks
from levelfield.errors import BadSpecification, CommandEnded, RunFailed
from levelfield.files.writing import is_alive
from levelfield.studies import resolve
from levelfield.studies.runs import run as run_module
from levelfield.studies.runs import several_processes
from levelfield.studies.runs.folder.method_file import load_method
from levelfield.studies.runs.run import Options
from levelfield.training import Pace

OWN = """
import os, signal, pathlib
from torch import distributed
from levelfield.objectives import Contrastive

class Mortal(Contrastive):
    def __init__(self, mark: str, error: bool = False):
        super().__init__(miner="all")
        self.mark, self.error, self.calls = pathlib.Path(mark), error, 0

    def forward(self, embeddings, labels, **more):
        self.calls += 1
        if distributed.get_rank() == 1 and self.calls == 4 and not self.mark.exists():
            self.mark.touch()
            if self.error:
                raise ValueError("the second process has enough")
            os.kill(os.getpid(), signal.SIGKILL)
        return super().forward(embeddings, labels, **more)

class Endless(Contrastive):
    def forward(self, embeddings, labels, **more):
        pathlib.Path(__file__).with_name(f"rank {distributed.get_rank()} {os.getpid()}").touch()
        return super().forward(embeddings, labels, **more)
"""
SAVING = Options(pace=Pace(log_every=1, save_every_steps=2))


def test_a_process_that_dies_ends_all_and_the_next_command_continues_to_the_same_bits(
    photos: Path, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    own = {f"{tmp_path / 'own.py'}:Mortal": {"mark": str(tmp_path / "mark")}, "label": "own"}
    study = small_study(photos, [own], steps=6, processes=2, cut="last-1", batch_norm="train")
    runs, outcome = carry_out(study, tmp_path / "killed", SAVING)
    assert "killed by signal 9" in outcome.failed[0]
    assert "(rank 1)" in outcome.failed[0]
    assert "Run the same command again to continue" in outcome.failed[0]
    folder = runs[0].folder(tmp_path / "killed")
    assert not (folder / "model.safetensors").exists()
    assert (folder / "checkpoint").exists()
    assert run_one(study, tmp_path / "killed", SAVING) == folder
    whole = run_one(study, tmp_path / "whole", SAVING)  # the mark is there: nothing dies
    assert (folder / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert yaml.safe_load((folder / "run.yaml").read_text(encoding="utf-8"))["conditions"]["processes"] == 2
    measured = told(folder)["measured"]
    assert measured["processes"] == 2
    assert measured["rows_through_trunk"] == measured["images"] == 6 * 12


def test_an_error_of_any_process_is_reported_as_its_own(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    own = {f"{tmp_path / 'own.py'}:Mortal": {"mark": str(tmp_path / "mark"), "error": True}, "label": "own"}
    runs, outcome = carry_out(small_study(photos, [own], processes=2), tmp_path / "runs")
    assert outcome.failed[0] == "ValueError: the second process has enough"
    assert "in forward" in (runs[0].folder(tmp_path / "runs") / "error.txt").read_text(encoding="utf-8")


def test_a_killed_command_ends_its_processes_and_the_next_removes_their_folder(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    own = {f"{tmp_path / 'own.py'}:Endless": {}, "label": "own"}
    (endless,) = resolve(small_study(photos, [own], steps=100_000, processes=2)).runs
    where = (tmp_path / "run", tmp_path / "cache")
    driver = processes().Process(target=one_run, args=(endless, *where, ("recall@1",), None))
    driver.start()
    try:
        wait_for(lambda: len(list(tmp_path.glob("rank *"))) == 2, 60)
        ranks = [int(path.name.split()[2]) for path in tmp_path.glob("rank *")]
        (left,) = Path(tempfile.gettempdir()).glob(f".levelfield-*.{socket.gethostname()}~{driver.pid}~*")
    finally:
        driver.kill()
    wait_for(lambda: not any(map(is_alive, ranks)), seconds=5)
    run_one(small_study(photos, ["triplet"], steps=1, processes=2), tmp_path / "next")
    assert not left.exists()


def test_one_process_is_no_part_of_an_identity_and_enough_for_what_trains_nothing(photos: Path, tmp_path: Path) -> None:
    plain, one, two = (
        resolve(small_study(photos, ["triplet"], **more)).runs[0].spec
        for more in ({}, {"processes": 1}, {"processes": 2})
    )
    assert plain.identity == one.identity != two.identity
    folder = run_one(small_study(photos, ["lda"], processes=2), tmp_path)
    assert [entry["what"] for entry in told(folder)["deviations"]] == ["steps"]


def test_torchrun_with_another_number_of_processes_is_refused(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (run_module, several_processes):
        monkeypatch.setattr(module, "current", lambda: Ranks(0, 3))
    _, outcome = carry_out(small_study(photos, ["triplet"], processes=2), tmp_path)
    assert "torchrun started 3 processes, but the run has processes: 2. Use --nproc-per-node 2" in outcome.failed[0]


def test_a_failed_run_under_torchrun_ends_the_command_with_its_error(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RunFailed("The loss is nan.")

    for module in (run_module, several_processes):
        monkeypatch.setattr(module, "current", lambda: Ranks(0, 2))
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(several_processes, "_send", lambda _: None)
    monkeypatch.setattr(several_processes, "train_run", fail)
    with pytest.raises(
        CommandEnded, match=r"^The loss is nan. The command ends with .* `--processes 2` instead"
    ) as end:
        run_one(small_study(photos, ["margin"], steps=6, processes=2), tmp_path)
    monkeypatch.setattr(app, "app", Mock(side_effect=end.value))
    with pytest.raises(SystemExit, match=r"^1$"):
        app.main([])
    assert capsys.readouterr().err.startswith("Error: The loss is nan. The command ends")


def test_divided_classes_train_the_undivided_model_and_a_sample_is_in_the_ledger(photos: Path, tmp_path: Path) -> None:
    methods = ["cosface", {"cosface": {"sharded": True}, "label": "sharded"}]
    sampled = {"cosface": {"sharded": {"sample": 0.25}}, "label": "sampled"}
    few = {"batch": "2x4", "lr": 0.0005}  # 2 of the 4 training classes
    one, _ = carry_out(small_study(photos, [*methods, sampled], **few), tmp_path)
    two, _ = carry_out(small_study(photos, [methods[1], sampled], processes=2, **few), tmp_path)
    found = {}
    for label, run in zip(("whole", "sharded", "sampled", "two", "two, sampled"), [*one, *two], strict=True):
        folder = run.folder(tmp_path)
        proxies = load_method(folder).proxies
        weights = {**load_file(folder / "model.safetensors"), "proxies": proxies.detach()}
        found[label] = [entry["text"] for entry in told(folder)["deviations"]], weights
    assert found["whole"][0] == found["sharded"][0] == found["two"][0]
    assert "extra parameters 32" in found["two"][0]
    for label in ("sampled", "two, sampled"):
        assert found[label][0] == [*found["whole"][0], "class sample 0.25 (1)"]
    for label, other in (("sharded", "whole"), ("two", "whole"), ("two, sampled", "sampled")):
        for name, value in found[other][1].items():
            torch.testing.assert_close(found[label][1][name], value, rtol=1e-5, atol=1e-5, msg=f"{label}: {name}")
    assert (found["whole"][1]["proxies"] - found["sampled"][1]["proxies"]).abs().max() > 1e-4


@pytest.mark.parametrize(("device", "instead"), [("cuda:1", "cuda; CUDA_VISIBLE_DEVICES=1,3"), ("mps", "cpu")])
def test_one_gpu_is_refused_for_several_processes(photos: Path, device: str, instead: str) -> None:
    with pytest.raises(
        BadSpecification, match=f"--device {device} is one GPU, but each of 2 .* Use --device {instead}"
    ):
        resolve(small_study(photos, ["contrastive"], processes=2), options=Options(device=device))
