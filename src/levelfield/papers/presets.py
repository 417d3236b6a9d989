"""Presets, a paper's settings by name: `PAPER`, `PAPER/DATASET` or `PAPER/DATASET/VARIANT`, e.g. "roth2020/cars".

The numbers come from `levelfield.papers.published`; the tables here translate the papers' terms. The paper's name alone
means CUB, on which nearly all papers tuned. If text and code of a paper differ, the preset follows the code, which
produced the published numbers; the variant `text` (`roth2020/cub/text`, `roth2020/cub/rho_text`) follows the text, see
`levelfield.papers.text`. Training settings (learning rates, batch, epochs) belong to a study's conditions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

from levelfield.errors import BadSpecification, nearest
from levelfield.papers.published import Entry, hyperparameters
from levelfield.papers.text import TEXT

DATASETS = {"CUB-200-2011": "cub", "CARS196": "cars", "SOP": "sop", "In-Shop": "inshop"}
# A paper's tables may contain another paper's settings: lim2022 compares with MLRC's runs, seidenschwarz2021 with those
# of the group loss.
PAPERS = {
    "zheng2021": ("zheng2021",),
    "fehervari2019": ("fehervari2019",),
    "roth2020": ("roth2020",),
    "lim2022": ("MLRC (baselines of lim2022 tables 8-9)", "lim2022"),
    "seidenschwarz2021": ("seidenschwarz2021", "Elezi 2020"),
    "mlrc": ("MLRC (baselines of lim2022 tables 8-9)",),
    "kim2020": ("Kim 2020",),
    "teh2020": ("Teh 2020",),
    "qian2019": ("Qian 2019",),
    "zhai2019": ("Zhai and Wu 2019",),
    "elezi2020": ("Elezi 2020",),
    "proxy_nca_port": ("proxy-nca port",),
}
# The papers' names of objectives and variants, if they differ from ours.
METHODS = {
    "triplet_semihard": ("triplet", ""),
    "npair": ("n_pair", ""),
    "npairs": ("n_pair", ""),
    "multisimilarity": ("multi_similarity", ""),
    "multisimilarity_with_miner": ("multi_similarity", "miner"),
    "margin_per_class": ("margin", "per_class"),
    "ntxent": ("nt_xent", ""),
    "fastap": ("fast_ap", ""),
    "snr_contrastive": ("snr", ""),
    "prototype": ("prototypical", ""),
    "proxy_softmax": ("normalized_softmax", ""),
    "mpn": ("message_passing", ""),
    "drml_proxy_anchor": ("proxy_anchor", "drml"),
    "rho_contrastive": ("contrastive", "rho"),
    "rho_triplet": ("triplet", "rho"),
    "rho_snr": ("snr", "rho"),
    "rho_margin_beta12": ("margin", "rho"),
    "rho_margin_beta06": ("margin", "rho_beta06"),
}
ALSO = {("softmax", "mpn")}  # only its auxiliary loss: "Cross-Entropy" in seidenschwarz2021's table 3
_NO_UPPER = {"distance_weighted": {"upper": None, "empty": "skip"}}  # roth2020's code reads 1.4 and never applies it
_CLOSEST = {"semihard": {"mode": "closest"}}
_PML = {"reduction": "mean_nonzero", "miner": "all"}
# The form of the equation that a paper used. It is in no table, but in the text or, if that differs, in the code.
FORMS: dict[tuple[str, str, str], dict[str, Any]] = {
    ("fehervari2019", "triplet", ""): {"margin": 1.0, "squared": True, "normalize": False, "miner": _CLOSEST},
    ("fehervari2019", "n_pair", ""): {"form": "pairs"},
    ("fehervari2019", "angular", ""): {"form": "pairs", "normalize": False, "angular_weight": 1.0},
    ("fehervari2019", "margin", ""): {
        "beta_per_class": True,
        "beta_optimiser": "sgd",
        "miner": {"distance_weighted": {"per_anchor": "positives"}},
    },
    ("fehervari2019", "ranked_list", ""): {"weight_grad": True, "reduction": "mean_nonzero"},
    ("fehervari2019", "normalized_softmax", ""): {
        "smoothing": "others",
        "proxy_init": "tiny_normal",
        "proxy_lr_multiplier": 1.0,
    },
    ("fehervari2019", "proxy_nca", ""): {"proxy_init": "tiny_normal"},
    ("fehervari2019", "proxy_triplet", ""): {"proxy_init": "tiny_normal"},
    ("roth2020", "contrastive", ""): {"miner": _NO_UPPER},
    ("roth2020", "triplet", ""): {"squared": True, "miner": _NO_UPPER},
    ("roth2020", "triplet", "semihard"): {"miner": "semihard"},
    ("roth2020", "generalized_lifted", ""): {"nu_power": 1},
    ("roth2020", "n_pair", ""): {"form": "sampled", "nu_power": 1},
    ("roth2020", "angular", ""): {"form": "sampled", "normalize": True, "npair_weight": 1.0, "nu_power": 1},
    ("roth2020", "margin", ""): {"beta_per_class": True, "divisor": "active_triplets", "miner": _NO_UPPER},
    ("roth2020", "margin", "beta06"): {"beta": 0.6},
    ("roth2020", "margin", "rho_beta06"): {"beta": 0.6},
    ("roth2020", "multi_similarity", ""): {"reduction": "valid"},
    ("roth2020", "quadruplet", ""): {"miner": _NO_UPPER},
    ("roth2020", "snr", ""): {"form": "triplet", "reg_over": "anchors", "miner": _NO_UPPER, "lam": 0.0},
    ("roth2020", "snr", "rho"): {"lam": 0.005},  # the code uses the regulariser only with this miner
    ("mlrc", "contrastive", ""): _PML,
    ("mlrc", "triplet", ""): _PML,
    ("mlrc", "margin", ""): {"miner": "all"},
    ("mlrc", "margin", "per_class"): {"beta_per_class": True},
    ("mlrc", "proxy_nca", ""): {"include_true": True, "proxy_init": "normal"},
    ("mlrc", "arcface", ""): {"proxy_init": "normal"},
    ("mlrc", "cosface", ""): {"proxy_init": "normal"},
    ("mlrc", "normalized_softmax", ""): {"proxy_init": "normal"},
    ("mlrc", "snr", ""): {"form": "contrastive", **_PML},
    ("mlrc", "multi_similarity", ""): {"epsilon": None},
    ("seidenschwarz2021", "message_passing", ""): {"null_logit": True, "input_projection": True},
    ("proxy_nca_port", "proxy_nca", ""): {"smoothing": "others"},
}
# The rows of lim2022's tables 4 and 5.
FORMS |= {
    ("lim2022", "hist", "positives"): {"incidence": "positives"},
    ("lim2022", "hist", "attention"): {"relations": "attention"},
    ("lim2022", "hist", "without_distribution_loss"): {"distribution_weight": 0.0},
    ("lim2022", "hist", "baseline"): {"relations": "linear", "distribution_weight": 0.0},
    ("lim2022", "hist", "proxies"): {"variance": "fixed"},
}
FORMS |= {("lim2022", *key[1:]): value for key, value in FORMS.items() if key[0] == "mlrc"}
# Keys with another name here; for one objective or, with None, for all.
NAMES: dict[tuple[str | None, str], str] = {
    ("contrastive", "margin"): "neg_margin",
    ("margin", "alpha"): "margin",
    ("angular", "lambda_"): "angular_weight",
    ("multi_similarity", "lambda_"): "base",
    ("normalized_softmax", "dropout"): "dropout",
    ("message_passing", "dropout"): "dropout",
    ("message_passing", "heads"): "heads",
    ("message_passing", "layers"): "steps",
    ("message_passing", "message_passing_steps"): "steps",
    ("message_passing", "concat_steps"): "concat_steps",
    ("hist", "hgnn_hidden"): "hidden",
    (None, "l2_weight"): "nu",
    (None, "beta_regularization"): "nu",
    (None, "reg_weight"): "lam",
    (None, "beta_init"): "beta",
    (None, "margin_radians"): "margin",
    (None, "alpha_degrees"): "alpha",
    (None, "p_switch"): "switch",
}
SAME = {
    *("margin", "pos_margin", "neg_margin", "margin1", "margin2", "alpha", "beta", "base", "epsilon", "delta", "bins"),
    *("la", "gamma", "tau", "centers_per_class", "temperature", "scale", "include_true", "label_smoothing", "nu"),
    *("npair_weight", "normalize", "proxy_lr_multiplier", "iterations", "cross_entropy_weight", "anchors_per_class"),
    "lambda_s",
}
INITS = {
    "normal/8": "small_normal",
    "kaiming normal, fan out": "kaiming_normal",
    "kaiming uniform a=sqrt(5)": "kaiming_uniform",
    "uniform(+-1/sqrt(d))": "uniform",
}
VALUES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "alpha_radians": lambda value: {"alpha": math.degrees(value)},
    "margin_degrees": lambda value: {"margin": math.radians(value)},
    "beta_init": lambda value: {"beta": value[-1] if isinstance(value, list) else value},  # roth2020: 0.6 is a variant
    "proxy_init": lambda value: {"proxy_init": INITS[value]} if value in INITS else {},
}
# Keys that are not settings of the objective: training conditions, heads, and keys replaced by FORMS.
CONDITIONS = {
    *("batch", "samples_per_class", "classes_per_batch", "images_per_class", "classes", "support", "query", "dim"),
    *("epochs", "epoch_length", "iterations_per_epoch", "pretrain_epochs", "warm_up_epochs", "same_image_sampling"),
    *("lr", "lr_embedding", "lr_backbone", "lr_factor", "lr_steps", "lr_step", "lr_gamma", "beta_lr", "proxy_lr"),
    *("optimizer", "optimizer_eps", "adam_eps", "weight_decay", "grad_clip", "grad_clip_value", "bn_freeze"),
    *("backbone", "pooling", "pool", "image_size", "layer_norm", "weight_norm", "dropout", "classifier_dropout"),
    *("binarized", "distance", "miner", "miners", "lower_cutoff", "upper_cutoff", "search", "low_temperature"),
    *("message_passing_steps", "heads", "layers", "losses", "reduction_of_backbone_features", "random_erasing"),
    *("concat_steps", "batch_sampler", "features_dim", "branches", "weight_reconstruction", "weight_representation"),
    *("embedding_scale", "proxy_scale", "embedding_multiplier"),
    *("hgnn_layers", "distribution_init", "add_global_max_pooling", "lr_hgnn", "lr_distributions"),
}
PRODUCTS = {("proxy_nca", "temperature")}  # see _multiplied
_TEXT = "text"
_REGULARISED = "rho"


class Preset(NamedTuple):
    """Source of an objective's settings: paper, dataset ("": all) and variant ("": none)."""

    paper: str
    dataset: str = ""
    variant: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in self if part)

    @property
    def of_text(self) -> Preset:
        """The preset with the values of the paper's text."""
        return self._replace(variant=f"{self.variant}_{_TEXT}".lstrip("_"))

    @property
    def coded(self) -> Preset:
        """The preset with the values of the paper's code."""
        return self._replace(variant=self.variant.removesuffix(_TEXT).rstrip("_"))


