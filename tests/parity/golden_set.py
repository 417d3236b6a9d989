"""A set of golden cases: its location, the facts of a case, and the comparison with the stored answer."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

OWN = Path(__file__).parents[1] / "golden"
Outputs = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One entry of an index.json, and the folder it was read from."""

    folder: Path
    entry: dict[str, Any]

    def __getattr__(self, key: str) -> Any:
        """`name`, `kind`, `what`, `source`, `status`, `params` and `inputs` of the entry."""
        if key == "entry" or key not in self.entry:
            raise AttributeError(key)
        return self.entry[key]

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        with np.load(self.folder / self.entry["file"]) as stored:
            return dict(stored)

    @property
    def right(self) -> dict[str, np.ndarray]:
        """What ours must give: the outputs or, where the source was wrong, the arrays with `_right`."""
        if self.status != "bug":
            return {name: self.arrays[name] for name in self.entry["outputs"]}
        # not every index lists them among the outputs
        return {name.removesuffix("_right"): self.arrays[name] for name in self.arrays if name.endswith("_right")}

    @property
    def wrong(self) -> dict[str, np.ndarray]:
        """What a wrong source gave; empty for the others."""
        return {name: self.arrays[name] for name in self.right if name in self.arrays} if self.status == "bug" else {}


def folder() -> Path:
    """The set to check: LEVELFIELD_GOLDEN, or the one that comes with the tests."""
    return Path(os.environ.get("LEVELFIELD_GOLDEN") or OWN).expanduser()


def read(place: Path) -> list[Case]:
    """The cases of `place`, which holds an index.json, or folders that do."""
    indices = [place / "index.json"] if (place / "index.json").is_file() else sorted(place.glob("*/index.json"))
    cases = [Case(index.parent, entry) for index in indices for entry in json.loads(index.read_text())["cases"]]
    if not cases:
        raise FileNotFoundError(f"{place} holds no golden case: an index.json is needed there or in a folder of it.")
    return cases


def differs(case: Case, got: Any, stored: np.ndarray) -> str | None:
    """How `got` is not the stored array; None if it is: |got - stored| <= atol + rtol |stored|, whole numbers equal.

    Images (uint8) are compared with the tolerance too: two right roundings of a pixel differ.
    """
    got = np.asarray(got)
    if got.shape != stored.shape:
        return f"shape {got.shape} instead of {stored.shape}"
    if stored.dtype == np.uint8:
        close = np.isclose(got.astype(float), stored.astype(float), rtol=case.entry["rtol"], atol=case.entry["atol"])
    elif stored.dtype.kind in "iub":
        close = got == stored
    else:
        close = np.isclose(got, stored, rtol=case.entry["rtol"], atol=case.entry["atol"], equal_nan=True)
    if close.all():
        return None
    place = tuple(int(i) for i in np.argwhere(~close)[0])
    return f"{int((~close).sum())} of {close.size} entries, first at {place}: {got[place]} instead of {stored[place]}"


def verdict(case: Case, answer: Outputs) -> list[str]:
    """Everything that is wrong with `answer`; empty if it is right."""
    found = []
    for name, stored in case.right.items():
        if name not in answer:
            found.append(f"{name}: ours gives no such output")
        elif told := differs(case, answer[name], stored):
            found.append(f"{name}: {told}")
    if case.wrong and all(name in answer and not differs(case, answer[name], case.wrong[name]) for name in case.wrong):
        found.append("the numbers of the source, which are wrong, are given as well")
    return found
