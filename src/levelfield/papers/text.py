"""Where the text of a paper and its released code differ.

Presets follow the code, which produced the published numbers. The variant `text` of a preset (`roth2020/cub/text`) has
the values of the text instead.
"""

from __future__ import annotations

from typing import Any, NamedTuple

# Replace the settings of a preset: by paper, objective and variant ("": all variants).
TEXT: dict[tuple[str, str, str], dict[str, Any]] = {
    ("roth2020", "contrastive", ""): {"miner": "distance_weighted"},
    ("roth2020", "triplet", ""): {"squared": False, "miner": "distance_weighted"},
    ("roth2020", "triplet", "semihard"): {"miner": {"semihard": {"margin": None}}},
    ("roth2020", "generalized_lifted", ""): {"nu_power": 2},
    ("roth2020", "n_pair", ""): {"form": "all", "nu_power": 2},
    ("roth2020", "angular", ""): {"form": "all", "nu_power": 2},
    ("roth2020", "margin", ""): {"divisor": "active_pairs", "miner": "distance_weighted"},
    ("roth2020", "multi_similarity", ""): {"reduction": "batch"},
    ("roth2020", "quadruplet", ""): {"margin1": 1.0, "margin2": 0.5, "miner": "distance_weighted"},
    ("roth2020", "snr", ""): {"lam": 0.005, "reg_over": "batch", "miner": "distance_weighted"},
    ("roth2020", "normalized_softmax", ""): {"proxy_lr_multiplier": 1.0},
}


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
