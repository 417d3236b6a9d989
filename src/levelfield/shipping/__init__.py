"""A model leaves its study: exported files, measured again, used without torch; and indexes of photos.

`load` and everything about reading an exported ONNX file import neither torch nor timm.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from levelfield.shipping.exporting import Exported, export
    from levelfield.shipping.front_door import load
    from levelfield.shipping.gallery import remembered
    from levelfield.shipping.index.index import Index, add_to_index, build_index
    from levelfield.shipping.onnx_model import OnnxModel

_HOMES = {
    "Exported": "exporting",
    "Index": "index.index",
    "OnnxModel": "onnx_model",
    "add_to_index": "index.index",
    "build_index": "index.index",
    "export": "exporting",
    "load": "front_door",
    "remembered": "gallery",
}
__all__ = ["Exported", "Index", "OnnxModel", "add_to_index", "build_index", "export", "load", "remembered"]


if not TYPE_CHECKING:  # a type checker that saw this function would accept any misspelt name

    def __getattr__(name: str) -> Any:
        """Import a name on first use: exporting needs torch, using an exported model does not."""
        if name not in _HOMES:
            raise AttributeError(f"module 'levelfield.shipping' has no attribute '{name}'")
        return getattr(importlib.import_module(f"levelfield.shipping.{_HOMES[name]}"), name)
