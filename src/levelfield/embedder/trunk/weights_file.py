"""Weights of a network from a safetensors file, refused if they are those of another network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import safetensors.torch
from torch import Tensor

from levelfield.errors import BadInput, MissingData

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
    kept = {key: tensor for key, tensor in renamed(_read(path)).items() if not key.startswith(skipped)}
    counters = {key for key in needed - kept.keys() if key.endswith(".num_batches_tracked")}  # missing in old files
    kept |= {key: own[key] for key in counters}
    for text, keys in (
        ("lacks", needed - kept.keys()),
        ("has the unknown", kept.keys() - needed),
        ("has the wrong shape for", {key for key in needed & kept.keys() if kept[key].shape != own[key].shape}),
    ):
        if keys:
            of = f" of {len(needed)}" if text == "lacks" else ""
            raise BadInput(
                f"{path} does not fit '{name}': it {text} {len(keys)}{of} tensors, first '{min(keys)}'. "
                f"{_instead(path, name)}"
            )
    return kept


def _read(path: Path) -> Mapping[str, Tensor]:
    if not path.is_file():
        raise MissingData(f"The weights file {path} does not exist.")
    try:
        return safetensors.torch.load_file(path)
    except (safetensors.SafetensorError, OSError) as error:
        if _pickled(path):
            raise BadInput(
                f"{path} was written by torch.save, and such files are not read because they can contain code. Convert "
                f"it to safetensors: safetensors.torch.save_file(torch.load('{path.name}', weights_only=True), "
                f"'{path.stem}.safetensors')"
            ) from error
        raise BadInput(f"{path} cannot be read as a safetensors file: {error}.") from error


def _pickled(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4).startswith(_PICKLED)


def _instead(path: Path, name: str) -> str:
    """The network that the file is called after, or where the names of the tensors come from."""
    import timm

    called = path.stem.split(".")[0]
    if called != name.split(".")[0] and timm.is_model(called):
        return f"By its name it is of '{called}': set backbone: {called}, or give weights of '{name}'."
    return f"Give weights of '{name}'{', under the names that timm uses' if timm.is_model(name) else ''}."
