"""`levelfield compare` and `train`: from photos to a leaderboard and beyond."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml
from cli_room import Levelfield, make_photos

from levelfield.errors import BadInput
from levelfield.reports.figures import _registry as figures
from levelfield.studies.execution.study import keep_earlier

QUICK = ["seeds=1", "conditions.steps=2", "conditions.image=32", "metrics=[recall@1, map@r]"]
NETWORK = ["conditions.backbone=test_resnet", "conditions.weights=random", "conditions.taps=final"]
TINY = [*QUICK, "methods=[start, contrastive]", *NETWORK, "conditions.dim=8"]


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def next_commands(said: str) -> list[list[str]]:
    after = said.partition("\nNext:\n")[2]
    return [shlex.split(line)[1:] for line in after.splitlines() if line.startswith("  levelfield ")]


def test_a_folder_of_20_classes_works_and_the_next_commands_run(levelfield: Levelfield, room: Path) -> None:
    """The whole way with all methods, validation classes that choose the steps, and spaces in every path."""
    photos = make_photos(room / "my photos", classes=20, each=8)
    printed = levelfield("compare", "--data", photos, "--out", "all my runs", *QUICK, *NETWORK).printed
    assert "The batch is 6x4 instead of 25x4: there are 6 training classes." in printed
    assert "Trains on 6 classes (48 images), validates on 4 classes (32 images), tests on" in " ".join(printed.split())
    assert printed.index("Estimated time") < printed.index("best first by recall@1")
    study = yaml.safe_load((room / "all my runs/my photos/study.yaml").read_text())
    assert study["conditions"]["batch"] == "6x4"
    assert study["conditions"]["dim"] == 96, "as many as the network's features, if there are fewer than 512"
    assert all(method["label"] in printed for method in study["methods"])
    assert len(study["methods"]) == 8
    assert (room / "all my runs/my photos/curves.png").exists()
    commands = next_commands(printed)
    assert [words[0] for words in commands] == ["search", "embed", "compare"], "two steps make no row the best"
    assert "Nearest to" in levelfield(*commands[0]).printed
    assert "160 embeddings of" in levelfield(*commands[1]).printed
    assert "my photos-deeper: 8 runs" in levelfield(*commands[2], "--dry-run").printed
    described = "all my runs/my photos/study.yaml"
    trained = levelfield("train", described, "--method", "best", "--all-classes", "--out", "all my runs").printed
    assert "on every class" in trained
    folder = shlex.split(re.sub(r"\n", " ", trained).rpartition("levelfield embed ")[2])[0]
    assert "all my runs/my photos-all-classes" in folder
    assert levelfield("-q", "embed", folder, photos / "class 00", "--out", "whole.npy").code == 0


def test_a_csv_is_data_too_and_its_next_commands_run(levelfield: Levelfield, room: Path) -> None:
    lines = [f"photos/class 0{c}/{n}.png,thing {c}" for c in range(8) for n in range(4)]
    Path("my list.csv").write_text("path,label\n" + "\n".join(lines) + "\n")
    printed = levelfield("compare", "--data", "my list.csv", *TINY).printed
    for words in next_commands(printed):
        assert levelfield(*words).code == 0
    assert Path("runs/my list/leaderboard.csv").exists()


def test_a_dry_run_shows_the_plan_and_writes_nothing(levelfield: Levelfield, room: Path) -> None:
    before = files(room)
    printed = levelfield("compare", "small.yaml", "methods.contrastive.lr=0.5", "--dry-run", "--cache", "mine").printed
    assert "small: 5 runs" in printed
    assert "lr 0.5 (0.003)" in printed
    assert re.search(r"Estimated time: about \d+ s", printed)
    assert "Disk:" in printed
    assert levelfield("compare", "--data", "photos", *TINY, "--dry-run", "--out", "elsewhere").code == 0
    assert files(room) == before
    assert not (room / "runs").exists()
    assert not (room / "elsewhere").exists()


def test_the_layout_is_fitted_to_what_is_left_after_validation(levelfield: Levelfield, room: Path) -> None:
    validating = ["protocol.validation=0.5", "conditions.select=recall@1", "conditions.validate_every=1"]
    printed = levelfield("compare", "--data", "photos", *TINY, *validating).printed
    assert "2 training classes" in printed


def test_photographs_are_seen_larger_unless_the_user_says_so(levelfield: Levelfield, room: Path) -> None:
    make_photos(room / "large", classes=4, each=2, side=100)
    free = [word for word in TINY if "image" not in word and "taps" not in word]
    plan = " ".join(levelfield("compare", "--data", "large", *free, "--dry-run").printed.split())
    assert "Photographs: resized to 160 px" in plan
    as_written = " ".join(levelfield("compare", "--data", "large", *TINY, "--dry-run").printed.split())
    assert "160 px" not in as_written


def test_data_given_beside_a_study_replaces_the_studys_own(levelfield: Levelfield, room: Path) -> None:
    study = yaml.safe_load(Path("small.yaml").read_text()) | {"data": {"name": "folder", "path": "photos"}}
    Path("small.yaml").write_text(yaml.safe_dump(study))
    for name in ("other #2: yes", "7"):  # names that YAML would take for something else
        make_photos(room / name, classes=4, each=3)
        words = ["methods=[start]", "seeds=1", f"name=on {len(name)}", "--data", name]
        assert levelfield("-q", "compare", "small.yaml", *words).code == 0
        assert yaml.safe_load(Path(f"runs/on {len(name)}/study.yaml").read_text())["data"] == {"name": name}


def test_quiet_prints_results_and_no_progress(levelfield: Levelfield, room: Path) -> None:
    loud = levelfield("compare", "--data", "photos", *TINY)
    assert "all 2 runs" in loud.err
    assert "- photos: 32 images" in loud.out
    quiet = levelfield("-q", "compare", "--data", "photos", *TINY, "--out", "again")
    assert quiet.err == ""
    assert "best first by recall@1" in quiet.printed
    assert "- photos: 32 images" not in quiet.out
    after = levelfield("compare", "--data", "photos", *TINY, "--out", "again", "-q")
    assert after.err == ""
    assert after.out.partition("best first")[2] == quiet.out.partition("best first")[2]


def test_a_sweep_has_a_row_for_each_value(levelfield: Levelfield, room: Path) -> None:
    words = ["vary={conditions.dim: [4, 6]}", "methods=[contrastive]", "seeds=1"]
    printed = levelfield("compare", "small.yaml", *words).printed
    assert "contrastive [dim=4]" in printed
    assert "contrastive [dim=6]" in printed
    best = levelfield("train", "small.yaml", *words, "--all-classes").printed
    dim = re.search(r"Best trained method by recall@1: contrastive \[dim=(\d)\]", best)
    assert dim
    [described] = Path("runs/small-all-classes").rglob("run.yaml")
    assert yaml.safe_load(described.read_text())["conditions"]["dim"] == int(dim[1])


def test_an_own_loss_from_a_file_competes(levelfield: Levelfield, room: Path) -> None:
    text = """
