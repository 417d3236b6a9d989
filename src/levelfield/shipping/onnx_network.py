"""The network of an ONNX file, in a process of its own: a file from elsewhere may ask for any memory and any time."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import Pipe
from pathlib import Path
from signal import SIGALRM
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelfield.distributed.processes import end_of
from levelfield.errors import Damaged, MissingExtra
from levelfield.files.reading import MEGABYTE
from levelfield.shipping import onnx_process
from levelfield.shipping.onnx_process import receive_numbers, send_array

_MEMORY = 8_000 * MEGABYTE  # of the process
_SECONDS = 60  # to open a file, and per image; the largest networks take about 1
# The key of a file with weights outside of the model, after its length: 8, or 8 written in more bytes, which end in 0.
_EXTERNAL = (b"\x08location", b"\x00location")


class Network:
    """A network in a process that ends when it takes too much memory or time, or when nobody uses the object any more.

    shapes: those of its inputs and outputs by name; a size left open is a name or None.
    """

    def __init__(self, content: bytes, path: Path, *, threads: int = 0) -> None:
        if importlib.util.find_spec("onnxruntime") is None:
            problem = f"{path.name} is computed by onnxruntime, which is not installed"
            raise MissingExtra(f'{problem}: pip install "levelfield[onnx]"')
        if any(key in content for key in _EXTERNAL):
            raise Damaged(f"{path} names other files with its weights; an exported model has them inside.")
        self._path, self._one_at_a_time = path, Lock()
        self._pipe, theirs = Pipe()
        settings = {"handle": theirs.fileno(), "memory": _MEMORY, "seconds": _SECONDS, "threads": threads}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", onnx_process.__file__, json.dumps(settings)],
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for this process
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        weakref.finalize(self, _end, self._process)
        facts = self._answer("is not a valid ONNX file", _SECONDS, lambda: self._pipe.send_bytes(content))
        self.shapes: dict[str, list[Any]] = {name: sizes for name, *sizes in facts["tensors"]}

    def rows(self, images: NDArray[np.float32], dim: int) -> NDArray[np.float32]:
        """Rows (images, dim) of normalised images."""
        with self._one_at_a_time:
            seconds = _SECONDS * len(images)
            facts = self._answer("cannot be computed", seconds, lambda: send_array(self._pipe, images))
            if facts["shape"] != [len(images), dim]:
                _end(self._process)
                raise Damaged(f"{self._path} gives rows of the shape {facts['shape']} for {len(images)} images.")
            return receive_numbers(self._pipe, facts["shape"])

    def _answer(self, failure: str, seconds: float, ask: Callable[[], None]) -> dict[str, Any]:
        """The process's answer to a question; an error ends the process."""
        try:
            with suppress(BrokenPipeError):  # it may have answered before it ended
                ask()
            facts: dict[str, Any] = json.loads(self._pipe.recv_bytes())
            if "error" not in facts:
                return facts
            reason = facts["error"]
        except (EOFError, OSError):
            code = _end(self._process)
            reason = f"it takes more than {seconds:g} s" if code == -SIGALRM else end_of(code)
        except BaseException:  # such as Ctrl-C: the answer to this question would be taken for one to the next
            _end(self._process)
            raise
        raise Damaged(f"{self._path} {failure}: {reason}")


def _end(process: subprocess.Popen[bytes]) -> int:
    process.kill()
    return process.wait()
