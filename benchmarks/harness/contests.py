"""Measured pairs: each objective in the forms with a target, and its counterpart in pytorch-metric-learning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness import targets as at
from harness.targets import Bound, Classes, Layout
from levelfield import objectives


@dataclass(frozen=True)
class Contest:
    """One form of an objective against `sim`, and against PML if `faster` has a number.

    `sim` None at a layout: measured without a target. pml: settings of `pml.loss`, with the class name as "name".
    noise: spread of a class (see `batch_of`).
    """

    name: str
    objective: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    sim: Mapping[Layout, Bound | None] = field(default_factory=lambda: at.PAIRS)
    pml: Mapping[str, Any] | None = None
    faster: Mapping[Layout, Bound | None] = field(default_factory=dict)
    noise: float = at.YOUNG


@dataclass(frozen=True)
class ProxyContest:
    """An objective with class parameters against its own three products; `centres` vectors for each class.

    `products` None at a size: measured without a target. `logits`: whether it may store them.
    """

    name: str
    objective: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    centres: int = 1
    products: Mapping[Classes, Bound | None] = field(default_factory=lambda: at.PROXIES)
    logits: bool = True
    pml: Mapping[str, Any] | None = None
    faster: Mapping[Classes, Bound | None] = field(default_factory=dict)

    @property
    def sizes(self) -> list[Classes]:
        return sorted({*self.products, *self.faster, *at.FEW, *at.DEMO})


SEMIHARD = ("TripletMarginMiner", {"margin": 0.2, "type_of_triplets": "semihard"})
EACH_POSITIVE = {"distance_weighted": {"per_anchor": "positives"}}

CONTESTS = [
    Contest(
        "triplet, all",
        "triplet",
        {"miner": "all", "reduction": "mean_nonzero"},
        at.ALL_TRIPLETS,
        {"name": "TripletMarginLoss", "margin": 0.2},
        at.PML_TRIPLETS,
    ),
    Contest(
        "triplet, semihard all",
        "triplet",
        {"miner": {"semihard": {"mode": "all"}}, "reduction": "mean_nonzero"},
        at.SEMIHARD_ALL,
        {"name": "TripletMarginLoss", "margin": 0.2, "miner": SEMIHARD},
        at.PML_TRIPLETS,
    ),
    Contest("triplet, semihard random", "triplet", {"miner": "semihard"}, at.MINED),
    Contest("triplet, semihard closest", "triplet", {"miner": {"semihard": {"mode": "closest"}}}, at.few(at.MINED)),
    Contest("triplet, softhard", "triplet", {"miner": "softhard"}, at.MINED),
    Contest("triplet, batch_hard", "triplet", {"miner": "batch_hard"}, at.MINED),
    Contest("triplet, random", "triplet", {"miner": "random"}, at.MINED),
    Contest("triplet, distance_weighted", "triplet", {"miner": "distance_weighted"}, at.DISTANCE_WEIGHTED),
    Contest(
        "margin, distance_weighted, 3 each",
        "margin",
        {"miner": EACH_POSITIVE},
        at.few(at.DISTANCE_WEIGHTED),
        {"name": "MarginLoss", "learn_beta": True, "miner": ("DistanceWeightedMiner", {"cutoff": 0.5})},
        at.PML_DISTANCE_WEIGHTED,
    ),
    Contest("margin, distance_weighted", "margin", {}, at.DISTANCE_WEIGHTED),
    Contest("margin, all", "margin", {"miner": "all"}),
    Contest(
        "multi_similarity",
        "multi_similarity",
        pml={"name": "MultiSimilarityLoss", "beta": 40, "miner": ("MultiSimilarityMiner", {"epsilon": 0.1})},
        faster=at.PML_MULTI_SIMILARITY,
    ),
    Contest(
        "contrastive, all",
        "contrastive",
        {"miner": "all"},
        pml={"name": "ContrastiveLoss"},
        faster=at.PML_OTHERS,
    ),
    Contest("contrastive, distance_weighted", "contrastive", {}, at.DISTANCE_WEIGHTED),
    Contest("nt_xent", "nt_xent", pml={"name": "NTXentLoss"}, faster=at.PML_ALL_PAIRS_OF_TRIPLES),
    Contest("n_pair, all", "n_pair", {"form": "all"}),
    Contest("n_pair, sampled", "n_pair", {"form": "sampled"}),
    Contest("n_pair, pairs", "n_pair", {"form": "pairs", "nu": 0.0}, pml={"name": "NPairsLoss"}, faster=at.PML_OTHERS),
    Contest(
        "lifted_structure", "lifted_structure", pml={"name": "LiftedStructureLoss"}, faster=at.PML_ALL_PAIRS_OF_TRIPLES
    ),
    Contest(
        "generalized_lifted",
        "generalized_lifted",
        pml={"name": "GeneralizedLiftedStructureLoss"},
        faster=at.PML_OTHERS,
    ),
    Contest(
        "angular, all",
        "angular",
        {"form": "all", "npair_weight": 0.0},
        at.ANGULAR,
        {"name": "AngularLoss", "alpha": 45},
        at.PML_ANGULAR,
    ),
    Contest("angular + n_pair, sampled", "angular", {}, {}),
    Contest("angular + n_pair, all", "angular", {"form": "all"}, at.ANGULAR_N_PAIR),
    Contest(
        "histogram, 65",
        "histogram",
        {},
        at.HISTOGRAM,
        {"name": "HistogramLoss", "n_bins": 64},
        at.PML_HISTOGRAM_SNR,
    ),
    Contest("histogram, 11", "histogram", {"bins": 11}, at.HISTOGRAM),
    Contest(
        "ranked_list",
        "ranked_list",
        pml={"name": "RankedListLoss", "margin": 0.4, "Tn": 10, "alpha": 1.2},
        faster=at.PML_OTHERS,
    ),
    Contest("fast_ap", "fast_ap", {}, at.FAST_AP, {"name": "FastAPLoss", "num_bins": 10}, at.PML_FAST_AP),
    Contest(
        "snr, all",
        "snr",
        {"miner": "all"},
        at.ALL_TRIPLETS,
        {"name": "TripletMarginLoss", "margin": 0.2, "distance": "SNRDistance"},
        at.PML_HISTOGRAM_SNR,
    ),
    Contest("snr, contrastive all", "snr", {"form": "contrastive", "miner": "all"}, {}),
    Contest("snr, distance_weighted", "snr", {}, at.DISTANCE_WEIGHTED),
    Contest("quadruplet, all", "quadruplet", {"miner": "all"}, {}),
    Contest("quadruplet, distance_weighted", "quadruplet", {}, at.DISTANCE_WEIGHTED),
    Contest("prototypical", "prototypical"),
    # With well-separated classes PML's miners find almost no tuples; the targets are the same.
    Contest(
        "multi_similarity, solved batch",
        "multi_similarity",
        pml={"name": "MultiSimilarityLoss", "beta": 40, "miner": ("MultiSimilarityMiner", {"epsilon": 0.1})},
        faster=at.PML_MULTI_SIMILARITY,
        noise=at.SOLVED,
    ),
    Contest(
        "triplet, all, solved batch",
        "triplet",
        {"miner": "all", "reduction": "mean_nonzero"},
        at.ALL_TRIPLETS,
        {"name": "TripletMarginLoss", "margin": 0.2},
        at.PML_TRIPLETS,
        at.SOLVED,
    ),
    Contest(
        "triplet, semihard all, solved batch",
        "triplet",
        {"miner": {"semihard": {"mode": "all"}}, "reduction": "mean_nonzero"},
        at.SEMIHARD_ALL,
        {"name": "TripletMarginLoss", "margin": 0.2, "miner": SEMIHARD},
        at.PML_TRIPLETS,
        at.SOLVED,
    ),
]

UNASKED: dict[Classes, Bound | None] = dict.fromkeys(at.PROXIES)
COMMON: dict[Classes, Bound | None] = dict.fromkeys((*at.FEW, at.SHOP, at.SHOP_512))

PROXY_CONTESTS = [
    ProxyContest("softmax", "softmax"),
    ProxyContest(
        "normalized_softmax",
        "normalized_softmax",
        pml={"name": "NormalizedSoftmaxLoss"},
        faster=at.pml_proxies(1.8, 2.2),
    ),
    ProxyContest("cosface", "cosface", pml={"name": "CosFaceLoss"}, faster=COMMON),
    ProxyContest("arcface", "arcface", pml={"name": "ArcFaceLoss"}, faster=at.pml_proxies(1.6, 2)),
    ProxyContest("proxy_nca", "proxy_nca", pml={"name": "ProxyNCALoss", "softmax_scale": 9}, faster=COMMON),
    ProxyContest("proxy_nca_pp", "proxy_nca_pp"),
    ProxyContest("proxy_triplet", "proxy_triplet"),
    ProxyContest(
        "proxy_anchor",
        "proxy_anchor",
        logits=False,
        pml={"name": "ProxyAnchorLoss"},
        faster=at.pml_proxies(2.6, 3.2),
    ),
    ProxyContest(
        "soft_triple, 10 centres",
        "soft_triple",
        {"centers_per_class": 10},
        10,
        {size: at.SOFT_TRIPLE[size] for size in (at.SHOP, at.SHOP_512)},
        pml={"name": "SoftTripleLoss", "centers_per_class": 10},
        faster={**dict.fromkeys(at.FEW, (1.25, 1.5)), at.SHOP: (2.2, 2.7), at.SHOP_512: (2.2, 2.7)},
    ),
    ProxyContest(
        "soft_triple, 2 centres",
        "soft_triple",
        {"centers_per_class": 2},
        2,
        at.SOFT_TRIPLE,
        pml={"name": "SoftTripleLoss", "centers_per_class": 2},
        faster=at.pml_proxies(2.2, 2.7, few=False),
    ),
    ProxyContest("group_loss", "group_loss", products=UNASKED),
    ProxyContest("hist", "hist", products=UNASKED),
    ProxyContest("message_passing", "message_passing", products=UNASKED),
]

ELSEWHERE = ("structured_clustering",)  # in seconds, see `Benchmark.clustering`


def _enter_the_others() -> None:
    """Objectives without their own target are measured with their defaults."""
    entered = {contest.objective for contest in (*CONTESTS, *PROXY_CONTESTS)} | {*ELSEWHERE}
    for name in objectives.names():
        if name not in entered and "num_classes" in objectives.describe(name).needs:
            PROXY_CONTESTS.append(ProxyContest(name, name, products=UNASKED))
        elif name not in entered:
            CONTESTS.append(Contest(name, name, sim=dict.fromkeys(at.PAIRS)))


_enter_the_others()
