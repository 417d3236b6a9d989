"""The five papers: their published tables, presets and the toy experiment."""

from typing import TYPE_CHECKING

from levelfield.index import lazy

if TYPE_CHECKING:
    from levelfield.papers import presets as presets
    from levelfield.papers import published as published
    from levelfield.papers import toy as toy

if not TYPE_CHECKING:  # a type checker that saw this function would accept any misspelt name
    __all__, __getattr__ = lazy(__name__)
