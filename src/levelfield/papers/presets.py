"""Presets, a paper's settings by name: `PAPER`, `PAPER/DATASET` or `PAPER/DATASET/VARIANT`, e.g. "roth2020/cars".

`published/presets.json` has them in our terms, with the source of their numbers; `published.hyperparameters` has the
numbers in the papers' terms. The paper's name alone means CUB, on which nearly all papers tuned. If text and code of a
paper differ (docs/papers.md), the preset follows the code, which produced the published numbers; the variant `text`
(`roth2020/cub/text`, `roth2020/cub/rho_text`) follows the text. Training settings (learning rates, batch, epochs)
belong to a study's conditions.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from levelfield.errors import BadSpecification, suggestion
from levelfield.papers.published._tables import entries_of


@cache
def _rows(objective: str) -> Mapping[str, Mapping[str, Any]]:
    rows = [row for row in entries_of("presets.json") if row["objective"] == objective]
    return {preset: row for row in rows for preset in row["presets"]}


def presets(objective: str) -> Mapping[str, Mapping[str, Any]]:
    """Settings of every preset of `objective`, by name.

    >>> presets("histogram")["roth2020/sop"]
    {'bins': 11}
    """
    return {preset: row["settings"] for preset, row in _rows(objective).items()}


def preset_row(objective: str, preset: str) -> Mapping[str, Any]:
    """A preset of an objective: its `settings`, and `lr`, the learning rate of the head that its multipliers refer to
    (None: unknown, or published with an eps of Adam near 1, which makes rates incomparable).

    >>> preset_row("proxy_anchor", "kim2020/sop")["lr"], preset_row("proxy_nca_pp", "teh2020")["lr"]
    (0.0006, None)
    """
    known = _rows(objective)
    if str(preset) not in known:
        hint = suggestion(preset, known) if known else " No paper's settings are known for it."
        raise BadSpecification(f"The objective '{objective}' has no preset {preset!r}.{hint}")
    return known[str(preset)]


def without_regulariser(preset: str) -> str:
    """The preset of the same row without the switch; itself if it has none.

    >>> without_regulariser("roth2020/cub/rho"), without_regulariser("roth2020/sop/rho_beta06")
    ('roth2020/cub', 'roth2020/sop/beta06')
    """
    paper, dataset, variant = (*preset.split("/"), "", "")[:3]
    plain = variant.removeprefix("rho").lstrip("_")
    return "/".join(part for part in (paper, dataset, plain) if part)