@cache
def presets(objective: str) -> Mapping[str, Mapping[str, Any]]:
    """Settings of every preset of `objective`, by name.

    >>> presets("histogram")["roth2020/sop"]
    {'bins': 11}
    """
    return {str(preset): _settings(objective, preset) for preset in _offered(objective)}


def preset_settings(objective: str, preset: str) -> Mapping[str, Any]:
    """Settings of `preset` for `objective`."""
    known = presets(objective)
    if str(preset) not in known:
        close = nearest(str(preset), known)
        hint = f" Did you mean '{close}'?" if close else ""
        has = f"There are: {', '.join(known)}." if known else "No paper's settings are known for it."
        raise BadSpecification(f"The objective '{objective}' has no preset {preset!r}.{hint} {has}")
    return known[str(preset)]


def preset_lr(objective: str, preset: str) -> float | None:
    """The learning rate of the head that a preset's multipliers refer to.

    None: unknown, or published with an eps of Adam near 1, which makes rates incomparable.

    >>> preset_lr("proxy_anchor", "kim2020/sop"), preset_lr("proxy_nca_pp", "teh2020")
    (0.0006, None)
    """
    preset_settings(objective, preset)  # refuses an unknown name
    chosen = Preset(*preset.split("/"))
    plain, more, _ = _published(objective, chosen.coded)
    params = {**plain, **more}
    return _base_rate(params, chosen.paper) if params.get("adam_eps", 0) < 0.1 else None


