"""Weights of a network from a file of safetensors or torch.save, refused if they are those of another network."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from levelfield.embedder.networks._registry import networks
from levelfield.embedder.trunk.weights_source import is_own, obtain, public_file, published, recipe
from levelfield.errors import BadInput, MissingData

import timm  # isort: skip

_PICKLED = (b"PK\x03\x04", b"\x80\x02")  # the first bytes of what torch.save writes, and wrote before version 1.6


def fitting(
    path: Path,
    name: str,
    own: Mapping[str, Tensor],
    renamed: Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]],
    unused: Iterable[str],
) -> dict[str, Tensor]:
    """The tensors of a file, with the names and shapes of `own`, the state dict of the network `name`.

    unused: layers of the classifier, which is not needed and depends on the number of classes.
    """
    skipped = tuple(f"{layer}." for layer in unused)
    needed = {key for key in own if not key.startswith(skipped)}
    kept = {key: tensor for key, tensor in renamed(_read(path, name)).items() if not key.startswith(skipped)}
    counters = {key for key in needed - kept.keys() if key.endswith(".num_batches_tracked")}  # missing in old files
    kept |= {key: own[key] for key in counters}
    for text, keys in (
        ("lacks", needed - kept.keys()),
        ("has the unknown", kept.keys() - needed),
        ("has the wrong shape for", {key for key in needed & kept.keys() if kept[key].shape != own[key].shape}),
        ("has NaN or infinite values in", {key for key in kept if not kept[key].isfinite().all()}),
    ):
        if keys:
            of = f" of {len(needed)}" if text == "lacks" else ""
            raise BadInput(
                f"{path} does not fit '{name}': it {text} {len(keys)}{of} tensors, first '{min(keys)}'. "
                f"{_instead(path, name)}"
            )
    _check_recipe(path, name)
    return kept


def _read(path: Path, name: str) -> Mapping[str, Tensor]:
    if path.is_dir():
        raise BadInput(f"{path} is a folder, not a weights file. {obtain(name)}")
    if not path.is_file():
        raise MissingData(f"The weights file {path} does not exist. {obtain(name)}")
    with path.open("rb") as file:
        pickled = file.read(4).startswith(_PICKLED)
    try:
        return _plain(_unpickled(path) if pickled else safetensors.torch.load_file(path), path)
    except (safetensors.SafetensorError, OSError) as error:
        raise BadInput(
            f"{path} is neither a safetensors file nor one of torch.save: {error}.{published(name)}"
        ) from error
    except BadInput as error:
        raise BadInput(f"{error}{published(name)}") from error


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


def _plain(content: Any, path: Path) -> Mapping[str, Tensor]:
    """The content of a file if it is a plain state dict: a tensor for each name."""
    load = f"torch.load('{path.name}', weights_only=True)"
    if _is_plain(content) and all(name.startswith("module.") for name in content):
        raise BadInput(
            f"{path} has the names of a network inside DataParallel. Store them without 'module.': torch.save("
            f"{{name.removeprefix('module.'): tensor for name, tensor in {load}.items()}}, 'weights.pth')."
        )
    if _is_plain(content):
        return content  # type: ignore[no-any-return]
    inside = [key for key, value in content.items() if _is_plain(value)] if isinstance(content, Mapping) else []
    raise BadInput(
        f"{path} is not a plain state dict, which has a tensor for each name."
        + (f" One is under '{inside[0]}': torch.save({load}['{inside[0]}'], 'weights.pth')." if inside else "")
    )


def _is_plain(content: Any) -> bool:
    return (
        isinstance(content, Mapping)
        and len(content) > 0
        and all(isinstance(name, str) and isinstance(tensor, Tensor) for name, tensor in content.items())
    )


def _check_recipe(path: Path, name: str) -> None:
    """Refuse weights that are called after another pretraining of the same network."""
    if is_own(name):
        return
    own, called = timm.get_pretrained_cfg(name), recipe(path, name)
    if own is not None and called is not None and called.partition(".")[2] != own.tag:
        raise BadInput(
            f"{path} is by its name of '{called}', another recipe than '{own.architecture}.{own.tag}': set backbone: "
            f"{called}, which also has its own preprocessing, or give the weights of '{name}'.{published(name)}"
        )


def _instead(path: Path, name: str) -> str:
    """The network that the file is called after, and where the weights of `name` are."""
    by_file = {public_file(network): network for network in networks.names() if public_file(network)}
    called = by_file.get(path.name, re.split(r"[.-]", path.stem)[0])
    if called != name.split(".")[0] and (called in networks or timm.is_model(called)):
        other = recipe(path, called) or called
        return f"By its name it is of '{called}': set backbone: {other}, or give weights of '{name}'.{published(name)}"
    names = "" if is_own(name) else ", under the names that timm uses"
    return f"Give weights of '{name}'{names}.{published(name)}"