from torch import nn
class MyLoss(nn.Module):
    def __init__(self, *, scale=1.0):
        super().__init__()
        self.scale = scale
    def forward(self, embeddings, labels):
        same = labels[:, None] == labels
        return self.scale * (((embeddings[:, None] - embeddings) ** 2).sum(2) * same).mean()
"""
    Path("my_losses.py").write_text(text)
    words = ["methods=[start, {label: mine, my_losses.py:MyLoss: {scale: 2.0}}]", "seeds=1"]
    assert "mine" in levelfield("compare", "small.yaml", *words).printed
    Path("my_losses.py").write_text(text.replace(".mean()", ".sum()"))
    assert levelfield("compare", "small.yaml", *words).code == 0
    assert len(list(Path("runs/small/mine").glob("seed0-*"))) == 2
    wrong = levelfield("compare", "small.yaml", "methods=[my_losses.py:MyLos]").error
    assert "Did you mean 'MyLoss'" in wrong
    assert "gone.py" in levelfield("compare", "small.yaml", "methods=[gone.py:MyLoss]").error


def test_an_ensemble_of_seeds_is_trained_with_all_its_seeds(levelfield: Levelfield, room: Path) -> None:
    words = ["methods=[contrastive, lda, {label: both, ensemble: {of: contrastive, seeds: all}}]", "seeds=2"]
    printed = levelfield("train", "small.yaml", *words, "--method", "both", "--all-classes").printed
    assert "Trained 'both' on every class" in printed
    runs = sorted(path.parent.name[:5] for path in Path("runs/small-all-classes/contrastive").glob("*/run.yaml"))
    assert runs == ["seed0", "seed1"]
    [described] = Path("runs/small-all-classes/both").glob("*/ensemble.yaml")
    assert len(yaml.safe_load(described.read_text())["members"]) == 2
    pupil = "{label: pupil, contrastive: {student: {teacher: both, form: relational}}}"
    words[0] = words[0].replace("]", f", {pupil}]")
    assert levelfield("-q", "train", "small.yaml", *words, "--method", "pupil", "--seed", "1").code == 0
    assert [path.name[:5] for path in Path("runs/small/pupil").iterdir()] == ["seed1"], "and no other seed"
    wrong = levelfield("train", "small.yaml", *words, "--method", "pupil", "--seed", "5").error
    assert "'pupil' needs all seeds of the study (0, 1): --seed 5 is not one of them" in wrong


def test_what_refines_is_trained_on_every_class_without(levelfield: Levelfield, room: Path) -> None:
    words = ["methods=[{message_passing: {refine: reciprocal}}]", "--method", "message_passing", "--all-classes"]
    ended = levelfield("train", "small.yaml", *words)
    assert "Trained 'message_passing' on every class" in ended.printed, ended.error


def test_train_takes_the_winner_or_the_method_that_is_named(levelfield: Levelfield, compared: Path) -> None:
    board = json.loads(Path("runs/small/leaderboard.json").read_text())
    winner = next(row["label"] for row in board["rows"] if row["trained"])
    described = Path("runs/small/study.yaml").read_text()
    printed = levelfield("train", "small.yaml").printed
    assert f"Best trained method by recall@1: {winner}" in printed
    named = levelfield("train", "small.yaml", "--method", "lda", "--seed", "0", "--all-classes").printed
    assert "Trained 'lda' on every class" in named
    [run] = Path("runs/small-all-classes/lda").iterdir()
    assert yaml.safe_load((run / "run.yaml").read_text())["protocol"]["name"] == "all-classes"
    assert "trained on every class" in levelfield("evaluate", run).error
    assert Path("runs/small/study.yaml").read_text() == described
    assert "Did you mean 'contrastive'" in levelfield("train", "small.yaml", "--method", "contrastiv").error
    shutil.rmtree("runs/small")
    assert "No finished run" in levelfield("train", "small.yaml").error


def test_one_failing_run_stops_no_other_and_the_command_fails(levelfield: Levelfield, room: Path) -> None:
    Path("bad.py").write_text(
        "from torch import nn\n"
        "class Bad(nn.Module):\n"
        "    def forward(self, embeddings, labels):\n"
        "        return embeddings.sum() * float('nan')\n"
    )
    ended = levelfield("compare", "small.yaml", "methods=[start, bad.py:Bad]", "seeds=1")
    assert ended.code == 1
    assert "1 of 2 runs did not finish: Bad, seed 0: " in ended.error
    assert "See error.txt" in ended.error
    assert "best first by recall@1" in ended.out
    assert "Missing: Bad, seed 0: " in ended.out
    assert Path("runs/small/leaderboard.csv").exists()
    [file] = Path("runs").rglob("error.txt")
    assert "Traceback" in file.read_text()
    assert "All runs failed" in levelfield("compare", "small.yaml", "methods=[bad.py:Bad]", "seeds=1").error


def test_another_study_of_the_same_name_keeps_the_leaderboard_that_was_there(
    levelfield: Levelfield, compared: Path
) -> None:
    board = Path("runs/small/leaderboard.json").read_text()
    same = levelfield("compare", "small.yaml")
    more = levelfield("compare", "small.yaml", "seeds=3", "metrics=[recall@1, map@r, nmi]")
    assert "another study" not in same.err + more.err
    assert not Path("runs/small/earlier").exists()
    grown = Path("runs/small/leaderboard.json").read_text()
    assert grown != board
    fewer = levelfield("compare", "small.yaml", "methods=[lda, contrastive]")
    assert "which is now in runs/small/earlier/1" in fewer.err
    assert Path("runs/small/earlier/1/leaderboard.json").read_text() == grown
    assert len(json.loads(Path("runs/small/leaderboard.json").read_text())["rows"]) == 2
    other = levelfield("compare", "small.yaml", "methods=[lda, contrastive]", "conditions.dim=5")
    assert "earlier/2" in other.err


def test_an_earlier_leaderboard_is_not_moved_through_a_link(tmp_path: Path) -> None:
    """A received study folder may hold a link named `earlier`."""
    folder, elsewhere = tmp_path / "study", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    (folder / "runs.json").write_text("{}")
    (folder / "earlier").symlink_to(elsewhere)
    with pytest.raises(BadInput, match="earlier is a link"):
        keep_earlier(folder, [], [])
    assert (folder / "runs.json").is_file()
    assert not list(elsewhere.iterdir())


def test_a_study_folder_stands_for_its_best_run(levelfield: Levelfield, compared: Path) -> None:
    board = json.loads(Path("runs/small/leaderboard.json").read_text())
    best = Path("runs/small/best").read_text().strip()
    assert best in [row["first_run"].removeprefix("runs/small/") for row in board["rows"]]
    for command in (["embed", "--force"], ["evaluate"], ["search", "--gallery", "photos"], ["maps", "--image"]):
        name, *options = command
        photo = [] if name == "evaluate" else ["photos/class 00/0.png"]
        for place in ("runs/small", "runs/small/best"):
            ended = levelfield(name, place, *options, *photo)
            assert f"Run: runs/small/{best} (the best of runs/small)" in ended.err, ended
            assert ended.code == 0
    run = next(Path("runs/small/contrastive").glob("seed1-*"))
    assert levelfield("ensemble", "runs/small/best", run, "--out", "both").code == 0
    assert levelfield("compare", "small.yaml", "conditions.dim=5", "methods=[contrastive]").code == 0
    first = Path(json.loads(Path("runs/small/leaderboard.json").read_text())["rows"][0]["first_run"])
    assert f"Run: {first} (the first seed)" in levelfield("evaluate", "runs/small/contrastive").err


def test_a_figure_that_cannot_be_drawn_is_found_before_training(levelfield: Levelfield, room: Path) -> None:
    refused = levelfield("compare", "small.yaml", "figures=[leaderboard, sweep]").error
    assert "'sweep' cannot be drawn for this study: nothing varies" in refused
    assert not Path("runs").exists()


def test_the_board_is_printed_even_if_a_drawing_fails(
    levelfield: Levelfield, compared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Path:
        raise ValueError("no room on the page")

    figures.registry.get("spectra")  # registers its facts
    monkeypatch.setitem(figures.registry._entries, "spectra", fail)
    ended = levelfield("compare", "small.yaml", "figures=[spectra, leaderboard]")
    assert "best first by recall@1" in ended.out
    assert "Next:" in ended.out
    assert "spectra: ValueError: no room on the page" in ended.error
    assert Path("runs/small/leaderboard.png").exists()


@pytest.mark.parametrize("starting", [True, False])
def test_the_steps_validation_chose_train_on_every_class(levelfield: Levelfield, room: Path, starting: bool) -> None:
    """With a gain that no step can reach the first look is kept: the start, or the first step."""
    words = ["methods=[contrastive]", "seeds=1", "conditions.batch=2x2", "protocol.validation=0.5"]
    words += [f"conditions.validate_start={starting}", "conditions.select=recall@1", "conditions.validate_every=1"]
    words += ["conditions.min_delta=1.0"]
    asked = ("train", "small.yaml", *words, "--method", "contrastive", "--all-classes")
    assert "run `levelfield compare` first" in levelfield(*asked).error
    assert levelfield("-q", "compare", "small.yaml", *words).code == 0
    printed = levelfield("train", "runs/small/study.yaml", "--all-classes").printed
    [described] = Path("runs/small-all-classes").rglob("run.yaml")
    trained = yaml.safe_load(described.read_text())
    assert trained["method"]["name"] == ("start" if starting else "contrastive")
    assert (trained["conditions"]["steps"], trained["conditions"]["select"]) == (1, "budget")
    assert (
        "No step of 'contrastive' was better" if starting else "Steps: 1, the median of the steps chosen"
    ) in printed


def test_what_has_no_steps_is_fitted_to_all_classes_of_a_validated_study(levelfield: Levelfield, room: Path) -> None:
    words = ["conditions.select=recall@1", "protocol.validation=0.5", "conditions.validate_every=1"]
    printed = levelfield("train", "small.yaml", *words, "--method", "lda", "--all-classes").printed
    assert "Trained 'lda' on every class" in printed
    [described] = Path("runs/small-all-classes").rglob("run.yaml")
    assert yaml.safe_load(described.read_text())["conditions"]["select"] == "budget"
