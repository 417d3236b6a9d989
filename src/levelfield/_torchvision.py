"""Import torchvision and timm quickly, also when torchvision's compiled operators do not match the installed torch.

With a CPU-only torch, torchvision from PyPI cannot load its compiled operators and fails with "operator
torchvision::nms does not exist". levelfield uses none of them, so declaring the two names is enough. Import this module
before torchvision or timm.

Both packages import torch's compiler (`torch._dynamo`, longer than torch itself) only to mark functions for it. While
they are imported, an almost empty module takes its place, which marks a function when it is first called; who compiles
later gets the real one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch

_COMPILER = "torch._dynamo"
_PACKAGES = ("torchvision", "timm")


def _disable_later(function: Callable[..., Any] | None = None, recursive: bool = True, *, reason: object = None) -> Any:
    """Like `torch._dynamo.disable`, but the compiler is imported when the function is first called."""
    return torch._disable_dynamo(function, recursive)  # type: ignore[attr-defined]


def _is_compile_supported(device: str) -> bool:
    from torch._dynamo.utils import is_compile_supported

    return bool(is_compile_supported(device))


@contextmanager
def _without_compiler() -> Iterator[None]:
    if _COMPILER in sys.modules:
        yield
        return
    package, inner = ModuleType(_COMPILER), ModuleType(f"{_COMPILER}.utils")
    package.__dict__.update(__path__=[], utils=inner, disable=_disable_later)
    inner.__dict__.update(is_compile_supported=_is_compile_supported)
    sys.modules |= {_COMPILER: package, f"{_COMPILER}.utils": inner}
    try:
        yield
    finally:
        for name in [name for name, module in sys.modules.items() if module in (package, inner)]:
            del sys.modules[name]


def _forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in _PACKAGES]:
        del sys.modules[name]


def _import_both() -> None:
    try:
        import torchvision
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
        for name in [name for name in sys.modules if name == "torchvision" or name.startswith("torchvision.")]:
            del sys.modules[name]
        _declare()
        import torchvision
    import timm  # noqa: F401
    import torchvision.transforms.v2.functional  # noqa: F401


def _declare() -> None:
    global _declared
    if _declared is None:
        _declared = torch.library.Library("torchvision", "DEF")
        _declared.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _declared.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


_declared: torch.library.Library | None = None
try:
    with _without_compiler():
        _import_both()
except (AttributeError, ImportError, TypeError):  # another version needs more of the compiler
    _forget()
    _import_both()
