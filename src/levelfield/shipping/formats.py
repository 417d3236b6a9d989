"""The formats of an exported model: the plain network that is written, and how each file is written and read again."""

from __future__ import annotations

import contextlib
import copy
import io
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from levelfield.embedder import Embedder, Ensemble, Model
from levelfield.embedder import load as load_run
from levelfield.embedder.devices import requested, usable
from levelfield.embedder.ensemble import copy_model
from levelfield.errors import BadInput
from levelfield.files.writing import write_whole
from levelfield.shipping.description import INPUT, OUTPUT, View, read_description, view_of
from levelfield.shipping.onnx_model import load_onnx

OPSET = 17  # of September 2022: the first with a layer norm; onnxruntime 1.13 and later read it
_EXAMPLES = 2  # images that a network is traced with
# Numbers behind one output. Errors of few numbers do not average out: with the depthwise convolutions of the demo's
# network (9 or 25 numbers, 6 % of all weights) rounded, too, its rows differ three times as much.
_MIN_SUMMANDS = 32
_LEVELS = 127  # symmetric: -127 to 127

Rows = NDArray[np.float32]
RowsOf = Callable[[Rows], Rows]
"""A network that was read again: normalised images (images, 3, side, side) to raw rows (images, dim)."""


class PlainNetwork(nn.Module):
    """images (batch, 3, side, side) -> raw rows (batch, dim), for any batch. A copy: the model stays as it is.

    Members of an ensemble with the same layers below the cut share them.
    """

    def __init__(self, model: Model | Ensemble) -> None:
        super().__init__()
        models = (model,) if isinstance(model, Model) else model.models
        self.owners = [0] if isinstance(model, Model) else [owner for _, owner in model.shared_below]
        self.model = model
        self.embedders: Sequence[Embedder] = nn.ModuleList(  # type: ignore[assignment]
            copy.deepcopy(single.embedder) for single in models
        )
        for number, (embedder, owner) in enumerate(zip(self.embedders, self.owners, strict=True)):
            if owner != number:
                for piece in (prefix.split(".")[1] for prefix in embedder.trunk.frozen_prefixes):
                    embedder.trunk.pieces[piece] = self.embedders[owner].trunk.pieces[piece]
        side = common_view(model).image
        for module in self.modules():
            # a vision transformer resamples its positions for every batch, with an operator that few formats have
            if getattr(module, "dynamic_img_size", False) and callable(resize := getattr(module, "set_input_size", 0)):
                resize(img_size=(side, side))
        self.eval().requires_grad_(False)
        _fix_masks(self, side)

    def forward(self, images: Tensor) -> Tensor:
        below: dict[int, tuple[Tensor, ...]] = {}
        rows = []
        for embedder, owner in zip(self.embedders, self.owners, strict=True):
            if owner not in below:
                below[owner] = embedder.trunk.below(images)
            rows.append(embedder.coded(embedder.head(embedder.trunk.above(*below[owner]))))
        return _joined(self.model, iter(rows))


