"""The style of each method: the same colour, marker and line in every figure of a study."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from levelfield import methods
from levelfield.papers import presets
from levelfield.studies.runs.spec import PlannedRun
from levelfield.studies.specification.choices import MethodSpec

REGULARISERS = ("switch", "mixup")
# Okabe and Ito: distinguishable with any colour vision. Grey is reserved for untrained rows.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#222222")
GREY = "#8a8a8a"
MARKERS = {"o": 5.0, "s": 5.0, "^": 5.5, "D": 4.5, "v": 5.5, "P": 6.5, "X": 6.5, "*": 8.0}  # with their sizes
# plain and with a regulariser, for the first methods, the next ones, ...
LINES: tuple[tuple[Any, Any], ...] = (
    ("-", "--"),
    ("-.", (0, (6, 2, 1, 2, 1, 2))),
    ((0, (8, 2)), (0, (2, 1))),
    ((0, (4, 1, 1, 1)), (0, (4, 3, 1, 3))),
)
LEVELS: tuple[Any, ...] = (":", (0, (1, 3)), (0, (3, 3)), (0, (3, 2, 1, 2)))


@dataclass(frozen=True)
class Style:
    """Style of one method. `hollow`: with a regulariser; without one, the same colour and marker are filled."""

    colour: str
    marker: str
    lines: tuple[Any, Any] = LINES[0]
    hollow: bool = False

    @property
    def line(self) -> Any:
        return self.lines[self.hollow]

    @property
    def points(self) -> dict[str, Any]:
        """Keywords for points of matplotlib's `plot` and `errorbar`."""
        fill = "white" if self.hollow else self.colour
        return {
            "marker": self.marker,
            "markersize": MARKERS[self.marker],
            "color": self.colour,
            "markerfacecolor": fill,
            "markeredgecolor": self.colour,
        }


def styles(runs: Sequence[PlannedRun]) -> dict[str, Style]:
    """The style of each label, by the order of the study's methods, so that a missing run changes no colour.

    A method with a regulariser shares colour and marker with the same method without it. Untrained rows are grey.
    """
    competitors: dict[str, MethodSpec] = {}
    for run in runs:
        competitors.setdefault(run.label, run.spec.method)
    by_label: dict[str, Style] = {}
    families: dict[str, int] = {}
    drawn: set[tuple[str, bool]] = set()
    baselines = 0
    for label, method in competitors.items():
        if not (methods.trains(method.name) or methods.class_of(method.name).joins):
            by_label[label] = _baseline(baselines)
            baselines += 1
            continue
        hollow = is_regularised(method.settings)
        family = _family(method)
        if (family, hollow) in drawn:
            family = json.dumps(label)  # differs in more than the regulariser: gets its own colour
        drawn.add((family, hollow))
        by_label[label] = _coloured(families.setdefault(family, len(families)), hollow=hollow)
    return by_label


def is_regularised(settings: dict[str, Any]) -> bool:
    """Whether the settings, or their preset, have a regulariser.

    >>> is_regularised({"switch": 0.3}), is_regularised({"preset": "roth2020/cub/rho"})
    (True, True)
    """
    return any(settings.get(key) for key in REGULARISERS) or _plain_preset(settings) != settings.get("preset")


def without_regulariser(settings: dict[str, Any]) -> dict[str, Any]:
    plain = {key: value for key, value in settings.items() if key not in REGULARISERS}
    return plain | {"preset": _plain_preset(settings)} if "preset" in plain else plain


def _plain_preset(settings: dict[str, Any]) -> str | None:
    preset = settings.get("preset")
    return None if preset is None else presets.without_regulariser(str(preset))


def _family(method: MethodSpec) -> str:
    return json.dumps([method.name, without_regulariser(method.settings), method.conditions], sort_keys=True)


def _coloured(number: int, *, hollow: bool) -> Style:
    """Assign colours and markers; each combination is unique among the first 56 methods."""
    again, index = divmod(number, len(COLOURS))
    marker = list(MARKERS)[(again + index) % len(MARKERS)]
    return Style(COLOURS[index], marker, LINES[again % len(LINES)], hollow)


def _baseline(number: int) -> Style:
    line = LEVELS[number % len(LEVELS)]
    return Style(GREY, list(MARKERS)[number % len(MARKERS)], (line, line))
