"""Methods that take no steps: untrained, solved in closed form, or joined from separately trained networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from torch import nn

from levelfield.embedder.head import Head, start_at, start_random
from levelfield.embedder.linear import lda, whitened_components
from levelfield.errors import BadSpecification
from levelfield.methods._contract import Method, Setting, TrainingFeatures, register
from levelfield.randomness import stream


class _Untuned(Method):
    """A method without steps and without settings to search."""

    trains = False
    tunable = False


@register("untrained")
class Untrained(_Untuned):
    """The trunk's features, unchanged and in full width."""

    seeded = False

    def head(self, features: TrainingFeatures, setting: Setting) -> nn.Module:
        return nn.Identity()

    def deviations(self, setting: Setting) -> dict[str, Any]:
        return super().deviations(setting) | {"dim": setting.width}


@register("random_projection")
class RandomProjection(_Untuned):
    """A random linear head, never trained."""

    def head(self, features: TrainingFeatures, setting: Setting) -> nn.Module:
        head = Head(features.width, setting.dim)
        start_random(head, stream(setting.seed, "random_projection"))
        return head


@register("start")
class Start(_Untuned):
    """The head of the conditions at its initialisation."""


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
class Whitened(_Untuned):
    """PCA-whitened training features: centred principal components, each divided by its standard deviation."""

    seeded = False

    def head(self, features: TrainingFeatures, setting: Setting) -> nn.Module:
        head = Head(features.width, setting.dim)
        start_at(head, *whitened_components(features.rows(), setting.dim, whiten=1.0))
        return head


@register("ensemble")
class Ensemble(_Untuned):
    """The embeddings of other methods, each normalised to length 1 and concatenated. Nothing is trained.

    Separately trained networks, as in seidenschwarz2021 F, DREML and MLRC.

    of: labels of the study, or folders of finished runs on the same test images.
    seeds: "each" joins the runs of one seed, giving one ensemble per seed; "all" joins all seeds of a label into one
    ensemble, as in seidenschwarz2021 (table 8: 2 or 5 networks that differ only in their seed); a list joins only
    these.
    """

    joins = True

    def __init__(self, *, of: str | Sequence[str], seeds: Literal["each", "all"] | Sequence[int] = "each") -> None:
        super().__init__()
        joined = self.requires({"of": of})
        self.seeds = seeds if isinstance(seeds, str) else tuple(seeds)
        if not joined or len(set(joined)) != len(joined):
            raise BadSpecification(f"'of' is {of!r}; it must name the methods to join, each once.")
        if len(joined) == 1 and self.seeds == "each":
            raise BadSpecification(
                f"An ensemble of '{joined[0]}' alone, seed by seed, equals that run: add another method, or set "
                "`seeds: all` to join its seeds."
            )

    @classmethod
    def requires(cls, settings: Mapping[str, Any]) -> tuple[str, ...]:
        of = settings.get("of", ())
        return (of,) if isinstance(of, str) else tuple(map(str, of))

    @classmethod
    def joined_seeds(cls, settings: Mapping[str, Any]) -> str | tuple[int, ...]:
        seeds = settings.get("seeds", "each")
        return seeds if isinstance(seeds, str) else tuple(map(int, seeds))
