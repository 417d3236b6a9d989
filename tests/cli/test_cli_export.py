"""`levelfield export`: whole files or none, measured again on the run's test images."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_room import Levelfield

import levelfield as front
from levelfield.errors import BadInput
from levelfield.shipping import measuring
from levelfield.shipping.description import describe
from levelfield.shipping.measuring import TOLERANCES, Tolerance
from levelfield.shipping.onnx_model import embedded
from levelfield.studies.runs.shared import SharedInputs, shared_inputs


def listed(folder: str) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file())


def left_behind() -> list[str]:
    return [path.name for path in Path().iterdir() if path.name == "out" or path.name.endswith(".tmp")]


def test_a_study_is_exported_as_its_best_run_with_figures_and_a_card(levelfield: Levelfield, compared: Path) -> None:
    ended = levelfield("export", "runs/small", "--out", "new/out")
    assert "Run: runs/small/" in ended.err
    assert "16 test images. Largest difference of a number of the unit rows:" in ended.printed
    assert listed("new/out") == ["MODEL_CARD.md", "model.json", "model.onnx"]
    facts = json.loads(Path("new/out/model.json").read_text())
    best = compared / "runs" / "small" / Path("runs/small/best").read_text().strip()
    stored = json.loads((best / "metrics.json").read_text())["values"]
    for name in ("recall@1", "map@r"):
        figures = facts["measured"]["figures"][name]
        assert figures["run"] == pytest.approx(stored[name], abs=1e-9)
        assert figures["exported"] == pytest.approx(stored[name], abs=1e-3)
    assert facts["measured"]["largest_difference"] < 1e-5
    assert facts["preprocessing"]["image"] == 32
    rows = front.load("new/out/model.onnx").embed(sorted(Path("photos").rglob("*.png"))[-16:], normalize=False)
    np.testing.assert_allclose(rows, np.load(best / "embeddings.npy"), rtol=1e-4, atol=1e-5)
    text = Path("new/out/MODEL_CARD.md").read_text()
    for part in (
        "## Figures",
        "## Conditions",
        "## Deviations",
        "| recall@1 |",
        "backbone: test_resnet",
        "w.safetensors",
    ):
        assert part in text
    assert "not known: the weights came from the file" in text


@pytest.mark.parametrize("to", ["torchscript", "safetensors"])
def test_other_formats_are_measured_too_and_replace_an_earlier_export_by_force(
    levelfield: Levelfield, trained: Path, to: str
) -> None:
    Path("out").mkdir()
    Path("out/model.onnx").write_text("mine")
    Path("out/notes.txt").write_text("mine")
    assert "out/model.onnx already exists" in levelfield("export", trained, "--to", to, "--out", "out").error
    levelfield("export", trained, "--to", to, "--out", "out", "--force")
    model = ["model.pt"] if to == "torchscript" else ["model.safetensors", "model.yaml"]
    assert listed("out") == sorted(["MODEL_CARD.md", "model.json", "notes.txt", *model])
    measured = json.loads(Path("out/model.json").read_text())["measured"]
    assert measured["largest_difference"] < 1e-5
    assert not any(path.samefile(other) for path in Path("out").iterdir() for other in trained.iterdir())


def test_a_joined_run_is_one_file_with_weights_in_8_bits(levelfield: Levelfield, compared: Path) -> None:
    runs = [next((compared / "runs/small" / name).glob("seed0-*")) for name in ("normalized_softmax", "contrastive")]
    levelfield("-q", "ensemble", *runs, "--out", "both")
    printed = levelfield("export", "both", "--int8", "--out", "out").printed
    assert "(limit 0.05)" in printed
    assert front.load("out/model.onnx").dim == 16
    assert front.load("out/model.onnx").weights == "int8"
    text = Path("out/MODEL_CARD.md").read_text()
    assert text.startswith("# ensemble, trained on photos\n")
    assert "- member: normalized_softmax, seed 0\n- member: contrastive, seed 0\n" in text


def test_a_difference_above_the_tolerance_is_an_error_and_leaves_nothing(
    levelfield: Levelfield, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TOLERANCES, "float32", Tolerance(-1.0, -1.0, 1.0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("levelfield.shipping.exporting.check_batches", lambda *given, **how: None)
        assert "numbers of its embeddings differ by up to" in levelfield("export", trained, "--out", "out").error
        monkeypatch.setitem(TOLERANCES, "float32", Tolerance(9.0, 1.0, 0.0))
        noise = np.random.default_rng(0).normal
        patch.setattr(measuring, "embedded", lambda paths, view, rows_of, dim, **how: noise(size=(len(paths), dim)))
        assert "recall@1 is" in levelfield("export", trained, "--out", "new/out").error
    assert left_behind() == []
    assert not Path("new").exists()


def test_the_written_preprocessing_is_measured(
    levelfield: Levelfield, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*args: Any, view: Mapping[str, Any], **facts: Any) -> dict[str, Any]:
        return describe(*args, view={**view, "mean": (0.9, 0.1, 0.1)}, **facts)

    monkeypatch.setattr("levelfield.shipping.exporting.describe", wrong)
    assert "numbers of its embeddings differ" in levelfield("export", trained, "--out", "out").error
    assert left_behind() == []


def test_an_unreadable_validation_image_stops_the_export(
    levelfield: Levelfield, room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = ("small.yaml", "methods=[contrastive]", "protocol.validation=0.5", "conditions.batch=2x2", "seeds=1")
    assert not levelfield("-q", "compare", *study).code
    counts = []

    def failing(paths: Sequence[Path], *args: Any, **how: Any) -> Any:
        counts.append(len(paths))
        if len(counts) == 2:
            raise BadInput(f"Cannot read {paths[0]}.")
        return embedded(paths, *args, **how)

    monkeypatch.setattr(measuring, "embedded", failing)
    assert "Cannot read photos" in levelfield("export", "runs/small", "--out", "out").error
    assert left_behind() == []


def test_without_test_images_it_is_refused_unless_measuring_is_given_up(levelfield: Levelfield, trained: Path) -> None:
    shutil.copytree("photos", "elsewhere")
    Path("photos/class 07/3.png").unlink()
    vars(shared_inputs()).update(vars(SharedInputs()))  # what this process knows of the photos of other tests
    message = levelfield("export", trained, "--out", "out").error
    assert "cannot be measured on the run's test images. The images of 'photos' are not those" in message
    assert message.endswith("To export without measuring: --no-measure")
    assert left_behind() == []
    assert "Not measured" in levelfield("export", trained, "--out", "out", "--no-measure").printed
    assert "was not measured (--no-measure)" in Path("out/MODEL_CARD.md").read_text()
    assert "16 test images" in levelfield("export", trained, "--out", "again", "--root", "elsewhere").printed


def test_what_cannot_be_exported_is_one_sentence(
    levelfield: Levelfield, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Did you mean 'onnx'?" in levelfield("export", trained, "--to", "onx", "--out", "out").error
    assert (
        "need the format onnx" in levelfield("export", trained, "--to", "torchscript", "--int8", "--out", "out").error
    )
    assert "is the folder of the run itself" in levelfield("export", trained, "--out", trained).error
    assert "is the folder of a run or study" in levelfield("export", trained, "--out", "runs/small").error
    assert "--out small.yaml is a file" in levelfield("export", trained, "--out", "small.yaml").error
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("levelfield.shipping.exporting.how_refined", lambda run: "reciprocal")
        assert "refines embeddings at test time (reciprocal)" in levelfield("export", trained, "--out", "out").error
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("importlib.util.find_spec", lambda name: None)
        assert 'pip install "levelfield[onnx]"' in levelfield("export", trained, "--out", "out").error
    (trained / "model.yaml").unlink()
    assert "contains no trained model" in levelfield("export", trained, "--out", "out").error
    assert left_behind() == []


def test_an_index_takes_the_threshold_of_an_exported_joined_run_or_says_why_there_is_none(
    levelfield: Levelfield, room: Path
) -> None:
    study = ("small.yaml", "methods=[contrastive]", "protocol.validation=0.5", "conditions.batch=2x2")
    assert not levelfield("-q", "compare", *study).code
    runs = sorted(Path("runs/small/contrastive").glob("seed*"))
    assert not levelfield("-q", "ensemble", *runs, "--out", "both").code
    chosen = []
    for place, to in (("whole", "safetensors"), ("light", "onnx")):
        assert not levelfield("-q", "export", "both", "--to", to, "--out", place).code
        assert "Two images count as the same class" in Path(place, "MODEL_CARD.md").read_text()
        printed = levelfield("index", place, "photos", "--out", f"of-{place}", "--json").printed
        chosen.append(json.loads(printed)["threshold"]["value"])
        refused = levelfield("index", place, "photos", "--out", "new", "--choose-on", "training").error
        assert "give the run instead" in refused
    whole = json.loads(levelfield("index", "both", "photos", "--out", "of-run", "--json").printed)
    np.testing.assert_allclose(chosen, whole["threshold"]["value"], atol=1e-4)
    assert not levelfield("-q", "export", runs[0], "--no-measure", "--out", "quick").code
    assert "exported with --no-measure" in levelfield("index", "quick", "photos", "--out", "of-quick").err
    assert "Not chosen: the exported model was not measured" in Path("quick/MODEL_CARD.md").read_text()
