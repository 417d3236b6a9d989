"""Baselines: untrained, or solved in closed form."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import nn

from levelfield.embedder.head import Head, start_at, start_random
from levelfield.embedder.linear import lda, whitened_components
from levelfield.methods._contract import Method, Setting, TrainingFeatures, register
from levelfield.randomness import stream


@register("untrained")
class Untrained(Method):
    """The trunk's features, unchanged and in full width."""

    trains = False
    tunable = False
    seeded = False

    def head(self, features: TrainingFeatures, setting: Setting) -> nn.Module:
        return nn.Identity()

    def deviations(self, setting: Setting) -> dict[str, Any]:
        return super().deviations(setting) | {"dim": setting.width}


@register("random_projection")
class RandomProjection(Method):
    """A random linear head, never trained."""

    trains = False
    tunable = False

    def head(self, features: TrainingFeatures, setting: Setting) -> nn.Module:
        head = Head(features.width, setting.dim)
        start_random(head, stream(setting.seed, "random_projection"))
        return head


@register("start")
class Start(Method):
    """The head of the conditions at its initialisation."""

    trains = False
    tunable = False


@register("lda")
class LDA(Method):
    """Linear discriminant analysis of the training features: a closed form, no loss and no steps."""

    trains = False
    seeded = False
    search: ClassVar[dict[str, Any]] = {"shrinkage": (0.05, 0.9, "linear")}

    def __init__(self, *, shrinkage: float = 0.3, trials: int = 0) -> None:
        super().__init__(trials=trials)
        self.shrinkage = shrinkage

    def head(self, features: TrainingFeatures, setting: Setting) -> nn.Module:
        head = Head(features.width, setting.dim)
        start_at(head, *lda(features.rows(), features.labels, setting.dim, shrinkage=self.shrinkage))
        return head


@register("whitened")
class Whitened(Method):
    """PCA-whitened training features: centred principal components, each divided by its standard deviation."""

    trains = False
    tunable = False
    seeded = False

    def head(self, features: TrainingFeatures, setting: Setting) -> nn.Module:
        head = Head(features.width, setting.dim)
        start_at(head, *whitened_components(features.rows(), setting.dim, whiten=1.0))
        return head
