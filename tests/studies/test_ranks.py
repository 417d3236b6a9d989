"""Ranks over datasets against Demsar's worked example (2006, JMLR 7, table 6 and section 3.2.2), R and loops."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy.stats import friedmanchisquare

from levelfield.errors import BadInput
from levelfield.evaluation.statistics.friedman import alike, critical_difference, friedman, rank, ranks, worse_methods
from levelfield.studies.leaderboard.across import across
from levelfield.studies.runs.folder.store import write_plan

sys.path.append(str(Path(__file__).parents[1] / "reports"))

from made_runs import class_means, planned, write_run

METHODS = ("C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf")
AUC = {
    "adult (sample)": (0.763, 0.768, 0.771, 0.798),
    "breast cancer": (0.599, 0.591, 0.590, 0.569),
    "breast cancer wisconsin": (0.954, 0.971, 0.968, 0.967),
    "cmc": (0.628, 0.661, 0.654, 0.657),
    "ionosphere": (0.882, 0.888, 0.886, 0.898),
    "iris": (0.936, 0.931, 0.916, 0.931),
    "liver disorders": (0.661, 0.668, 0.609, 0.685),
    "lung cancer": (0.583, 0.583, 0.563, 0.625),
    "lymphography": (0.775, 0.838, 0.866, 0.875),
    "mushroom": (1.000, 1.000, 1.000, 1.000),
    "primary tumor": (0.940, 0.962, 0.965, 0.962),
    "rheum": (0.619, 0.666, 0.614, 0.669),
    "voting": (0.972, 0.981, 0.9751, 0.975),  # printed as 0.975 twice, and ranked 2 and 3
    "wine": (0.957, 0.978, 0.946, 0.970),
}


def test_mean_ranks_are_those_of_the_worked_example() -> None:
    assert ranks(list(AUC.values())).mean(axis=0).round(3).tolist() == [3.143, 2.0, 2.893, 1.964]


def test_friedmans_test_is_that_of_r() -> None:
    """Nine methods on two datasets, as R's scmamp computes it."""
    ranked = np.array([[1, 8, 6, 4, 7, 2, 5, 3, 9], [1, 6, 3, 9, 7, 2, 8, 4, 5]], dtype=np.float64)
    assert friedman(ranked) == pytest.approx((11.733, 0.1635), abs=5e-4)
    tied = np.array(list(AUC.values())).round(2)
    expected = friedmanchisquare(*tied.T)
    assert friedman(ranks(tied)) == pytest.approx((expected.statistic, expected.pvalue))
    assert friedman(ranks(np.ones((3, 4)))) == (0.0, 1.0)


def test_critical_values_are_those_of_the_example_and_of_the_table() -> None:
    """Table 5 (a): q at 0.05 for 2 to 10 methods."""
    assert round(critical_difference(4, 14, alpha=0.05), 2) == 1.25
    assert round(critical_difference(4, 14, alpha=0.10), 2) == 1.12
    table = (1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164)
    for methods, published in enumerate(table, 2):
        found = critical_difference(methods, 1) / np.sqrt(methods * (methods + 1) / 6)
        assert found == pytest.approx(published, abs=1.5e-3)


def test_only_the_first_and_the_last_of_the_example_are_nearly_apart() -> None:
    """Demsar: at 0.05 Nemenyi's test detects no difference, since 3.143 - 1.964 < 1.25."""
    found = rank({name: dict(zip(METHODS, values, strict=True)) for name, values in AUC.items()})
    assert found.differ
    assert list(found.mean_ranks) == ["C4.5+m+cf", "C4.5+m", "C4.5+cf", "C4.5"]
    assert found.groups == [["C4.5+m+cf", "C4.5+m", "C4.5+cf", "C4.5"]]
    assert worse_methods(found) == []


def test_groups_are_all_longest_runs_within_the_difference() -> None:
    random = np.random.default_rng(1)
    for _ in range(50):
        means = {str(k): float(value) for k, value in enumerate(random.uniform(1, 6, size=6))}
        order = sorted(means, key=means.__getitem__)
        runs = [
            order[i:j]
            for i, j in itertools.combinations(range(7), 2)
            if j - i > 1 and means[order[j - 1]] - means[order[i]] < 1.5
        ]
        longest = [run for run in runs if not any(set(run) < set(other) for other in runs)]
        assert alike(means, 1.5) == longest


def test_too_little_is_refused() -> None:
    with pytest.raises(BadInput, match=r"at least 3 methods .* not 2 \(x, y\)"):
        rank({"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 2}})
    with pytest.raises(BadInput, match="finite"):
        ranks([[1.0, float("nan")]])


def made(folder: Path, levels: dict[str, float], *, data: str | None = None, **content: object) -> Path:
    """A study's folder with finished runs; `photos` has everybody 0.2 lower and the order turned round."""
    study = {"name": folder.name, "data": data or "emoji", "methods": list(levels), "seeds": 2, **content}
    runs = planned(**{key: value for key, value in study.items() if key != "name"})
    for run in runs:
        level = levels[run.label] if run.spec.data.name != "photos" else 0.8 - levels[run.label]
        write_run(run, folder, class_means(level + 0.01 * run.spec.seed))
    write_plan(folder, runs)
    (folder / "study.yaml").write_text(yaml.safe_dump({**study, "metrics": ["recall@1", "nmi"]}))
    return folder


LEVELS = {"margin": 0.6, "triplet": 0.5, "contrastive": 0.4}


def test_studies_on_other_data_are_datasets_and_figures_means_over_seeds(tmp_path: Path) -> None:
    found = across([made(tmp_path / "a", LEVELS), made(tmp_path / "b", LEVELS, data="photos")])
    assert found.metric == "recall@1"
    assert found.notes == []
    assert list(found.table) == ["emoji", "photos"]
    assert found.table["emoji"] == pytest.approx({"margin": 0.605, "triplet": 0.505, "contrastive": 0.405}, abs=1e-9)
    assert set(rank(found.table).mean_ranks.values()) == {2.0}


def test_a_study_that_varies_its_data_is_several_datasets_and_what_else_varies_makes_methods(tmp_path: Path) -> None:
    vary = {"data": ["emoji", "photos"], "methods.margin.beta": [0.6, 0.8]}
    found = across([made(tmp_path / "a", LEVELS, vary=vary)])
    assert list(found.table) == ["emoji", "photos"]
    assert set(found.table["photos"]) == {"margin [beta=0.6]", "margin [beta=0.8]", "triplet", "contrastive"}


def test_the_same_images_twice_are_doubted(tmp_path: Path) -> None:
    found = across([made(tmp_path / "a", LEVELS), made(tmp_path / "b", LEVELS)])
    assert list(found.table) == ["emoji", "emoji (b)"]
    assert found.notes == ["emoji (b) and emoji use the same test images, so they are not independent datasets."]
