"""A script that `onnx_network` runs: one ONNX network in a process that limits its own memory and time.

A file from elsewhere may ask for any amount of both, also inside one node, which onnxruntime itself does not stop. The
script answers its caller through a pipe, in JSON and bytes.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray


def serve(handle: int, *, memory: int, seconds: float, threads: int) -> None:
    """Open the network whose bytes arrive, answer with its inputs and outputs, then compute blocks of images.

    handle: of the pipe. memory: in bytes. seconds: to open the network, and for each image. threads: 0: one per core.
    """
    import onnxruntime

    pipe = Connection(handle)
    content = pipe.recv_bytes()
    signal.setitimer(signal.ITIMER_REAL, seconds)  # its signal ends the process
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (memory if most < 0 else min(memory, most), most))
    try:
        session = _opened(onnxruntime, content, threads)
        tensors = (*session.get_inputs(), *session.get_outputs())
        _send(pipe, {"tensors": [[tensor.name, *tensor.shape] for tensor in tensors]})
        del content
        while True:
            signal.setitimer(signal.ITIMER_REAL, 0)
            images = receive_numbers(pipe, json.loads(pipe.recv_bytes())["shape"])
            signal.setitimer(signal.ITIMER_REAL, seconds * len(images))
            send_array(pipe, session.run(None, {tensors[0].name: images})[0])
    except EOFError:  # the caller has what it wants
        return
    except Exception as error:  # onnxruntime's errors have no common class of their own
        text = " ".join(str(error).splitlines()[:1])
        lacking = isinstance(error, MemoryError) or "alloc" in text
        _send(pipe, {"error": f"it takes more than {memory / 1e9:g} GB of memory" if lacking else text})


def _opened(onnxruntime: Any, content: bytes, threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.load_model_format", "ONNX")  # and not onnxruntime's own
    # weights in 8 bits become numbers once, when the file is opened, and not for every batch
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    # waiting threads sleep: other programs need the cores between two images
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    providers = ["CPUExecutionProvider"]  # without the fallback to another one, which would try everything again
    return onnxruntime.InferenceSession(content, options, providers=providers, enable_fallback=False)


def send_array(pipe: Connection, array: NDArray[Any]) -> None:
    """Send the shape of an array, then its numbers in float32."""
    numbers = np.ascontiguousarray(array, dtype=np.float32)
    _send(pipe, {"shape": numbers.shape})
    pipe.send_bytes(numbers.data)


def receive_numbers(pipe: Connection, shape: list[int]) -> NDArray[np.float32]:
    """The numbers of an array of this shape."""
    return np.frombuffer(pipe.recv_bytes(), dtype=np.float32).reshape(shape)


def _send(pipe: Connection, facts: dict[str, Any]) -> None:
    pipe.send_bytes(json.dumps(facts).encode())


if __name__ == "__main__":
    serve(**json.loads(sys.argv[1]))
