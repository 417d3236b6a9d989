"""Images to embedding rows: a trunk (timm network, cut and taps), a head, and a store for what does not change."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from levelfield.embedder import backbones
    from levelfield.embedder.backbones import Backbone
    from levelfield.embedder.blocks import BLOCK, in_blocks
    from levelfield.embedder.cache import FeatureCache
    from levelfield.embedder.chunks import Rows
    from levelfield.embedder.embedder import Embedder
    from levelfield.embedder.ensemble import Ensemble, save_ensemble
    from levelfield.embedder.head import Head, start_at, start_pca, start_random
    from levelfield.embedder.linear import lda
    from levelfield.embedder.model import Model, load, save_model
    from levelfield.embedder.trunk import Trunk

_HOMES = {
    "BLOCK": "blocks",
    "Backbone": "backbones",
    "Embedder": "embedder",
    "Ensemble": "ensemble",
    "FeatureCache": "cache",
    "Head": "head",
    "Model": "model",
    "Rows": "chunks",
    "Trunk": "trunk",
    "in_blocks": "blocks",
    "lda": "linear",
    "load": "model",
    "save_ensemble": "ensemble",
    "save_model": "model",
    "start_at": "head",
    "start_pca": "head",
    "start_random": "head",
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


def __getattr__(name: str) -> Any:
    """Import a part when it is first asked for: timm takes seconds, and the store alone does not need it."""
    if name == "backbones":
        return importlib.import_module("levelfield.embedder.backbones")
    if name in _HOMES:
        return getattr(importlib.import_module(f"levelfield.embedder.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'levelfield.embedder' has no attribute '{name}'")
