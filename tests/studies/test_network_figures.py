"""Figures that need the trained networks of runs: attention in a batch, activation maps, class distributions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.numpy import load_file
from small_world import board_of, completed, run_one, small_study

from levelfield.errors import BadInput
from levelfield.reports.figures import draw_figures, why_not
from levelfield.reports.figures.learned import scores_of
from levelfield.studies.runs.finished import distributions_of, embed_part, stored_test
from levelfield.studies.runs.folder.method_file import load_method

PLAIN = {"label": "plain", "message_passing": {"heads": 2, "steps": 2}}
REFINED = {"label": "refined", "message_passing": {"heads": 2, "steps": 2, "refine": {"by": "nearest", "size": 3}}}


def test_attention_is_that_of_the_trained_network_among_test_images(photos: Path, tmp_path: Path) -> None:
    study = small_study(photos, [PLAIN, REFINED, "margin"], batch="3x4")
    runs = completed(study, tmp_path)
    folder = runs[0].folder(tmp_path)
    scores, classes = scores_of(folder)
    assert scores.shape == (2, 12, 12)
    assert [classes.count(name) for name in dict.fromkeys(classes)] == [4, 4, 4]
    np.testing.assert_allclose(scores.sum(axis=2), 1, rtol=1e-5)

    rows, items = stored_test(folder)
    places = [int(np.flatnonzero(items.classes == name)[0]) for name in dict.fromkeys(classes)]
    objective = load_method(folder).objective
    nodes = torch.nn.functional.normalize(torch.from_numpy(rows[places]))
    query, key = (
        part(nodes).unflatten(1, (2, -1)) for part in (objective.network.steps[0].query, objective.network.steps[0].key)
    )
    expected = torch.einsum("imd,jmd->mij", query, key).div(2).softmax(-1)  # heads of 4 dimensions
    torch.testing.assert_close(objective.attention(torch.from_numpy(rows[places]))[0], expected)

    (path,) = draw_figures(["attention"], board_of(study, runs, tmp_path), runs, tmp_path)  # of the plain row alone
    with Image.open(path) as drawn:
        assert drawn.width > 1.5 * drawn.height
    assert "needs the method `message_passing`" in str(why_not("attention", small_study(photos, ["margin"])))


def test_activation_maps_have_a_line_for_each_network(photos: Path, tmp_path: Path) -> None:
    study = small_study(photos, ["margin", "contrastive"], cut="last-1")
    runs = completed(study, tmp_path)
    (path,) = draw_figures(["activation-maps"], board_of(study, runs, tmp_path), runs, tmp_path)
    with Image.open(path) as drawn:
        assert drawn.width > 3 * drawn.height  # four images of three channels beside each other, three lines


def test_learned_and_found_are_those_of_the_run(photos: Path, tmp_path: Path) -> None:
    folder = run_one(small_study(photos, [{"hist": {"hidden": 6}}], head_init="pca"), tmp_path)
    found = distributions_of(folder)
    held = load_file(folder / "method.safetensors")
    means, log_vars = (held[f"objective.{name}"] for name in ("means", "log_vars"))
    np.testing.assert_allclose(found.learned_means, means / np.linalg.norm(means, axis=1, keepdims=True), atol=1e-6)
    expected = [np.sqrt(sum(np.exp(min(max(v, 0), 6)) ** 2 for v in row)) for row in log_vars]
    np.testing.assert_allclose(found.learned_spreads, expected, rtol=1e-6)
    rows, names = embed_part(folder, "training")
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    for number, name in enumerate(sorted(set(names))):  # the folders' names are in the order of the labels
        own = unit[names == name]
        np.testing.assert_allclose(found.found_spreads[number], np.square(own - own.mean(0)).sum(1).mean(), rtol=1e-4)
        assert found.found_means[number] @ own.mean(0) / np.linalg.norm(own.mean(0)) == pytest.approx(1)


def test_the_figure_shows_hist_and_not_its_ablations(photos: Path, tmp_path: Path) -> None:
    plain, fixed = {"hist": {"hidden": 6}}, {"label": "proxies", "hist": {"hidden": 6, "variance": "fixed"}}
    study = small_study(photos, [plain, fixed, "lda"])
    runs = completed(study, tmp_path)
    board = board_of(study, runs, tmp_path)
    (path,) = draw_figures(["distributions"], board, runs, tmp_path)
    assert path.stat().st_size > 5000
    without = [run for run in runs if run.label != "hist"]
    with pytest.raises(BadInput, match="no finished run of `hist`"):
        draw_figures(["distributions"], board_of(study, without, tmp_path), without, tmp_path)
