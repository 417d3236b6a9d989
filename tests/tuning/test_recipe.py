"""The recipe for photos: how it divides its time, and what it makes of a study."""

from __future__ import annotations

from pathlib import Path

import pytest

from drawn_photos import make_photos
from levelfield.errors import BadSpecification
from levelfield.studies import parse_study
from levelfield.studies.planning.own_photos import photos_content
from levelfield.studies.specification.yaml_file import merged
from levelfield.tuning.recipe import TRAINING, MethodScores, Recipe
from levelfield.tuning.recipe_plan import EPOCHS, RANKING_STEPS, Amounts, Timing, make_plan, usual_time

BIRDS = Amounts(train=5_864, validation=1_150, test=5_924, batch=60)
TIMING = Timing(step=1.2, trained=128, image=0.012, tested=160)
SIZES = {160: 128, 192: 128, 224: 160}
METHODS = ("proxy_anchor", "multi_similarity", "softmax", "margin", "contrastive", "triplet")


def _plan(minutes: float, *, cores: int = 1, amounts: Amounts = BIRDS):
    return make_plan(60 * minutes, amounts, TIMING, SIZES, METHODS, cores, "20 of 100 training classes")


@pytest.mark.parametrize("minutes", [10, 22, 45, 120, 600])
@pytest.mark.parametrize("cores", [1, 2, 8])
def test_the_last_stage_has_most_of_the_time(minutes: float, cores: int) -> None:
    plan = _plan(minutes, cores=cores)
    assert plan.untrained_seconds + plan.search_seconds + plan.test_seconds < 0.6 * plan.limit


def test_more_time_or_cores_try_more_and_longer() -> None:
    short, long, wide = _plan(22), _plan(120), _plan(30, cores=8)
    assert long.rungs[0][1] > short.rungs[0][1] == 1
    assert long.rungs[0][0] >= RANKING_STEPS > short.rungs[0][0]
    assert wide.rungs[0][1] > _plan(30).rungs[0][1]
    assert _plan(600).rungs[-1][0] > short.rungs[-1][0]
    assert _plan(10).sizes == (160,)
    assert _plan(45).sizes == tuple(SIZES)


def test_too_little_time_is_said_with_what_it_takes() -> None:
    assert "Even the shortest training makes it about" in _plan(1).lines()[-1]
    assert "shortest" not in " ".join(_plan(10).lines())


def test_few_images_are_not_seen_too_often() -> None:
    few = Amounts(train=160, validation=40, test=200, batch=24)
    assert _plan(600, amounts=few).rungs[-1][0] <= EPOCHS * few.train // few.batch


def test_without_a_limit_the_time_suits_the_photos() -> None:
    few = Amounts(train=160, validation=40, test=200, batch=24)
    assert usual_time(few, TIMING, SIZES, 1) == 300
    assert 3000 <= usual_time(BIRDS, TIMING, SIZES, 1) <= 3600
    assert usual_time(Amounts(60_000, 3_000, 60_000, 60), TIMING, SIZES, 1) == 3600
    middle = usual_time(Amounts(1_500, 300, 1_500, 60), TIMING, SIZES, 1)
    assert 600 <= middle <= 2400
    assert middle % 300 == 0


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_photos(tmp_path_factory.mktemp("recipe") / "photos", classes=20, each=4)


def recipe_of(photos: Path, folder: Path, *overrides: str, limit: float = 300) -> Recipe:
    content = merged(photos_content(), {"data": str(photos), "conditions": TRAINING})
    small = ["conditions.backbone=conv4", "conditions.weights=random", "conditions.batch=5x2", *overrides]
    fixed = {word.partition("=")[0] for word in overrides}
    return Recipe(parse_study(content, small), folder, limit, side=40, fixed=fixed)


def test_a_frozen_network_trains_a_linear_head(photos: Path, tmp_path: Path) -> None:
    frozen = recipe_of(photos, tmp_path, "conditions.cut=frozen").study.conditions
    assert (frozen.cut, frozen.head, frozen.cache, frozen.views) == ("frozen", "linear", True, 1)
    whole = recipe_of(photos, tmp_path).study.conditions
    assert (whole.cut, whole.head, whole.cache, whole.views) == ("tuned", "dropped", False, 0)
    assert recipe_of(photos, tmp_path, "conditions.dim=16").study.conditions.head == "linear"


def test_what_the_recipe_decides_itself_is_refused(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(BadSpecification, match=r"conditions\.select chooses the number of steps"):
        recipe_of(photos, tmp_path, "conditions.select=budget")


def test_decisions_are_those_of_these_photos_and_settings(photos: Path, tmp_path: Path) -> None:
    """The same command continues; other photos, settings or another time decide again."""
    first = recipe_of(photos, tmp_path)
    plan = first.plan()
    assert recipe_of(photos, tmp_path).plan() == plan
    assert len(list(tmp_path.glob("plan-*.json"))) == 1
    recipe_of(photos, tmp_path, limit=600).plan()
    recipe_of(photos, tmp_path, "conditions.lr=0.01").plan()
    assert len(list(tmp_path.glob("plan-*.json"))) == 3
    changed = make_photos(tmp_path / "photos", classes=20, each=5)
    assert recipe_of(changed, tmp_path)._stored("plan") is None


def test_classes_that_judge_are_counted_where_they_are_held_out(photos: Path, tmp_path: Path) -> None:
    assert recipe_of(photos, tmp_path).judges == 3
    assert recipe_of(photos, tmp_path, "protocol.validation=0.4").judges == 4


def test_few_classes_compare_what_trains_nothing(tmp_path: Path) -> None:
    recipe = recipe_of(make_photos(tmp_path / "few", classes=8, each=4), tmp_path)
    assert not recipe.judges
    assert [method.name for method in recipe.untrained_study.methods] == ["untrained", "start"]
    assert recipe.untrained_study.conditions.cut == "frozen"


@pytest.mark.parametrize(
    ("trained", "headline", "pays"),
    [(0.52, 0.60, False), (0.56, 0.60, True), (0.56, 0.59, False)],
    ids=["less than few classes gain by chance", "more", "recall falls"],
)
def test_training_pays_if_the_gain_is_more_than_chance(trained: float, headline: float, pays: bool) -> None:
    untrained = MethodScores(scores={50: 0.5}, headlines={50: 0.6})
    assert MethodScores(scores={50: trained}, headlines={50: headline}).pays(untrained, judges=4) is pays
