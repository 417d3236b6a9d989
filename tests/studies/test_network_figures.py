"""Figures that need the trained networks of runs: attention in a batch, activation maps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from small_world import board_of, carry_out, small_study

from levelfield.reports.figures import draw_figures, why_not
from levelfield.reports.figures.learned import scores_of
from levelfield.studies.runs.finished import stored_test
from levelfield.studies.runs.folder.method_file import load_method

PLAIN = {"label": "plain", "message_passing": {"heads": 2, "steps": 2}}
REFINED = {"label": "refined", "message_passing": {"heads": 2, "steps": 2, "refine": {"by": "nearest", "size": 3}}}


def test_attention_is_that_of_the_trained_network_among_test_images(photos: Path, tmp_path: Path) -> None:
    study = small_study(photos, [PLAIN, REFINED, "margin"], batch="3x4")
    runs, outcome = carry_out(study, tmp_path)
    assert not outcome.failed, outcome.failed
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
    runs, outcome = carry_out(study, tmp_path)
    assert not outcome.failed, outcome.failed
    (path,) = draw_figures(["activation-maps"], board_of(study, runs, tmp_path), runs, tmp_path)
    with Image.open(path) as drawn:
        assert drawn.width > 3 * drawn.height  # four images of three channels beside each other, three lines
