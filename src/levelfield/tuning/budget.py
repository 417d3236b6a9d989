"""The budget of a search: the same for every method, in trials, in seconds of training or in images seen."""

from __future__ import annotations

import re
from dataclasses import dataclass

from levelfield.errors import BadSpecification
from levelfield.wording import plural

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_THOUSANDS = {"": 1, "k": 1_000, "m": 1_000_000}
USUAL_TRIALS = 30  # the default budget
MOST_TRIALS = 1_000  # of one method, where the budget does not count trials and a trial costs almost nothing


@dataclass(frozen=True)
class Budget:
    """What every method may spend. Exactly one of the three is given.

    >>> Budget.parse("10m").text, Budget.parse("200k images").text, Budget(trials=30).text
    ('10m of training per method', '200,000 images per method', '30 trials per method')
    """

    trials: int | None = None
    seconds: float | None = None
    images: int | None = None

    def __post_init__(self) -> None:
        amounts = [value for value in (self.trials, self.seconds, self.images) if value is not None]
        if len(amounts) != 1 or amounts[0] <= 0:
            raise BadSpecification("A budget is a number of trials, seconds or images above 0, and only one of them.")

    @classmethod
    def parse(cls, text: str) -> Budget:
        """From `10m`, `90s`, `1.5h`, `200k images` or `30 trials`.

        >>> Budget.parse("10 minutes")
        Traceback (most recent call last):
        ...
        levelfield.errors.BadSpecification: '10 minutes' is no budget: write 10m, 90s, 1h, '200k images' or '30 trials'.
        """
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|h|k? ?images|m ?images|trials?)", text.strip().lower())
        if match is None:
            raise BadSpecification(f"'{text}' is no budget: write 10m, 90s, 1h, '200k images' or '30 trials'.")
        number, unit = float(match[1]), match[2].replace(" ", "")
        if unit.startswith("trial"):
            return cls(trials=int(number))
        if unit.endswith("images"):
            return cls(images=round(number * _THOUSANDS[unit.removesuffix("images")]))
        return cls(seconds=number * _UNITS[unit])

    @property
    def text(self) -> str:
        if self.trials is not None:
            return f"{plural(self.trials, 'trial', 'trials')} per method"
        if self.images is not None:
            return f"{self.images:,} images per method"
        seconds = self.seconds or 0.0
        unit = next((name for name, size in reversed(_UNITS.items()) if seconds >= size), "s")
        return f"{seconds / _UNITS[unit]:g}{unit} of training per method"


@dataclass
class Spent:
    """What one method has spent so far, and whether it may begin another trial."""

    budget: Budget
    full_trial: int  # images of one trial that trains to its end
    trials: int = 0
    seconds: float = 0.0
    images: int = 0

    @property
    def share(self) -> float:
        """The spent share of the budget, from 0; above 1 if the last trial went beyond it."""
        if self.budget.seconds is not None:
            return self.seconds / self.budget.seconds
        if self.budget.images is not None:
            return self.images / self.budget.images
        assert self.budget.trials is not None
        return self.trials / self.budget.trials

    @property
    def over(self) -> bool:
        return self.share >= 1 - 1e-9 or self.trials >= MOST_TRIALS

    def charge(self, *, seconds: float, images: int, unknown: bool = False) -> None:
        """Charge a trial.

        One that trains nothing, such as a closed form, costs a full trial of images, or the usual share of a budget in
        seconds: otherwise it would be tried more often than any method that trains. unknown: the time of a failed
        trial, which costs the mean of the others, so that a method whose trials all fail comes to an end.
        """
        share = (self.budget.seconds or 0.0) / USUAL_TRIALS
        if unknown and self.trials:
            seconds = self.seconds / self.trials
        self.trials += 1
        self.seconds += seconds or share
        self.images += images or self.full_trial
