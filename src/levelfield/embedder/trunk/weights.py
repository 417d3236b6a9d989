"""Pretrained weights: their public file, whether it is on this machine, and reading weights from a file.

A file is of safetensors or torch.save; weights of another network or another pretraining are refused.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

import levelfield._torchvision  # noqa: F401  (before timm)
from levelfield.embedder.networks._registry import Weights, networks
from levelfield.errors import BadInput, MissingData
from levelfield.files.writing import expanded
from levelfield.registry import is_file_reference

import timm  # isort: skip

_log = logging.getLogger("levelfield")
_FORMER = {"resnet50-19c8e357.pth": "resnet50.tv_in1k", "resnet18-5c106cde.pth": "resnet18.tv_in1k"}
"""Files of the same weights at the time of the papers."""
_HUB_FILES = ("model.safetensors", "pytorch_model.bin")  # in the order in which timm asks for them
_PICKLED = (b"PK\x03\x04", b"\x80\x02")  # the first bytes of what torch.save writes, and wrote before version 1.6


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


def obtain(name: str) -> str:
    """How to give a network its weights."""
    return f"Give a local file (weights: FILE.safetensors or FILE.pth) or `weights: random`.{_published(name)}"


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


def read_weights(path: Path, name: str, state: Mapping[str, Tensor], unused: Iterable[str]) -> dict[str, Tensor]:
    """The tensors of a file, with the names and shapes of `state`, the state dict of the network `name`.

    Weights whose file is named after another pretraining are refused. unused: layers of the classifier.
    """
    skipped = tuple(f"{layer}." for layer in unused)
    needed = {key for key in state if not key.startswith(skipped)}
    tensors = weights_of(name).renamed(_read(path, name))
    tensors = {key: tensor for key, tensor in tensors.items() if not key.startswith(skipped)}
    counters = {key for key in needed - tensors.keys() if key.endswith(".num_batches_tracked")}  # missing in old files
    tensors |= {key: state[key] for key in counters}
    wrong_shape = {key for key in needed & tensors.keys() if tensors[key].shape != state[key].shape}
    for text, keys in (
        ("lacks", needed - tensors.keys()),
        ("has the unknown", tensors.keys() - needed),
        ("has the wrong shape for", wrong_shape),
        ("has NaN or infinite values in", {key for key in tensors if not tensors[key].isfinite().all()}),
    ):
        if keys:
            count = f"{len(keys)} of {len(needed)}" if text == "lacks" else len(keys)
            problem = f"it {text} {count} tensors, first '{min(keys)}'"
            raise BadInput(f"{path} does not fit '{name}': {problem}. {_instead(path, name)}{_published(name)}")
    config, recipe = (None, None) if is_own(name) else (timm.get_pretrained_cfg(name), _recipe(path, name))
    if config is not None and recipe is not None and recipe.partition(".")[2] != config.tag:
        raise BadInput(
            f"{path} is by its name of '{recipe}', another recipe than '{config.architecture}.{config.tag}': set "
            f"backbone: {recipe}, which also has its own preprocessing, or give the weights of '{name}'."
            f"{_published(name)}"
        )
    return tensors


def _published(name: str) -> str:
    """A sentence about the file that a network needs, with a space before it; empty if none is known."""
    file = public_file(name)
    where = "see docs/study-file.md#weights-of-the-papers"
    return f" The published file of '{name}' is {file}: {where}." if file else ""


def _recipe(file: Path, name: str) -> str | None:
    """The pretraining of `name`'s architecture that a file is called after, by timm's name; None if by none.

    >>> _recipe(Path("resnet50-11ad3fa6.pth"), "resnet50.tv_in1k"), _recipe(Path("mine.pth"), "resnet50")
    ('resnet50.tv2_in1k', None)
    >>> _recipe(Path("resnet50-19c8e357.pth"), "resnet50")
    'resnet50.tv_in1k'
    """
    parts = {file.stem, *(part.removeprefix("models--timm--") for part in file.parent.parts)}  # or in the hub's cache
    for recipe in timm.list_pretrained(f"{name.split('.')[0]}.*"):
        if recipe in parts or file.name == public_file(recipe) or _FORMER.get(file.name) == recipe:
            return str(recipe)
    return None


def _is_stored(name: str) -> bool:
    """Whether timm finds the weights in its cache."""
    from huggingface_hub import try_to_load_from_cache

    config = timm.get_pretrained_cfg(name)
    if config is None or not config.hf_hub_id:
        return config is not None and Path(torch.hub.get_dir(), "checkpoints", public_file(name)).is_file()
    repository, _, revision = config.hf_hub_id.partition("@")
    files = (config.hf_hub_filename,) if config.hf_hub_filename else _HUB_FILES
    return any(isinstance(try_to_load_from_cache(repository, file, revision=revision or None), str) for file in files)


def _read(path: Path, name: str) -> Mapping[str, Tensor]:
    if path.is_dir():
        raise BadInput(f"{path} is a folder, not a weights file. {obtain(name)}")
    if not path.is_file():
        raise MissingData(f"The weights file {path} does not exist. {obtain(name)}")
    with path.open("rb") as file:
        pickled = file.read(4).startswith(_PICKLED)
    try:
        return _state_dict(_unpickled(path) if pickled else safetensors.torch.load_file(path), path)
    except (safetensors.SafetensorError, OSError) as error:
        text = f"{path} is neither a safetensors file nor one of torch.save: {error}."
        raise BadInput(f"{text}{_published(name)}") from error
    except BadInput as error:
        raise BadInput(f"{error}{_published(name)}") from error


def _unpickled(path: Path) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file raises almost anything
        if code := re.search(r"GLOBAL [\w.]+|TorchScript", str(error)):
            raise BadInput(
                f"{path} is not a plain state dict: it contains {code[0].removeprefix('GLOBAL ')}, which is not loaded "
                f"because it can run code. Store the tensors alone: torch.save(network.state_dict(), '{path.name}')."
            ) from error
        raise BadInput(f"{path} is damaged or truncated: torch.load cannot read it. Get it again.") from error


def _state_dict(content: Any, path: Path) -> Mapping[str, Tensor]:
    """The content of a file if it is a plain state dict: a tensor for each name."""
    load = f"torch.load('{path.name}', weights_only=True)"
    if not _is_state_dict(content):
        inner = content.items() if isinstance(content, Mapping) else ()
        key = next((key for key, value in inner if _is_state_dict(value)), None)
        hint = "" if key is None else f" One is under '{key}': torch.save({load}['{key}'], 'weights.pth')."
        raise BadInput(f"{path} is not a plain state dict, which has a tensor for each name.{hint}")
    if all(name.startswith("module.") for name in content):
        raise BadInput(
            f"{path} has the names of a network inside DataParallel. Store them without 'module.': torch.save("
            f"{{name.removeprefix('module.'): tensor for name, tensor in {load}.items()}}, 'weights.pth')."
        )
    return content  # type: ignore[no-any-return]


def _is_state_dict(content: Any) -> bool:
    if not isinstance(content, Mapping) or not content:
        return False
    return all(isinstance(name, str) and isinstance(tensor, Tensor) for name, tensor in content.items())


def _instead(path: Path, name: str) -> str:
    """What to do about a file that does not fit: the network that it is called after, or the weights of `name`."""
    by_file = {public_file(network): network for network in networks.names()}
    network = by_file.get(path.name, re.split(r"[.-]", path.stem)[0])
    if network != name.split(".")[0] and (network in networks or timm.is_model(network)):
        backbone = _recipe(path, network) or network
        return f"By its name it is of '{network}': set backbone: {backbone}, or give weights of '{name}'."
    return f"Give weights of '{name}'{'' if is_own(name) else ', under the names that timm uses'}."
