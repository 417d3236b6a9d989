"""The public file with a network's pretrained weights: its name, whether it is on this machine, and its recipe."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import levelfield._torchvision  # noqa: F401  (before timm)
from levelfield.embedder.networks._registry import Weights, networks
from levelfield.files.writing import expanded
from levelfield.registry import is_file_reference

import timm  # isort: skip

_log = logging.getLogger("levelfield")
DESCRIBED = "docs/study-file.md#weights-of-the-papers"
_FORMER = {"resnet50-19c8e357.pth": "resnet50.tv_in1k", "resnet18-5c106cde.pth": "resnet18.tv_in1k"}
"""Files of the same weights at the time of the papers."""
_HUB_FILES = ("model.safetensors", "pytorch_model.bin")  # in the order in which timm asks for them


def is_own(name: str) -> bool:
    """Whether levelfield, a plugin or a user's file builds the network, not timm."""
    return is_file_reference(name) or name in networks


def weights_of(name: str) -> Weights:
    return (networks.facts(name) if is_own(name) else None) or Weights()


def public_file(name: str) -> str:
    """The published file of a network's weights; empty if there is none.

    >>> public_file("bninception"), public_file("resnet50.tv_in1k")
    ('bn_inception-52deb4733.pth', 'resnet50-0676ba61.pth')
    """
    if is_own(name):
        return weights_of(name).file
    config = timm.get_pretrained_cfg(name)
    if config is None:
        return ""
    at_url = PurePosixPath(config.url).name if isinstance(config.url, str) else ""
    return at_url or (f"{config.hf_hub_id}/{_HUB_FILES[0]}" if config.hf_hub_id else "")


def published(name: str) -> str:
    """A sentence about the file that a network needs, with a space before it; empty if none is known."""
    file = public_file(name)
    return f" The published file of '{name}' is {file}: see {DESCRIBED}." if file else ""


def obtain(name: str) -> str:
    """How to give a network its weights."""
    return f"Give a local file (weights: FILE.safetensors or FILE.pth) or `weights: random`.{published(name)}"


def missing(name: str, weights: str | None) -> str | None:
    """What is missing on this machine before the network can be built; None if nothing is. Asks no server.

    weights: None (pretrained), "random" or a file, as in `backbones.create`.
    """
    if weights == "random":
        return None
    if weights is not None:
        return None if expanded(weights).is_file() else f"The weights file {weights} does not exist. {obtain(name)}"
    if weights_of(name).pretrained is not None if is_own(name) else _is_stored(name):
        return None
    download = "" if is_own(name) else " timm tries to download them when a run starts."
    return f"The weights of '{name}' are not on this machine.{download} {obtain(name)}"


def recipe(file: Path, name: str) -> str | None:
    """The pretraining of `name`'s architecture that a file is called after, by timm's name; None if by none.

    >>> recipe(Path("resnet50-11ad3fa6.pth"), "resnet50.tv_in1k"), recipe(Path("mine.pth"), "resnet50")
    ('resnet50.tv2_in1k', None)
    >>> recipe(Path("resnet50-19c8e357.pth"), "resnet50")
    'resnet50.tv_in1k'
    """
    named = {file.stem, *(part.removeprefix("models--timm--") for part in file.parent.parts)}  # or in the hub's cache
    known = timm.list_pretrained(f"{name.split('.')[0]}.*")
    return next(
        (each for each in known if each in named or file.name == public_file(each) or _FORMER.get(file.name) == each),
        None,
    )


def _is_stored(name: str) -> bool:
    """Whether timm finds the weights in its cache."""
    from huggingface_hub import try_to_load_from_cache

    config = timm.get_pretrained_cfg(name)
    if config is None or not config.hf_hub_id:
        import torch

        return config is not None and Path(torch.hub.get_dir(), "checkpoints", public_file(name)).is_file()
    repository, _, revision = config.hf_hub_id.partition("@")
    files = (config.hf_hub_filename,) if config.hf_hub_filename else _HUB_FILES
    return any(isinstance(try_to_load_from_cache(repository, file, revision=revision or None), str) for file in files)


@contextmanager
def hub_asked(name: str) -> Iterator[None]:
    """Context in which timm may ask its hub for weights: one line in place of those of the hub's client."""
    from huggingface_hub.utils import logging as client

    if not _is_stored(name):
        _log.warning(
            "The weights of '%s' are not stored here: asking the hub, for a minute if it does not answer.", name
        )
    before = client.get_verbosity()
    client.set_verbosity_error()
    try:
        yield
    finally:
        client.set_verbosity(before)
