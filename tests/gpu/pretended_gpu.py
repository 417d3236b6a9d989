"""A pretended CUDA device: a pytest plugin (`-p pretended_gpu`) that must be imported before torch.

Tensors on "cuda" say that they are there, and autograd runs as for CUDA, but their numbers are computed on the CPU. It
refuses what CUDA refuses: tensors of two devices in one operation, NumPy, generators of the CPU, products of integers.
`waits()` lists where the host would wait for the device. It cannot show speed, memory, streams, TF32, several devices
or the order of atomic sums.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def _load_guard() -> None:
    if "torch" in sys.modules:
        raise RuntimeError("The pretended GPU must be imported before torch: pytest -p pretended_gpu.")
    if shutil.which("g++") is None:
        raise RuntimeError("The tests of tests/gpu need g++ to build tests/gpu/guard.cpp. Install g++ (package g++).")
    torch_home = Path(str(importlib.util.find_spec("torch").origin)).parent
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/guard.so"
        flags = ["-std=c++20", "-shared", "-fPIC", f"-I{torch_home}/include", f"-L{torch_home}/lib"]
        links = ["-lc10", "-ltorch_cpu", f"-Wl,-rpath,{torch_home}/lib", "-o", library]
        subprocess.run(["g++", *flags, str(HERE / "guard.cpp"), *links], check=True)
        ctypes.CDLL(library).register_guard()


_load_guard()

import torch  # noqa: E402
from cuda_rules import refuse, wait_of, written  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves, tree_map  # noqa: E402

import levelfield  # noqa: E402

SOURCE = str(Path(levelfield.__file__).parent) + "/"
DEVICE = torch.device("cuda", 0)

_waits: list[str] = []
_refuse_float64 = False
_load_to: Any = None
_status = 0


@contextmanager
def waits() -> Iterator[list[str]]:
    """The waits of the host inside the context: "file.py:line what", in order."""
    global _waits
    before, _waits = _waits, []
    try:
        yield _waits
    finally:
        _waits = before


@contextmanager
def without_float64() -> Iterator[None]:
    """A device that has no float64, as Apple's."""
    global _refuse_float64
    _refuse_float64 = True
    try:
        yield
    finally:
        _refuse_float64 = False


def _wait(what: str) -> None:
    frame = sys._getframe(1)
    while frame is not None and not frame.f_code.co_filename.startswith(SOURCE):
        frame = frame.f_back  # type: ignore[assignment]
    where = "outside levelfield" if frame is None else f"{frame.f_code.co_filename[len(SOURCE) :]}:{frame.f_lineno}"
    _waits.append(f"{where} {what}")


