"""Networks whose weights are counted, or filled later: no random number is drawn for them."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

# what initialises weights: a function of torch.nn.init, or a method that draws
_STARTS = {
    Tensor.normal_,
    Tensor.uniform_,
    *(each for name, each in vars(nn.init).items() if name.endswith("_") and not name.startswith("_")),
}


class Uninitialised(TorchFunctionMode):
    """Modules that are made inside have weights of any value.

    `torch.nn.utils.skip_init`, and drawing on the device "meta", would import sympy or torch's compiler: a second.

    >>> with Uninitialised():
    ...     nn.Linear(3, 2).weight.shape
    torch.Size([2, 3])
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        return (args[0] if args else given["tensor"]) if func in _STARTS else func(*args, **given)
