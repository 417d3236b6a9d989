"""A model leaves its study: exported files, measured again, used without torch; and indexes of photos.

`load` and everything about reading an exported ONNX file import neither torch nor timm.
"""

from typing import TYPE_CHECKING

from levelfield.index import lazy

if TYPE_CHECKING:
    from levelfield.shipping.exporting import Exported as Exported
    from levelfield.shipping.exporting import export as export
    from levelfield.shipping.index.index import Index as Index
    from levelfield.shipping.index.index import add_to_index as add_to_index
    from levelfield.shipping.index.index import build_index as build_index
    from levelfield.shipping.onnx_model import OnnxModel as OnnxModel
    from levelfield.shipping.onnx_model import load as load
    from levelfield.shipping.searching import remembered as remembered

if not TYPE_CHECKING:  # a type checker that saw this function would accept any misspelt name
    __all__, __getattr__ = lazy(__name__)
