"""Every sampler stays in its ranges, is deterministic, and does not depend on the batch size of requests."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from levelfield.errors import MissingExtra
from levelfield.ranges import Range
from levelfield.tuning import samplers

SPACE = {
    "margin": Range(0.01, 1.0, log=True),
    "scale": Range(-1.0, 1.0),
    "bins": Range(5, 100, log=True, whole=True),
    "squared": Range(choices=(False, True)),
}


def figure(settings: dict[str, Any]) -> float:
    """The best is at margin 0.1, scale 0.5."""
    return 1.0 - abs(SPACE["margin"].share(settings["margin"]) - 0.5) - abs(settings["scale"] - 0.5) / 4


def asked(name: str, portions: list[int], *, seed: int = 0) -> list[dict[str, Any]]:
    """All settings of a search in rounds of four, each asked for in these portions."""
    made, found = samplers.create(name, SPACE, seed=seed, trials=24), []
    for _ in range(4):
        settings = [one for count in portions for one in made.ask(count)]
        made.tell([figure(one) for one in settings])
        found += settings
    return found


@pytest.mark.parametrize("name", samplers.NAMES)
def test_a_sampler_stays_in_its_ranges_and_repeats_itself(name: str) -> None:
    found = asked(name, [4])
    assert len(found) == 16
    for settings in found:
        assert settings.keys() == SPACE.keys()
        assert all(settings[key] in span for key, span in SPACE.items())
        assert isinstance(settings["bins"], int)
    assert asked(name, [1, 3]) == found
    assert asked(name, [4], seed=1) != found
    assert {settings["squared"] for settings in found} == {False, True}


@pytest.mark.parametrize("name", ["tpe", "gp"])
def test_a_sampler_that_learns_ends_nearer_to_the_best_than_it_began(name: str) -> None:
    values = [figure(settings) for settings in asked(name, [4])]
    assert sum(values[-5:]) > sum(values[:5])


def test_a_grid_has_all_combinations_of_its_levels_before_it_is_refined() -> None:
    space = {"a": Range(0.0, 1.0), "b": Range(choices=("x", "y"))}
    found = samplers.create("grid", space, seed=0, trials=7).ask(7)
    assert {(s["a"], s["b"]) for s in found[:6]} == {(a, b) for a in (0.0, 0.5, 1.0) for b in "xy"}
    assert found[6]["a"] not in (0.0, 0.5)


def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtra, match=r'pip install "levelfield\[tune\]".*halton'):
        samplers.check_name("gp")
    samplers.check_name("halton")


@pytest.mark.parametrize("span", [Range(choices=("x", "y")), Range(0.1, 0.101)])
def test_a_small_grid_begins_again_when_it_is_used_up(span: Range) -> None:
    found = [point["a"] for point in samplers.create("grid", {"a": span}, seed=0, trials=5).ask(5)]
    assert found.count(span.at(0)) >= 2


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", samplers.NAMES)
def test_choices_can_be_lists_and_mappings(name: str) -> None:
    choices = ("all", {"semihard": {"mode": "closest"}}, [1, 2], None)
    made = samplers.create(name, {"miner": Range(choices=choices)}, seed=0, trials=12)
    made.start_from({"miner": choices[1]}, 0.5)
    found = made.ask(12)
    assert all(any(s["miner"] is choice for choice in choices) for s in found)
    assert any(s["miner"] is choices[1] for s in found)