def without_regulariser(preset: str) -> str:
    """The preset of the same row without the switch; itself if it has none.

    >>> without_regulariser("roth2020/cub/rho"), without_regulariser("roth2020/sop/rho_beta06")
    ('roth2020/cub', 'roth2020/sop/beta06')
    """
    paper, dataset, variant = (*preset.split("/"), "", "")[:3]
    if not variant.startswith(_REGULARISED):
        return preset
    return str(Preset(paper, dataset, variant.removeprefix(_REGULARISED).lstrip("_")))


def _ours(entry: Entry) -> tuple[str, str]:
    """Our names of the objective and variant of an entry."""
    objective, variant = METHODS.get(entry.method, (entry.method, ""))
    if entry.paper.startswith("MLRC") and entry.params.get("batch") == 256:
        return objective, f"{variant}_256".lstrip("_")
    if objective == "hist" and entry.params.get("backbone") == "BN-Inception":  # table 2; the released code has table 3
        return objective, "bn_inception"
    return objective, variant


def _entries(objective: str, paper: str) -> list[Entry]:
    return [
        entry
        for entry in hyperparameters()
        if entry.paper in PAPERS[paper] and (_ours(entry)[0] == objective or (objective, entry.method) in ALSO)
    ]


def _offered(objective: str) -> list[Preset]:
    """All combinations with published settings."""
    presets: dict[Preset, None] = {}
    for paper in PAPERS:
        entries = _entries(objective, paper)
        datasets = {DATASETS.get(e.dataset, "") for e in hyperparameters() if e.paper in PAPERS[paper]} - {""}
        variants = {_ours(entry)[1] for entry in entries}
        variants |= {key[2] for key in FORMS if key[:2] == (paper, objective)} if entries else set()
        for variant in sorted(variants):
            # a variant has its own entries, or is only another form of the plain objective
            own = [e for e in entries if _ours(e)[1] == variant] or [e for e in entries if not _ours(e)[1]]
            named = {DATASETS.get(entry.dataset, "") for entry in own}
            chosen = named | datasets if "" in named else named
            ordered = [dataset for dataset in DATASETS.values() if dataset in chosen]
            if not variant:
                presets[Preset(paper)] = None
            presets.update({Preset(paper, dataset, variant): None for dataset in ordered})
        if (paper, objective, "") in TEXT:
            presets.update(
                {preset.of_text: None for preset in list(presets) if preset.paper == paper and preset.dataset}
            )
    return list(presets)


