"""Published results of a method on a dataset, the most similar setting first, with the differences from ours."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from levelfield.papers.published._tables import Line, architecture, ceiling, metric_entry, table, tables

_COMPARED = ("protocol", "backbone", "dim", "image", "batch", "sampler", "switch", "epochs", "selection")
_DECIDE = ("switch", "refine", "student", "objective")  # a difference in one of these makes it another method
_BALANCED = re.compile(r"balanced \d+ classes x (\d+)")  # a sampler in words
_WEIGHT = {"protocol": 8, "backbone": 4, "dim": 2}


@dataclass(frozen=True)
class Reported:
    """A published number compared with our setting. `same`, `differs` and `unknown` describe the setting; `definition`
    describes differences of the metric, or doubts about the number."""

    line: Line
    same: tuple[str, ...]
    differs: tuple[str, ...]
    unknown: tuple[str, ...]
    definition: str = ""

    @property
    def value(self) -> float:
        """In per cent."""
        assert self.line.value is not None
        return self.line.value

    @property
    def notes(self) -> list[str]:
        """Caveats to know before comparing the two numbers, one per entry."""
        remarks = [self.definition, self.line.suspect]
        remarks += [f"there {text}" for text in self.differs]
        remarks += [f"not stated there: {', '.join(self.unknown)}"] if self.unknown else []
        return [text for text in remarks if text]

    @property
    def note(self) -> str:
        return "; ".join(self.notes)


def reported(
    dataset: str, method: str, metric: str, *, conditions: Mapping[str, Any] | None = None, source: str = ""
) -> list[Reported]:
    """All published numbers for a method and dataset, the most similar setting first; of equally similar ones numbers
    from a paper's own training before quoted ones.

    source: a table that our conditions repeat ("roth2020 table4"). Of equally similar numbers its own come first, and
    what it does not state is not held against it, since that was chosen for it.

    conditions: our conditions: any of protocol, backbone, dim, image, batch, sampler, switch, epochs, selection, and
    the method's settings (`miner`, `beta`, ...). A published name with a different setting is another method.

    >>> matches = reported("cub", "margin", "recall@1", conditions={"backbone": "resnet50", "dim": 128, "beta": 0.6})
    >>> matches[0].line.source, matches[0].line.printed_method, matches[0].value
    ('roth2020 table4', 'Margin (D, beta=0.6)', 62.5)
    >>> reported("emoji", "margin", "recall@1")
    []
    """
    ours = dict(conditions or {})
    lines = [line for table in tables() for line in table.lines if (line.dataset, line.method) == (dataset, method)]
    matches = [
        _beside(line, metric, ours)
        for line in lines
        if line.value is not None and is_about(line, metric) and _same_method(line, ours)
    ]
    return sorted(matches, key=lambda match: _order(match, source))


def is_about(line: Line, metric: str) -> bool:
    """Whether the published metric equals ours, or is similar enough to be shown with a note."""
    entry = metric_entry(line.printed_metric, line.paper)
    return metric in (entry.get("name"), *entry.get("also", ()), *entry.get("near", ()))


def definition_note(line: Line, metric: str) -> str:
    """Difference of the published metric from ours; empty if there is none.

    >>> line = next(line for line in table("roth2020", "6").lines if line.printed_metric == "mAP@C")
    >>> definition_note(line, "map@r")
    'roth2020 divides by the class size with the query counted, so that the maximum on sop is 81.3 %'
    """
    entry = metric_entry(line.printed_metric, line.paper)
    exact = metric in (entry.get("name"), *entry.get("also", ()))
    note = "" if exact else str(entry.get("differs", ""))
    if entry.get("ceiling"):
        limit = f"the maximum on {line.dataset} is {100 * ceiling(line.dataset):.1f} %"
        note = f"{note}, so that {limit}" if note else limit
    remark = str(entry.get("remark", ""))
    return "; ".join(text for text in (note, remark) if text)


def _same_method(line: Line, ours: Mapping[str, Any]) -> bool:
    theirs = {**line.settings, **({"switch": line.switch} if line.switch else {})}
    for key in _DECIDE:
        if bool(theirs.get(key)) != bool(ours.get(key)):
            return False
    return all(ours[key] == value for key, value in line.settings.items() if key in ours)


def _beside(line: Line, metric: str, ours: Mapping[str, Any]) -> Reported:
    theirs = _stated(line)
    same, differs, unknown = [], [], []
    for key in (key for key in _COMPARED if ours.get(key)):
        if theirs.get(key) in (None, ""):
            unknown.append(key)
        elif _agree(key, theirs[key], ours[key]):
            same.append(key)
        else:
            differs.append(f"{key} {theirs[key]} (here {ours[key]})")
    return Reported(line, tuple(same), tuple(differs), tuple(unknown), definition_note(line, metric))


def _agree(key: str, theirs: Any, ours: Any) -> bool:
    """Epochs agree within 2 %: papers leave out the last, smaller batch of an epoch. Backbones agree by architecture.

    >>> _agree("epochs", 150, 149), _agree("epochs", 150, 100), _agree("dim", "2048 (thresholded to bits)", 2048)
    (True, False, True)
    >>> _agree("backbone", "resnet50", "resnet50.tv_in1k"), _agree("backbone", "resnet50", "resnet18.tv_in1k")
    (True, False)
    """
    if key == "epochs":
        return math.isclose(theirs, ours, rel_tol=0.02)
    if key == "dim":
        return str(theirs).split()[0] == str(ours)
    return str(theirs) == (architecture(ours) if key == "backbone" else str(ours))


def _stated(line: Line) -> dict[str, Any]:
    conditions = table(line.paper, line.table).conditions if line.origin == "own" else {}
    epochs, chosen = conditions.get("epochs"), str(conditions.get("selection", ""))
    stated = {key: getattr(line, key) for key in _COMPARED if key not in ("epochs", "selection")}
    stated["epochs"] = epochs if isinstance(epochs, int) else None
    if balanced := _BALANCED.fullmatch(line.sampler):
        stated["sampler"] = f"SPC-{balanced[1]}"
    if line.protocol.startswith("mlrc"):
        return stated | {"selection": "validation"}  # part of that protocol
    return stated | {"selection": "best_on_test" if "best test" in chosen else None}


def _order(match: Reported, source: str) -> tuple[float, bool, bool, str]:
    """Sort key: how far apart the settings are, then the table asked for, then a paper's own numbers."""
    other = match.line.source != source
    apart: float = sum(_WEIGHT.get(text.split()[0], 1) for text in match.differs)
    apart += sum(0.5 * _WEIGHT.get(key, 1) for key in match.unknown if other)
    return apart, other, match.line.origin != "own", match.line.source
