"""`levelfield.load`: the model of a run, or an exported ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from levelfield.embedder.devices import AUTO
from levelfield.errors import BadInput
from levelfield.shipping.onnx_model import SUFFIX, OnnxModel, load_onnx

if TYPE_CHECKING:
    from torch import nn

    from levelfield.embedder import Ensemble, Model


def load(folder: Path | str, *, device: str = "cpu", head: nn.Module | None = None) -> Model | Ensemble | OnnxModel:
    """The model in `folder`, ready to embed images: `load("runs/demo").embed(["a.jpg"])`.

    Nothing is downloaded: the folder holds every weight. Files whose checksum differs are refused. Code that the folder
    names is not run: a backbone from your own file needs `with levelfield.trusting(FILE):`.

    Args:
        folder: of a run, or of a study, meaning its best run (`runs/demo`, or `runs/demo/best`); or a file model.onnx
            of `levelfield export` (or its folder), which is used without importing torch.
        device: where the model computes, as torch names it: "cpu", "cuda:0"; "auto": CUDA, else MPS,
            else the CPU. An ONNX file computes on the CPU.
        head: needed only for a model with a custom head; its weights are read from the folder.

    Returns:
        A `Model`; of a run that joins several runs an `Ensemble`; of an ONNX file an `OnnxModel`. All have `embed`.
    """
    exported = Path(folder) / f"model{SUFFIX}"
    if exported.is_file() and not (Path(folder) / "model.yaml").exists():
        folder = exported
    if Path(folder).suffix.lower() != SUFFIX:
        from levelfield.embedder import load as load_run

        return load_run(folder, device=device, head=head)
    if device not in ("cpu", AUTO):
        raise BadInput(f"{folder} computes on the CPU, not on '{device}': leave out the device.")
    if head is not None:
        raise BadInput(f"{folder} holds the whole model: leave out the head.")
    return load_onnx(Path(folder))