def _settings(objective: str, preset: Preset) -> dict[str, Any]:
    """Merge the settings for all datasets, for this dataset, and of the form; then those of the variant."""
    if preset != preset.coded:
        code = preset.coded
        own = TEXT.get((code.paper, objective, code.variant), {}) if code.variant else {}
        return _settings(objective, code) | TEXT[code.paper, objective, ""] | own
    plain, more, form = _published(objective, preset)
    settings = _translated(objective, plain) | FORMS.get((preset.paper, objective, ""), {})
    if preset.variant:
        settings |= _translated(objective, more) | (FORMS.get((preset.paper, objective, form), {}) if form else {})
    return settings | _multiplied(objective, {**plain, **more}, preset.paper)


def _published(objective: str, preset: Preset) -> tuple[dict[str, Any], dict[str, Any], str]:
    """A paper's own keys and values: of the plain objective, of the variant, and the variant's form."""
    entries = _entries(objective, preset.paper)
    named = [DATASETS[entry.dataset] for entry in entries if entry.dataset in DATASETS]
    general = len(named) < len(entries)  # some entries hold for all datasets
    dataset = preset.dataset or ("cub" if general or "cub" in named else next(iter(named), ""))
    plain = [entry for entry in entries if not _ours(entry)[1] and not _stands_alone(preset.variant)]
    more = [entry for entry in entries if preset.variant and _ours(entry)[1] == preset.variant]
    form = preset.variant.removesuffix("256").removesuffix("_")
    return _gathered(plain, dataset), _gathered(more, dataset), form


