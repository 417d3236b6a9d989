"""Images to embedding rows: a trunk (timm network, cut and taps), a head, and a cache for frozen features."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from levelfield.embedder.embedder import Embedder
    from levelfield.embedder.ensemble import Ensemble, save_ensemble
    from levelfield.embedder.head.head import Head, start_at, start_pca, start_random
    from levelfield.embedder.head.linear import lda
    from levelfield.embedder.model import Model, load, save_model
    from levelfield.embedder.trunk import backbones
    from levelfield.embedder.trunk.backbones import Backbone
    from levelfield.embedder.trunk.blocks import BLOCK, in_blocks
    from levelfield.embedder.trunk.cache import FeatureCache
    from levelfield.embedder.trunk.chunks import Rows
    from levelfield.embedder.trunk.trunk import Trunk

_HOMES = {
    "BLOCK": "trunk.blocks",
    "Backbone": "trunk.backbones",
    "Embedder": "embedder",
    "Ensemble": "ensemble",
    "FeatureCache": "trunk.cache",
    "Head": "head.head",
    "Model": "model",
    "Rows": "trunk.chunks",
    "Trunk": "trunk.trunk",
    "in_blocks": "trunk.blocks",
    "lda": "head.linear",
    "load": "model",
    "save_ensemble": "ensemble",
    "save_model": "model",
    "start_at": "head.head",
    "start_pca": "head.head",
    "start_random": "head.head",
}

__all__ = [
    "BLOCK",
    "Backbone",
    "Embedder",
    "Ensemble",
    "FeatureCache",
    "Head",
    "Model",
    "Rows",
    "Trunk",
    "backbones",
    "in_blocks",
    "lda",
    "load",
    "save_ensemble",
    "save_model",
    "start_at",
    "start_pca",
    "start_random",
]


if not TYPE_CHECKING:  # a type checker that saw this function would accept any misspelt name

    def __getattr__(name: str) -> Any:
        """Import a name on first use: timm takes seconds to import, and the cache alone does not need it."""
        if name == "backbones":
            return importlib.import_module("levelfield.embedder.trunk.backbones")
        if name in _HOMES:
            return getattr(importlib.import_module(f"levelfield.embedder.{_HOMES[name]}"), name)
        raise AttributeError(f"module 'levelfield.embedder' has no attribute '{name}'")