class OnDevice(torch.Tensor):
    """A tensor that claims to be on cuda:0 and holds a tensor of the CPU."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> OnDevice:
        assert type(held) is torch.Tensor, type(held)
        if _refuse_float64 and held.dtype == torch.float64:
            raise TypeError("Cannot convert a MPS Tensor to float64 dtype.")
        like = {"strides": held.stride(), "storage_offset": held.storage_offset(), "layout": held.layout}
        tensor = torch.Tensor._make_wrapper_subclass(cls, held.size(), dtype=held.dtype, device=DEVICE, **like)
        tensor.held = held
        return tensor

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})

    def __tensor_flatten__(self):  # with it nn.Module.to keeps its parameter objects, as on a real device
        return ["held"], None

    @staticmethod
    def __tensor_unflatten__(inner, meta, size, stride):
        return OnDevice(inner["held"])

    def numpy(self, *, force: bool = False):
        if force:
            return self.detach().cpu().numpy()
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first.")

    def __array__(self, *_, **__):
        return self.numpy()

    def tolist(self):
        _wait("tolist")
        return self.held.tolist()

    def data_ptr(self) -> int:
        return self.held.data_ptr()

    def untyped_storage(self):
        return self.held.untyped_storage()

    @property
    def data(self):
        return self.detach()

    @data.setter
    def data(self, value):
        torch.Tensor.data.__set__(self, value)
        self.held = value.held

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = _rebuilt(self.held.detach().clone(), self.requires_grad, _is_parameter(self), DEVICE)
        return memo[id(self)]

    def __reduce_ex__(self, protocol):
        _wait("saved")
        return _rebuilt, (self.held.detach(), self.requires_grad, _is_parameter(self))

    def __repr__(self, **_):
        return f"{self.held!r} on {self.device}"


def _is_parameter(tensor: torch.Tensor) -> bool:
    return bool(getattr(tensor, "_is_param", False))


def _rebuilt(held: torch.Tensor, requires_grad: bool, is_parameter: bool, device: Any = None) -> torch.Tensor:
    target = device or _load_to
    on_cpu = target is not None and torch.device(target).type == "cpu"
    if on_cpu:
        return torch.nn.Parameter(held, requires_grad) if is_parameter else held.requires_grad_(requires_grad)
    tensor = OnDevice(held).requires_grad_(requires_grad)
    if is_parameter:
        tensor._is_param = True
    return tensor


class _Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})


def _run(func, args, kwargs):
    leaves = tree_leaves((args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    here = [tensor for tensor in tensors if isinstance(tensor, OnDevice)]
    device = kwargs.get("device")
    to_device = bool(here) if device is None else torch.device(device).type == "cuda"
    if not here and not to_device:
        return func(*args, **kwargs)
    name = func._schema.name.removeprefix("aten::")
    refuse(func, name, args, kwargs, here, [tensor for tensor in tensors if not isinstance(tensor, OnDevice)])
    if to_device and any(isinstance(leaf, torch.Generator) and leaf.device.type == "cpu" for leaf in leaves):
        raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")
    if reason := wait_of(name, args, kwargs, to_device):
        _wait(reason)
    if name == "_fused_sdp_choice":
        return 0
    if name == "is_pinned":
        return False
    if name == "_efficientzerotensor":  # it has no memory that could be held
        func = torch.ops.aten.zeros.default
    held_args, held = tree_map(lambda leaf: leaf.held if isinstance(leaf, OnDevice) else leaf, (args, kwargs))
    held.update({key: False for key in ("pin_memory", "non_blocking") if held.get(key)})
    if device is not None:
        held["device"] = torch.device("cpu")
    result = func(*held_args, **held)
    changed = written(func, args, kwargs)
    several = len(func._schema.returns) > 1
    outputs = []
    for returned, value in zip(func._schema.returns, result if several else [result], strict=False):
        if returned.alias_info is not None and returned.alias_info.is_write:  # in place: the argument itself
            outputs.append(changed[next(iter(returned.alias_info.before_set))])
        elif to_device:
            outputs.append(tree_map(lambda leaf: OnDevice(leaf) if type(leaf) is torch.Tensor else leaf, value))
        else:
            outputs.append(value)
    return tuple(outputs) if several else outputs[0] if outputs else None


def _believe() -> None:
    """Let torch.cuda and the loading of files know the device."""
    fixed = {"is_available": True, "is_initialized": True, "device_count": 1, "current_device": 0}
    fixed |= {"get_device_name": "Pretended GPU", "get_device_capability": (8, 0), "is_bf16_supported": True}
    fixed |= {"max_memory_allocated": 1 << 20, "memory_allocated": 1 << 20, "mem_get_info": (1 << 33, 1 << 34)}
    for name, value in fixed.items():
        setattr(torch.cuda, name, lambda *_, _value=value, **__: _value)
    for name in ("_lazy_init", "set_device", "empty_cache", "manual_seed_all", "reset_peak_memory_stats"):
        setattr(torch.cuda, name, lambda *_, **__: None)
    torch.Tensor.pin_memory = lambda tensor, *_: tensor
    torch.cuda.get_rng_state_all = list
    torch.cuda.synchronize = lambda *_: _wait("synchronize")
    torch._C._set_only_lift_cpu_tensors(True)
    compatible = torch._has_compatible_shallow_copy_type
    torch._has_compatible_shallow_copy_type = lambda *tensors: (  # if not, Module.cpu makes new parameters
        len({isinstance(tensor, OnDevice) for tensor in tensors}) == 1 and compatible(*tensors)
    )
    torch.serialization.add_safe_globals([_rebuilt, OnDevice])
    load = torch.load

    def loaded(*args, **kwargs):
        global _load_to
        _load_to = kwargs.get("map_location")
        try:
            return load(*args, **kwargs)
        finally:
            _load_to = None

    torch.load = loaded
    from torch.utils import _foreach_utils

    _foreach_utils._foreach_supported_types.append(OnDevice)


def _be_in_every_thread() -> None:
    """A dispatch mode is that of one thread: enter it in this one and in those that start later."""
    run = threading.Thread.run

    def on_device(thread: threading.Thread) -> None:
        with _Mode():
            run(thread)

    threading.Thread.run = on_device
    _Mode().__enter__()


_believe()
_be_in_every_thread()


def pytest_sessionfinish(exitstatus: int) -> None:
    global _status
    _status = int(exitstatus)


def pytest_unconfigure() -> None:
    """Leave at once: autograd's thread for the device cannot be joined."""
    sys.stdout.flush()
    os._exit(_status)
