"""Weights of an ONNX file in 8 bits: a quarter of the size, computed in float32.

Only weights are rounded. Rounding what flows through the network as well needs either its ranges, measured on images
beforehand, or ranges of each batch, with which an embedding depends on the other images of its batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# Numbers behind one output. Errors of few numbers do not average out: with the depthwise convolutions of the demo's
# network (9 or 25 numbers, 6 % of all weights) rounded, too, its rows differ three times as much.
LEAST = 32
_LEVELS = 127  # symmetric: -127 to 127


def with_int8_weights(content: bytes) -> bytes:
    """The same network; weights of convolutions and products are stored as int8 with one scale for each output."""
    import onnx
    from onnx import numpy_helper

    model = onnx.load_from_string(content)
    graph = model.graph
    stored = {one.name: one for one in graph.initializer}
    restored = []
    for name, axis in _weights(graph).items():
        numbers: NDArray[Any] = numpy_helper.to_array(stored[name]) if name in stored else np.zeros(0)
        if numbers.dtype != np.float32 or numbers.size < LEAST * numbers.shape[axis]:
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
    found: dict[str, int] = {}
    for node in graph.node:
        if node.op_type == "Conv":
            found[node.input[1]] = 0
        elif node.op_type == "Gemm":
            turned = any(one.name == "transB" and one.i for one in node.attribute)
            found[node.input[1]] = 0 if turned else 1
        elif node.op_type == "MatMul":
            found[node.input[1]] = -1
    return found
