"""Images to embedding rows: a trunk (timm network, cut and taps), a head, and a cache for frozen features."""

from typing import TYPE_CHECKING

from levelfield.index import lazy

if TYPE_CHECKING:
    from levelfield.embedder.embedder import Embedder as Embedder
    from levelfield.embedder.ensemble import Ensemble as Ensemble
    from levelfield.embedder.ensemble import save_ensemble as save_ensemble
    from levelfield.embedder.head import Head as Head
    from levelfield.embedder.head import start_at as start_at
    from levelfield.embedder.head import start_pca as start_pca
    from levelfield.embedder.head import start_random as start_random
    from levelfield.embedder.linear import lda as lda
    from levelfield.embedder.model import Model as Model
    from levelfield.embedder.model import load as load
    from levelfield.embedder.model import save_model as save_model
    from levelfield.embedder.trunk import backbones as backbones
    from levelfield.embedder.trunk.backbones import Backbone as Backbone
    from levelfield.embedder.trunk.blocks import BLOCK as BLOCK
    from levelfield.embedder.trunk.blocks import in_blocks as in_blocks
    from levelfield.embedder.trunk.cache import FeatureCache as FeatureCache
    from levelfield.embedder.trunk.chunks import Rows as Rows
    from levelfield.embedder.trunk.trunk import Trunk as Trunk

if not TYPE_CHECKING:  # a type checker that saw this function would accept any misspelt name
    __all__, __getattr__ = lazy(__name__)
