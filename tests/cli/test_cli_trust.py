"""An untrusted folder is data: no command runs code that only a folder names."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_room import COMMANDS, PICTURE, Levelfield, placed

from levelfield.embedder import load, model_files
from levelfield.errors import NotTrusted
from levelfield.reports.view.server import Server
from levelfield.studies.runs.folder.files import read_training, write_training
from levelfield.studies.runs.shared import SharedInputs, shared_inputs
from levelfield.studies.runs.spec import RunSpec
from made_parts import pretend_installed

EVIL = """
from pathlib import Path
Path(__file__).with_name("canary").touch()
import torch
from levelfield import data

class Loss(torch.nn.Module):
    def forward(self, embeddings, labels):
        return (embeddings ** 2).mean()

def photos():
    return data.create(Path(__file__).with_name("photos"))
"""
NETWORK = """
def network():
    import timm
    return timm.create_model("test_resnet")
"""
REFERENCES = {
    "method": lambda spec: spec["method"].update(name="evil.py:Loss", settings={}),
    "objective in a setting": lambda spec: spec["method"].update(name="drml", settings={"objective": "evil.py:Loss"}),
    "miner": lambda spec: spec["method"].update(name="triplet", settings={"miner": "evil.py:Loss"}),
    "data": lambda spec: spec.get("study", spec).update(data={"name": "evil.py:photos"}),
    "batching": lambda spec: spec["method"]["settings"].update(batching="evil.py:Loss"),
    "protocol": lambda spec: spec.get("study", spec)["protocol"].update(name="evil.py:Loss"),
    "backbone": lambda spec: spec.get("study", spec)["conditions"].update(backbone="evil.py:Loss"),
    "metric": lambda spec: spec.get("study", {}).update(metrics=["recall@1", "evil.py:photos@2"]),
    "figure": lambda spec: spec.get("study", {}).update(figures=["evil.py:photos"]),
    "corruption": lambda spec: spec.get("study", {}).update(corruptions=["evil.py:photos"]),
}
NEEDS_NO_CODE = ("report", "evaluate", "embed", "search", "export", "maps", "ensemble", "list")


def stranger(room: Path, change: Callable[[dict[str, Any]], object]) -> dict[str, str]:
    """A compared study whose files name code; the places that commands are told."""
    vars(shared_inputs()).update(vars(SharedInputs()))  # what another test read with trust
    (room / "evil.py").write_text(EVIL)
    study = room / "runs" / "small"
    planned = json.loads((study / "runs.json").read_text())
    for entry in planned:
        if entry["label"] == "contrastive":
            before = RunSpec.model_validate(entry["spec"])
            change(entry["spec"])
            spec = RunSpec.model_validate(entry["spec"])
            folder = (study / "contrastive" / before.folder_name).rename(study / "contrastive" / spec.folder_name)
            (folder / "run.yaml").write_text(yaml.safe_dump({"identity": spec.identity, **entry["spec"]}))
            write_training(folder, read_training(folder))  # a stranger writes the right checksums
    (study / "runs.json").write_text(json.dumps(planned))
    content = yaml.safe_load((study / "study.yaml").read_text())
    for method in content["methods"]:
        if method["label"] == "contrastive":
            change({"method": method, "data": {}, "protocol": {}, "conditions": {}, "study": content})
    (study / "study.yaml").write_text(yaml.safe_dump(content))
    run, other = (next(study.glob(f"{label}/seed0-*")) for label in ("contrastive", "normalized_softmax"))
    return {"STUDY": str(study), "RUN": str(run), "OTHER": str(other)}


@pytest.mark.parametrize("kind", REFERENCES)
def test_no_command_runs_code_that_a_folder_names(kind: str, compared: Path, levelfield: Levelfield) -> None:
    places = stranger(compared, REFERENCES[kind])
    for name, words in COMMANDS.items():
        ended = levelfield(*placed(words, places))
        assert "Traceback" not in ended.err, (name, ended.err)
        assert not (compared / "canary").exists(), name
        if kind == "method" and name in NEEDS_NO_CODE:
            assert ended.code == 0, (name, ended.err)


# how commands find a study in a folder, without a study file of the stranger among their words
FINDING = {
    "report": ["report", "STUDY", "--page"],
    "beside": ["report", "STUDY", "--beside", "STUDY"],
    "leaks": ["report", "STUDY", "--leaks"],
    "ranks": ["ranks", "STUDY", "STUDY"],
    "view": ["view", "STUDY"],
    "train": ["train", "small.yaml"],
    "compare": ["compare", "small.yaml", "seeds=1"],
    "best run": ["embed", "STUDY", PICTURE, "--out", "e.npy", "--force"],
    "first seed": ["index", "STUDY/contrastive", "photos", "--out", "photos-index"],
    "compact": ["compact", "RUN"],
}


@pytest.mark.parametrize("kind", ["method", "data", "figure"])
def test_a_study_that_a_command_finds_in_a_folder_runs_no_code_whatever_files_it_has_or_lacks(
    kind: str, compared: Path, levelfield: Levelfield, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Server, "serve", lambda server: None)
    monkeypatch.setattr("levelfield.cli.view._leave", lambda: None)
    places = stranger(compared, REFERENCES[kind])
    study, run = Path(places["STUDY"]), Path(places["RUN"])
    for lacking in (study / "nothing", run / "run.yaml", study / "runs.json"):
        lacking.unlink(missing_ok=True)
        for name, words in FINDING.items():
            ended = levelfield(*placed(words, places))
            assert "Traceback" not in ended.err, (name, lacking, ended.err)
            assert not (compared / "canary").exists(), (name, lacking)


def test_a_study_file_that_the_user_names_may_name_code_wherever_it_is(room: Path, levelfield: Levelfield) -> None:
    (room / "evil.py").write_text(EVIL)
    (room / "received").mkdir()
    study = yaml.safe_load((room / "small.yaml").read_text()) | {"methods": ["evil.py:Loss"], "seeds": 1}
    (room / "received" / "study.yaml").write_text(yaml.safe_dump(study))
    levelfield("compare", "received/study.yaml", "--dry-run")
    assert (room / "canary").exists()
    (room / "canary").unlink()
    (room / "received" / "runs.json").write_text("[]")  # of a compared study: data, until --trust
    assert "--trust evil.py" in levelfield("compare", "received/study.yaml", "--dry-run").error
    assert not (room / "canary").exists()


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        ("method", "refine"),
        ("data", "threshold"),
        ("data", "corrupt"),
        ("data", "leaks"),
        ("method", "train"),
        ("metric", "report"),
        ("figure", "report"),
    ],
)
def test_what_needs_code_names_the_file_and_takes_trust(
    kind: str, command: str, compared: Path, levelfield: Levelfield
) -> None:
    places = stranger(compared, REFERENCES[kind])
    words = placed(COMMANDS[command], places)
    message = levelfield(*words).error
    assert "--trust evil.py" in message
    levelfield(*words, "--trust", "evil.py")
    assert (compared / "canary").exists()


@pytest.mark.parametrize("command", ["embed", "search", "maps", "corrupt"])
def test_a_model_whose_backbone_is_code_takes_trust(command: str, compared: Path, levelfield: Levelfield) -> None:
    places = stranger(compared, lambda spec: None)
    described = Path(places["RUN"]) / "model.yaml"
    facts = yaml.safe_load(described.read_text())
    facts["trunk"]["backbone"] = "evil.py:network"
    text = yaml.safe_dump({key: value for key, value in facts.items() if key != "checksum"}, sort_keys=False)
    described.write_text(f"{text}checksum: '{model_files._checksum(text, described.with_name('model.safetensors'))}'\n")
    (compared / "evil.py").write_text(EVIL + NETWORK)
    words = placed(COMMANDS[command], places)
    assert "--trust evil.py" in levelfield(*words).error
    with pytest.raises(NotTrusted):
        load(places["RUN"])
    assert not (compared / "canary").exists()
    assert levelfield(*words, "--trust", "evil.py").code == 0
    assert (compared / "canary").exists()


def test_a_study_that_the_user_names_runs_what_it_names(room: Path, levelfield: Levelfield) -> None:
    (room / "evil.py").write_text(EVIL)
    ended = levelfield("compare", "small.yaml", "methods=[evil.py:Loss, lda]", "seeds=1", "metrics=recall@1")
    assert (room / "canary").exists()
    assert "--trust evil.py" in ended.printed  # the next command reads the folder's study.yaml
    assert "recall@1" in levelfield("report", "runs/small").printed


def test_a_folder_can_name_only_what_a_trusted_file_defines(compared: Path, levelfield: Levelfield) -> None:
    def shell(spec: dict[str, Any]) -> None:
        spec["data"] = {"name": "evil.py:run", "args": ["touch", "pwned"]}

    places = stranger(compared, shell)
    (compared / "evil.py").write_text("from subprocess import run\n")
    message = levelfield("threshold", places["RUN"], "--choose-on", "training", "--trust", "evil.py").error
    assert "not defined there" in message
    assert not (compared / "pwned").exists()


def test_trust_wants_a_python_file(compared: Path, levelfield: Levelfield) -> None:
    assert "Python file not found" in levelfield("report", "runs/small", "--trust", "gone.py").error


def test_no_module_of_the_working_directory_is_imported(tmp_path: Path) -> None:
    for shadow in ("signal", "torch", "yaml", "typing", "levelfield_plugin"):
        (tmp_path / f"{shadow}.py").write_text("import pathlib; pathlib.Path(__file__).with_name('canary').touch()\n")
    pretend_installed(tmp_path, "evil", "levelfield_plugin")
    words = [str(Path(sys.executable).with_name("levelfield")), "list", "miners"]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert not (tmp_path / "canary").exists()


def test_a_teacher_whose_code_is_not_trusted_is_refused_before_anything_trains(
    compared: Path, levelfield: Levelfield
) -> None:
    teacher = stranger(compared, REFERENCES["method"])["RUN"]
    student = {"name": "normalized_softmax", "settings": {"student": {"teacher": teacher, "form": "imitate"}}}
    words = ["compare", "small.yaml", f"methods={json.dumps([student])}", "seeds=1", "name=taught"]
    assert "--trust evil.py" in levelfield(*words).error
    assert not (compared / "runs" / "taught").exists()
    assert not (compared / "canary").exists()
    assert "taught: 1 runs" in levelfield(*words, "--trust", "evil.py", "--dry-run").printed
