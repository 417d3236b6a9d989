"""Class distributions learned by a finished HIST run, read from its folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from small_world import board_of, carry_out, run_one, small_study

from levelfield.errors import BadInput
from levelfield.reports.figures import draw_figures
from levelfield.studies.runs.finished import distributions_of, embed_part


def test_learned_and_found_are_those_of_the_run(photos: Path, tmp_path: Path) -> None:
    folder = run_one(small_study(photos, [{"hist": {"hidden": 6}}], head_init="pca"), tmp_path)
    found = distributions_of(folder)
    assert found is not None
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
    runs, outcome = carry_out(study, tmp_path)
    assert not outcome.failed
    board = board_of(study, runs, tmp_path)
    (path,) = draw_figures(["distributions"], board, runs, tmp_path)
    assert path.stat().st_size > 5000
    without = [run for run in runs if run.label != "hist"]
    with pytest.raises(BadInput, match="no finished run of `hist`"):
        draw_figures(["distributions"], board_of(study, without, tmp_path), without, tmp_path)
