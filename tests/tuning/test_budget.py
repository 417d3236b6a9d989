"""The budget of a search and its charges."""

from __future__ import annotations

import pytest

from levelfield.errors import BadSpecification
from levelfield.tuning.budget import Budget, Spent


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("90s", Budget(seconds=90)),
        ("1.5h", Budget(seconds=5400)),
        ("2m images", Budget(images=2_000_000)),
        ("500 images", Budget(images=500)),
        ("30 trials", Budget(trials=30)),
    ],
)
def test_a_budget_is_read(text: str, budget: Budget) -> None:
    assert Budget.parse(text) == budget


@pytest.mark.parametrize("text", ["", "10", "ten minutes", "-5m", "0s", "1e3 images", "5 days"])
def test_what_is_no_budget_is_refused(text: str) -> None:
    with pytest.raises(BadSpecification, match="budget"):
        Budget.parse(text)


def test_trials_seconds_and_images_are_charged_until_the_budget_is_spent() -> None:
    by_trials, by_time = Spent(Budget(trials=2), 100), Spent(Budget(seconds=10), 100)
    for spent in (by_trials, by_time):
        spent.charge(seconds=6, images=100)
        assert not spent.over
        spent.charge(seconds=6, images=100)
        assert spent.over
    closed_form = Spent(Budget(images=250), 100)
    closed_form.charge(seconds=0, images=0)
    assert closed_form.images == 100


@pytest.mark.parametrize("failed", [False, True])
def test_closed_forms_and_failed_trials_use_up_a_budget_of_seconds(failed: bool) -> None:
    spent = Spent(Budget(seconds=7), 100)
    while not spent.over:
        spent.charge(seconds=0, images=0, unknown=failed)
    assert spent.trials == 30
    mixed = Spent(Budget(seconds=60), 100)
    mixed.charge(seconds=10, images=100)
    mixed.charge(seconds=0, images=0, unknown=True)
    assert mixed.seconds == 20
