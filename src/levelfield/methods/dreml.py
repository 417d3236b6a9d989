"""DREML (Xuan et al. 2018): an ensemble of small networks, each trained on random groups of classes.

For each of L members, the C training classes are divided at random into D meta classes. A member is a network with D
outputs that learns its meta classes; at test time the outputs of all members are normalised to length 1 and
concatenated, L x D numbers per image. Every member trains on all images: "a subset of the data" (fehervari2019 section
2.10) is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from annotated_types import Ge
from torch import Tensor, nn

from levelfield.batching import Batching
from levelfield.errors import BadSpecification
from levelfield.methods._contract import Method, Setting, register
from levelfield.objectives import ProxyNCA
from levelfield.objectives._inputs import check_classes
from levelfield.objectives._parts.proxies import mean_entropy
from levelfield.randomness import numpy_stream
from levelfield.settings import Count, Positive

if TYPE_CHECKING:
    from levelfield.embedder import Trunk

_DRAWS = 10_000  # without a new partition, after which there is no other


def partition(classes: int, meta_classes: int, member: int, *, seed: int, balanced: bool = True) -> np.ndarray:
    """The meta class of each class for one member: int64 (classes,), from the random stream of `seed` and `member`.

    balanced: sizes of meta classes differ by at most one, as in the original; otherwise each class draws its meta class
    independently, as in fehervari2019's code, where a meta class may be empty. No two members of a seed have the same
    partition up to renaming: duplicates are redrawn.

    >>> partition(5, 2, 0, seed=0), partition(5, 2, 1, seed=0)
    (array([1, 0, 1, 0, 0]), array([0, 0, 1, 0, 1]))
    """
    if meta_classes > classes:
        raise BadSpecification(
            f"'meta_classes' of 'dreml' is {meta_classes}; it must be at most {classes}, the number of training "
            "classes."
        )
    partitions: dict[bytes, np.ndarray] = {}
    for earlier in range(member + 1):
        for attempt in range(_DRAWS):
            random = numpy_stream(seed, "meta classes", earlier, attempt)
            drawn = (
                random.permutation(np.arange(classes) % meta_classes)
                if balanced
                else random.integers(meta_classes, size=classes)
            )
            # meta classes in order of first occurrence: equal for equal partitions
            _, first, codes = np.unique(drawn, return_index=True, return_inverse=True)
            renumbered = first.argsort().argsort()[codes].astype(np.int64)
            if partitions.setdefault(renumbered.tobytes(), drawn) is drawn:
                break
        else:
            raise BadSpecification(
                f"'dreml' needs a different partition for each of its members; the number of partitions of {classes} "
                f"classes into {meta_classes} meta classes is {len(partitions)}. Use fewer members or another "
                "'meta_classes'."
            )
    return drawn


@register("dreml")
class Dreml(Method):
    """DREML: an ensemble whose members each separate random meta classes. One run trains one member.

    members, meta_classes: L and D, 12 and 12 in fehervari2019 (144 dimensions); fehervari2019 table 1 lists the
    original as 12 x 48.
    proxies: "static", the original's softmax, or "learned", fehervari2019's ProxyNCA (D, D), whose settings are
    multiplier (the length of rows and proxies) and exclude_positive (leave the row's own proxy out of the denominator).
    balanced: false divides the classes as fehervari2019's code does.

    Not reproduced: fehervari2019 chooses the number of members on the test set; the original code uses at most 500
    images per class and keeps the epoch with the best training accuracy. fehervari2019's code has one more loss,
    `xentropy`, whose sign is wrong.

    >>> Dreml(members=6, meta_classes=4).labels(np.array([0, 1, 1, 7]), member=0, seed=0)
    array([3, 0, 0, 2])
    """

    search: ClassVar[dict[str, Any]] = {
        "meta_classes": [6, 12, 24, 48],
        "multiplier": (1, 30, "log"),
        "proxy_lr_multiplier": (0.1, 1000, "log"),
    }

    def __init__(
        self,
        *,
        members: Count = 12,  # fehervari2019 table 1
        meta_classes: Annotated[int, Ge(2)] = 12,
        proxies: Literal["static", "learned"] = "static",  # the original's code
        multiplier: Positive = 3.0,  # fehervari2019's code
        exclude_positive: bool = True,
        proxy_lr_multiplier: float = 1.0,  # fehervari2019's code: one rate for all
        balanced: bool = True,
        batch: str | None = None,
        batching: str | Mapping[str, Any] | None = None,
        lr: float | None = None,
        trials: int = 0,
        generator: torch.Generator | None = None,
    ) -> None:
        objective: nn.Module = _Static()
        if proxies == "learned":
            objective = ProxyNCA(
                num_classes=meta_classes,
                dim=meta_classes,
                scale=multiplier**2,  # |m u - m p|^2 = m^2 |u - p|^2
                include_true=not exclude_positive,
                proxy_lr_multiplier=proxy_lr_multiplier,
                generator=generator,
            )
        super().__init__(objective, batch=batch, batching=batching, lr=lr, trials=trials)
        self.members, self.meta_classes, self.balanced = members, meta_classes, balanced

    def dim_for(self, dim: int) -> int:
        return self.meta_classes

    def labels(self, labels: np.ndarray, member: int, seed: int) -> np.ndarray:
        """Meta classes of these images; classes are numbered from 0, and the last one must occur."""
        meta = partition(int(labels.max()) + 1, self.meta_classes, member, seed=seed, balanced=self.balanced)
        return np.asarray(meta[labels])

    def check(self, trunk: Trunk, batching: Batching) -> None:
        super().check(trunk, batching)
        classes = len(np.unique(batching.labels))
        partition(classes, self.meta_classes, self.members - 1, seed=0, balanced=self.balanced)

    @torch.no_grad()
    def start_proxies(self, class_means: Tensor) -> None:
        """As in the base class, but the proxy of an empty meta class keeps its random initialisation."""
        if self.proxies is None:
            return
        start = self.proxies.detach().clone()
        there = class_means.isfinite().all(dim=1).nonzero()[:, 0]
        start[there] = class_means[there].to(start)
        super().start_proxies(start)

    def deviations(self, setting: Setting) -> dict[str, Any]:
        return super().deviations(setting) | {"dim": self.meta_classes}


class _Static(nn.Module):
    """ProxyNCA with the unit vectors as proxies: mean softmax cross-entropy of raw outputs (n, D)."""

    separable = True

    def forward(self, outputs: Tensor, meta_labels: Tensor) -> Tensor:
        check_classes(meta_labels, outputs.shape[1], "Objective 'dreml'")
        return mean_entropy(outputs, meta_labels, None)
