"""Presets, a paper's settings by name: `PAPER`, `PAPER/DATASET` or `PAPER/DATASET/VARIANT`, e.g. "roth2020/cars".

`published/presets.json` has them in our terms, with the source of their numbers; `published.hyperparameters` has the
numbers in the papers' terms. The paper's name alone means CUB, on which nearly all papers tuned. If text and code of a
paper differ, the preset follows the code, which produced the published numbers; the variant `text`
(`roth2020/cub/text`, `roth2020/cub/rho_text`) follows the text, see `DIFFERENCES`. Training settings (learning rates,
batch, epochs) belong to a study's conditions.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from levelfield.errors import BadSpecification, nearest
from levelfield.papers.published import entries_of

_REGULARISED = "rho"


class Difference(NamedTuple):
    """One difference between text and code. `preset`: of the text; the same without `text` is the code's.

    conditions: instead of a preset, the conditions of a study that follow the text.
    """

    paper: str
    methods: str
    what: str
    text: str
    code: str
    preset: str = ""
    conditions: tuple[tuple[str, str], ...] = ()


DIFFERENCES = (
    Difference("roth2020", "quadruplet", "margins", "1 and 0.5", "0.2 and 0.2", "roth2020/cub/text"),
    Difference("roth2020", "snr", "weight of the norm term", "0.005", "0 (0.005 with the switch)", "roth2020/cub/text"),
    Difference(
        "roth2020",
        "contrastive, margin, quadruplet, snr, triplet",
        "upper limit of distance-weighted sampling",
        "1.4",
        "read, but not applied",
        "roth2020/cub/text",
    ),
    Difference("roth2020", "triplet", "distances", "not squared", "squared", "roth2020/cub/text"),
    Difference(
        "roth2020",
        "generalized_lifted, n_pair, angular",
        "power of the norm in the length penalty",
        "2",
        "1",
        "roth2020/cub/text",
    ),
    Difference("roth2020", "n_pair, angular", "positives of an anchor", "all", "one, drawn", "roth2020/cub/text"),
    Difference("roth2020", "margin", "divisor", "active pairs", "triplets with an active pair", "roth2020/cub/text"),
    Difference("roth2020", "multi_similarity", "divisor", "batch size", "anchors with pairs", "roth2020/cub/text"),
    Difference(
        "roth2020", "normalized_softmax", "learning rate of the proxies on SOP", "1e-5", "2e-3", "roth2020/sop/text"
    ),
    Difference(
        "roth2020",
        "triplet",
        "semi-hard negatives",
        "farther than the positive",
        "also nearer than positive + margin",
        "roth2020/cub/semihard_text",
    ),
    Difference("seidenschwarz2021", "all", "optimiser", "Adam", "RAdam", conditions=(("optimiser", "adam"),)),
)


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


def preset_settings(objective: str, preset: str) -> Mapping[str, Any]:
    """Settings of `preset` for `objective`."""
    settings: Mapping[str, Any] = _row(objective, preset)["settings"]
    return settings


def preset_lr(objective: str, preset: str) -> float | None:
    """The learning rate of the head that a preset's multipliers refer to.

    None: unknown, or published with an eps of Adam near 1, which makes rates incomparable.

    >>> preset_lr("proxy_anchor", "kim2020/sop"), preset_lr("proxy_nca_pp", "teh2020")
    (0.0006, None)
    """
    lr: float | None = _row(objective, preset)["lr"]
    return lr


def without_regulariser(preset: str) -> str:
    """The preset of the same row without the switch; itself if it has none.

    >>> without_regulariser("roth2020/cub/rho"), without_regulariser("roth2020/sop/rho_beta06")
    ('roth2020/cub', 'roth2020/sop/beta06')
    """
    paper, dataset, variant = (*preset.split("/"), "", "")[:3]
    plain = variant.removeprefix(_REGULARISED).lstrip("_")
    return "/".join(part for part in (paper, dataset, plain) if part)


def _row(objective: str, preset: str) -> Mapping[str, Any]:
    known = _rows(objective)
    if str(preset) not in known:
        close = nearest(str(preset), known)
        hint = f" Did you mean '{close}'?" if close else ""
        has = f"There are: {', '.join(known)}." if known else "No paper's settings are known for it."
        raise BadSpecification(f"The objective '{objective}' has no preset {preset!r}.{hint} {has}")
    return known[str(preset)]