def _fix_masks(network: nn.Module, side: int) -> None:
    """Compute the masks of shifted windows (Swin) once: they depend on the size of the map alone, and computing them
    for every batch needs operators that few formats have."""
    blocks = [module for module in network.modules() if getattr(module, "dynamic_mask", False)]

    def fix(block: Any, inputs: tuple[Tensor, ...]) -> None:
        lengths = inputs[0].shape[1:3]
        sides = [-(-length // size) * size for length, size in zip(lengths, block.window_size, strict=True)]  # padded
        mask = block.get_attn_mask(inputs[0].new_zeros(1, *sides, 1))
        vars(block).pop("attn_mask", None)
        block.register_buffer("attn_mask", mask, persistent=False)
        block.dynamic_mask = False
        # ONNX rolls by less than a length only
        block.shift_size = tuple(shift % length for shift, length in zip(block.shift_size, lengths, strict=True))

    if blocks:
        hooks = [block.register_forward_pre_hook(fix) for block in blocks]
        with torch.no_grad():
            network(torch.zeros(1, 3, side, side))
        for hook in hooks:
            hook.remove()


def common_view(model: Model | Ensemble) -> View:
    """The test view of a model, as plain data can describe it."""
    view = model.view
    if not isinstance(view, View):
        raise BadInput(f"A view of the class {type(view).__name__} cannot be described beside an exported model.")
    return view


def noise(view: View, count: int) -> Tensor:
    """Normalised images of random pixels."""
    return torch.randn(count, 3, view.image, view.image, generator=torch.Generator().manual_seed(0))


def _joined(model: Model | Ensemble, rows: Iterator[Tensor]) -> Tensor:
    """Like `evaluation.joined`: unit rows of the members side by side. rows: of the single models, in their order."""
    if isinstance(model, Model):
        return next(rows)
    return torch.cat([functional.normalize(_joined(member, rows), dim=1) for member in model.members], dim=1)


@dataclass(frozen=True)
class Format:
    """file: what model.json describes; write: of (run folder, network, view, folder, int8); read: the rows and
    the view, both from the written folder."""

    file: str
    write: Callable[[Path, PlainNetwork, View, Path, bool], None]
    read: Callable[[Path], tuple[RowsOf, View]]
    needs: tuple[str, ...] = ()


def _write_onnx(run: Path, network: PlainNetwork, view: View, folder: Path, int8: bool) -> None:
    written = io.BytesIO()
    with _tracing("ONNX"):
        torch.onnx.export(
            network,
            (noise(view, _EXAMPLES),),
            written,
            dynamo=False,  # torch.export takes 20 times as long, and fixes the batch to that of the example
            opset_version=OPSET,
            input_names=[INPUT],
            output_names=[OUTPUT],
            dynamic_axes={INPUT: {0: "batch"}, OUTPUT: {0: "batch"}},
        )
    content = with_int8_weights(written.getvalue()) if int8 else written.getvalue()
    write_whole(folder / "model.onnx", lambda file: file.write(content))


def _read_onnx(folder: Path) -> tuple[RowsOf, View]:
    model = load_onnx(folder / "model.onnx")
    return model.rows, model.view


def _write_torchscript(run: Path, network: PlainNetwork, view: View, folder: Path, int8: bool) -> None:
    with _tracing("TorchScript"):
        traced = torch.jit.trace(network, noise(view, _EXAMPLES), check_trace=False)
        written = io.BytesIO()
        torch.jit.save(traced, written)
    write_whole(folder / "model.pt", lambda file: file.write(written.getvalue()))


def _read_torchscript(folder: Path) -> tuple[RowsOf, View]:
    path, device = folder / "model.pt", torch.device(usable(requested()))
    with _tracing("TorchScript"):
        network = torch.jit.load(path, map_location=device)
    return _rows_of(network, device), view_of(read_description(path, path.read_bytes()), path)


def _write_safetensors(run: Path, network: PlainNetwork, view: View, folder: Path, int8: bool) -> None:
    copy_model(run, folder)


def _read_safetensors(folder: Path) -> tuple[RowsOf, View]:
    model = load_run(folder, device=requested())
    return _rows_of(PlainNetwork(model), model.device), common_view(model)


FORMATS = {
    "onnx": Format("model.onnx", _write_onnx, _read_onnx, needs=("onnx", "onnxruntime")),
    "torchscript": Format("model.pt", _write_torchscript, _read_torchscript),
    "safetensors": Format("model.yaml", _write_safetensors, _read_safetensors),
}


def _rows_of(network: Callable[[Tensor], Tensor], device: torch.device) -> RowsOf:
    def rows(images: Rows) -> Rows:
        with torch.no_grad():
            return np.asarray(network(torch.from_numpy(images).to(device)).cpu().numpy())

    return rows


def with_int8_weights(content: bytes) -> bytes:
    """The same network; weights of convolutions and products are stored as int8 with one scale for each output.

    Only weights are rounded, and everything is computed in float32. Rounding what flows through the network needs
    either its ranges, measured beforehand, or ranges of each batch, on which an embedding would then depend.
    """
    import onnx
    from onnx import numpy_helper

    model = onnx.load_from_string(content)
    graph = model.graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    restored = []
    for name, axis in _weights(graph).items():
        numbers: NDArray[Any] = numpy_helper.to_array(stored[name]) if name in stored else np.zeros(0)
        if numbers.dtype != np.float32 or numbers.size < _MIN_SUMMANDS * numbers.shape[axis]:
            continue
        rounded, scale = rounded_weight(numbers, axis % numbers.ndim)
        parts: dict[str, NDArray[Any]] = {
            f"{name}_int8": rounded,
            f"{name}_scale": scale,
            f"{name}_zero": np.zeros(len(scale), np.int8),
        }
        graph.initializer.remove(stored[name])
        graph.initializer.extend(numpy_helper.from_array(array, part) for part, array in parts.items())
        restored.append(onnx.helper.make_node("DequantizeLinear", list(parts), [name], axis=axis % numbers.ndim))
    for node in reversed(restored):
        graph.node.insert(0, node)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def rounded_weight(weight: NDArray[np.float32], axis: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """int8 numbers and one scale for each place along `axis`: weight = numbers * scale, within half a scale.

    >>> numbers, scale = rounded_weight(np.array([[1.0, -0.5], [0.0, 0.0]], dtype=np.float32), 0)
    >>> numbers.tolist(), scale.round(4).tolist()
    ([[127, -64], [0, 0]], [0.007899999618530273, 1.0])
    """
    others = tuple(k for k in range(weight.ndim) if k != axis)
    largest = np.abs(weight).max(axis=others)
    scale = np.where(largest > 0, largest / np.float32(_LEVELS), np.float32(1)).astype(np.float32)
    along = scale.reshape([-1 if k == axis else 1 for k in range(weight.ndim)])
    return np.rint(weight / along).clip(-_LEVELS, _LEVELS).astype(np.int8), scale


def _weights(graph: Any) -> dict[str, int]:
    """The axis of the outputs of each weight, by name."""
    axes: dict[str, int] = {}
    for node in graph.node:
        if node.op_type == "Conv":
            axes[node.input[1]] = 0
        elif node.op_type == "Gemm":
            turned = any(attribute.name == "transB" and attribute.i for attribute in node.attribute)
            axes[node.input[1]] = 0 if turned else 1
        elif node.op_type == "MatMul":
            axes[node.input[1]] = -1
    return axes


@contextlib.contextmanager
def _tracing(name: str) -> Iterator[None]:
    """Without the exporter's warnings (the result is checked with several batches), and with one sentence for an error
    instead of the whole graph, which torch prints."""
    sys.stdout.flush()
    before = os.dup(1)  # C++ code prints to this file and does not know `sys.stdout`
    try:
        with open(os.devnull, "wb") as nowhere, warnings.catch_warnings(), torch.no_grad():
            os.dup2(nowhere.fileno(), 1)
            warnings.simplefilter("ignore")
            yield
    except (RuntimeError, TypeError, ValueError) as error:  # torch.onnx.errors are RuntimeErrors
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise BadInput(f"This network cannot be written as {name}: {reason}") from error
    finally:
        os.dup2(before, 1)
        os.close(before)
