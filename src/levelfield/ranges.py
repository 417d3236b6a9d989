"""Search ranges of settings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from levelfield.errors import BadSpecification
from levelfield.settings import is_finite


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high` on a linear or logarithmic scale, or a list of `choices`.

    >>> Range(0.01, 1.0, log=True).at(0.5), Range(choices=(False, True)).at(0.9)
    (0.1, True)
    """

    low: float = 0.0
    high: float = 1.0
    log: bool = False
    whole: bool = False
    choices: tuple[Any, ...] = ()

    @classmethod
    def parse(cls, key: str, written: Any, *, whole: bool = False) -> Range:
        """Parse `[low, high, log]`, `[low, high, linear]`, or any other list as choices.

        whole: whether the setting takes only integers.

        >>> Range.parse("hist.tau", [8, 64, "log"])
        Range(low=8.0, high=64.0, log=True, whole=False, choices=())
        >>> Range.parse("hist.tau", [64, 8, "log"])
        Traceback (most recent call last):
        ...
        levelfield.errors.BadSpecification: The search range of 'hist.tau' is reversed: [64, 8, log]. Did you mean ...
        """
        name = f"The search range of '{key}'"
        if not isinstance(written, list | tuple) or not written:
            value = "empty" if isinstance(written, list | tuple) else repr(written)
            raise BadSpecification(
                f"{name} is {value}; use [low, high, log], [low, high, linear] or a list of choices."
            )
        if len(written) != 3 or written[2] not in ("linear", "log"):
            written = list(written)
            if any(entry in written[:index] for index, entry in enumerate(written)) or len(written) < 2:
                raise BadSpecification(f"The choices of '{key}' are {written}; expected at least 2 different ones.")
            if len(written) == 2 and all(map(is_finite, written)) and written[0] > written[1]:
                bounds = f"{written[1]:g}, {written[0]:g}"
                raise BadSpecification(
                    f"{name} is reversed: {written}. Use [{bounds}, linear] or [{bounds}, log] for a range, [{bounds}] "
                    "for two choices."
                )
            return cls(choices=tuple(written))
        low, high, scale = written
        for bound in (low, high):
            if not is_finite(bound):
                raise BadSpecification(f"{name} has the bound {bound!r}; expected a number.")
        text = f"[{low:g}, {high:g}, {scale}]"
        if low > high:
            raise BadSpecification(f"{name} is reversed: {text}. Did you mean [{high:g}, {low:g}, {scale}]?")
        if low == high:
            raise BadSpecification(f"{name} is {text}, a single value: set the value instead.")
        if scale == "log" and low <= 0:
            raise BadSpecification(f"{name} is {text}; a log scale needs bounds above 0.")
        if whole and math.ceil(low) > math.floor(high):
            raise BadSpecification(f"{name} is {text}, which contains no integer.")
        return cls(float(low), float(high), scale == "log", whole)

    @property
    def plain(self) -> list[Any]:
        """The range as in a study file."""
        if self.choices:
            return list(self.choices)
        low, high = (int(bound) if bound.is_integer() else bound for bound in (self.low, self.high))
        return [low, high, "log" if self.log else "linear"]

    @property
    def text(self) -> str:
        """The range as text, for tables.

        >>> Range(8, 64, log=True).text, Range(choices=(False, True)).text
        ('8 to 64 (log)', 'false, true')
        """
        if self.choices:
            return ", ".join(str(each).lower() if isinstance(each, bool) else str(each) for each in self.choices)
        return f"{self.low:g} to {self.high:g}" + (" (log)" if self.log else "")

    def at(self, share: float) -> Any:
        """The value at `share` (0 to 1) of the range, rounded to three digits."""
        if self.choices:
            return self.choices[min(int(share * len(self.choices)), len(self.choices) - 1)]
        if self.log:
            return self.rounded(self.low * (self.high / self.low) ** share)
        return self.rounded(self.low + share * (self.high - self.low))

    def share(self, value: Any) -> float:
        """Position of `value` between the bounds, from 0 to 1: the inverse of `at`."""
        if self.choices:
            return self.choices.index(value) / (len(self.choices) - 1)
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (float(value) - self.low) / (self.high - self.low)

    def levels(self, count: int) -> list[Any]:
        """`count` values spread evenly over the range, bounds included; of choices, at most all."""
        if self.choices:
            return list(self.choices[:count])
        return list(dict.fromkeys(self.at(k / max(1, count - 1)) for k in range(count)))

    def rounded(self, value: float) -> Any:
        """Round `value` to three digits within the bounds; to an integer if only integers are possible."""
        if self.whole:
            return min(max(round(value), math.ceil(self.low)), math.floor(self.high))
        shown = round(value, 2 - math.floor(math.log10(abs(value)))) if value else 0.0
        return min(max(shown, self.low), self.high)

    def __contains__(self, value: Any) -> bool:
        if self.choices:
            return value in self.choices
        return is_finite(value) and self.low <= value <= self.high