def _gathered(entries: list[Entry], dataset: str) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    for wanted in dict.fromkeys(("", dataset)):
        for entry in entries:
            if DATASETS.get(entry.dataset, "") == wanted:
                parameters |= entry.params
    return parameters


def _stands_alone(variant: str) -> bool:
    """Whether a variant was tuned separately, so that the plain settings do not apply."""
    return variant.endswith("256") or variant in ("miner", "per_class", "drml", "bn_inception")


def _translated(objective: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Translate a paper's keys; values without a number ("yes") are ignored."""
    settings: dict[str, Any] = {}
    for key, value in params.items():
        name = NAMES.get((objective, key)) or NAMES.get((None, key)) or (key if key in SAME else None)
        if (objective, key) in PRODUCTS:
            continue
        if key in VALUES:
            settings |= VALUES[key](value)
        elif name is not None:
            if not isinstance(value, str):
                settings[name] = value
        elif key not in CONDITIONS:
            raise BadSpecification(f"The published key '{key}' of '{objective}' is not supported.")
    return settings


def _multiplied(objective: str, params: Mapping[str, Any], paper: str) -> dict[str, Any]:
    """Settings that are products or quotients of published ones."""
    settings: dict[str, Any] = {}
    if "embedding_scale" in params:  # only the product of both multipliers matters
        settings["scale"] = float(params["embedding_scale"] * params["proxy_scale"])
    if objective == "proxy_nca" and "embedding_multiplier" in params:
        settings["scale"] = params["embedding_multiplier"] ** 2 / params["temperature"]
    rate = _base_rate(params, paper)
    if rate and "proxy_lr_multiplier" not in params and "proxy_lr" in params:
        settings["proxy_lr_multiplier"] = round(params["proxy_lr"] / rate, 12)
    if rate and "beta_lr" in params:
        settings["beta_lr_multiplier"] = round(params["beta_lr"] / rate, 12)
    for group in ("distribution", "hgnn") if objective == "hist" and rate else ():
        theirs = params["lr_hgnn" if group == "hgnn" else "lr_distributions"]
        settings[f"{group}_lr_multiplier"] = round(theirs / rate, 12)
    return settings


def _base_rate(params: Mapping[str, Any], paper: str) -> float | None:
    rate: float | None = params.get("lr_embedding", params.get("lr", _head_rate(paper)))
    return rate


def _head_rate(paper: str) -> float | None:
    """The learning rate that a paper uses for all its methods."""
    general = [e.params for e in hyperparameters() if e.paper in PAPERS[paper] and e.method == "general"]
    return next((params["lr"] for params in general if "lr" in params), None)
