"""DRML (zheng2021): features split into branches, each trained on the images that it reconstructs best, with relations.

The settings are from the supplement, the method from the released code; its network is `RelationHead`. For a batch:

    branch k   the wrapped loss of {n_k[i] : k = argmin r_i}, with its own proxies or tuples inside this subset
    final      the wrapped loss of the joined rows, with its own proxies
    loss       weight_branch sum_k branch_k + weight_final final + weight_reconstruction mean r

A branch without images, or without pairs for a pair loss, adds 0, and its proxies get a gradient of 0. Divisors of the
wrapped loss are counted in the subset. The code is incomplete: its wrappers other than Proxy Anchor exist only as old
scripts, so every loss keeps its own defaults here.

Matrix products besides those of the head: the wrapped loss on all rows (batch, dim) and once on the nodes, divided
among the branches: with proxies (batch, dim) x (dim, C) and (batch, dim / K) x (dim / K, C).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from levelfield import objectives
from levelfield.batching import Batching
from levelfield.embedder.relation import RelationHead, Steps, start_relation
from levelfield.errors import BadSpecification
from levelfield.labels import on_device, on_host, to_device
from levelfield.methods._contract import Batch, Method, Setting, TrainingFeatures, register, total_of
from levelfield.methods._parameters import Group, own_groups, put_proxies
from levelfield.objectives import Objective
from levelfield.objectives._contract import sum_of
from levelfield.objectives._parts.proxies import start_proxies
from levelfield.objectives._parts.start import StartRows
from levelfield.randomness import stream
from levelfield.settings import Count, NotNegative

if TYPE_CHECKING:
    from levelfield.embedder import Trunk

FEW_SCORES = 8192  # up to which the definition, with fewer calls, is faster than the closed form
_WHOLE_BATCHES = {
    "hist": "it connects the images of a batch by a hypergraph network on its own head",
    "message_passing": "its network passes messages among the images of a batch",
}


@register("drml")
class Drml(Method):
    """DRML: branches on blocks of the features, each trained on the images that it reconstructs best, with relations.

    objective: the wrapped loss, with its `settings`; `final_settings` change them for the joined rows. For zheng2021's
    released Proxy Anchor: `{objective: proxy_anchor, settings: {preset: zheng2021/cub/drml}}`. Losses that need roles
    of rows, or that have a network over the batch, are refused: a branch sees an arbitrary part of the batch.

    Its head replaces the head of the conditions (`layer_norm` and `dropout` do not apply); `branches` must divide
    `dim`. With `head_init: pca` or `whitened` its nodes start at the principal components of their blocks, so that the
    first embeddings are those of the common head, block by block at unit length. Proxies are initialised as in
    zheng2021's code unless the settings have `proxy_init`; with `proxies: class_means` the proxies of a branch start at
    the class means of its nodes.

    >>> method = Drml(num_classes=4, dim=8, objective="triplet", settings={"margin": 1.0})
    >>> len(method.branches), method.objective.margin
    (4, 1.0)
    """

    search: ClassVar[dict[str, Any]] = {"weight_final": (1, 100, "log"), "weight_branch": (0.1, 10, "log")}

    def __init__(
        self,
        *,
        num_classes: int,
        dim: int,
        objective: str = "cosface",  # zheng2021's main wrapper besides Proxy Anchor
        settings: Mapping[str, Any] | None = None,
        final_settings: Mapping[str, Any] | None = None,
        branches: Count = 4,  # zheng2021's code
        weight_branch: NotNegative = 1.0,  # zheng2021's code
        weight_final: NotNegative = 10.0,  # zheng2021's README: "weight_representation"
        weight_reconstruction: NotNegative = 1.0,  # zheng2021's README
        batch: str | None = None,
        batching: str | Mapping[str, Any] | None = None,
        lr: float | None = None,
        trials: int = 0,
        generator: torch.Generator | None = None,
    ) -> None:
        RelationHead.check_sizes(dim, branches)
        generator = generator or stream(0, "drml")
        of_branches, of_final = _mapping("settings", settings), _mapping("final_settings", final_settings)

        def wrapped(size: int, chosen: Mapping[str, Any], *, normal: bool) -> Objective:
            inner = objectives.create(objective, num_classes=num_classes, dim=size, generator=generator, **chosen)
            roles = ", ".join(inner.facts.roles)
            if reason := _WHOLE_BATCHES.get(objective) or (f"it needs roles of the rows ({roles})" if roles else None):
                raise BadSpecification(
                    f"'drml' cannot wrap the objective '{objective}': {reason}, and a branch sees an arbitrary part of "
                    "the batch. Use another objective, such as cosface, proxy_anchor, triplet or margin."
                )
            if "proxy_init" not in chosen:
                _start(inner, normal=normal, generator=generator)
            return inner

        parts = [wrapped(dim // branches, of_branches, normal=True) for _ in range(branches)]
        final = wrapped(dim, {**of_branches, **of_final}, normal=False)
        super().__init__(final, batch=batch, batching=batching, lr=lr, trials=trials)
        self.branches: Sequence[Objective] = nn.ModuleList(parts)  # type: ignore[assignment]
        self.weight_branch, self.weight_final = weight_branch, weight_final
        self.weight_reconstruction = weight_reconstruction
        self._head_parameters = 0

    @classmethod
    def wrapped(cls, settings: Mapping[str, Any]) -> dict[str, tuple[str, Mapping[str, Any]]]:
        """The losses of the branches and of the joined rows."""
        name = str(settings.get("objective", "cosface"))
        of_branches, of_final = (_mapping(key, settings.get(key)) for key in ("settings", "final_settings"))
        return {"settings": (name, of_branches), "final_settings": (name, {**of_branches, **of_final})}

    def head(self, features: TrainingFeatures, setting: Setting) -> nn.Module:
        head = RelationHead(features.width, setting.dim, branches=len(self.branches))
        start_relation(head, stream(setting.seed, "head"))
        self._head_parameters = sum(parameter.numel() for parameter in head.parameters())
        return head

    def check(self, trunk: Trunk, batching: Batching) -> None:
        super().check(trunk, batching)
        if trunk.width < len(self.branches):
            raise BadSpecification(f"'drml' cannot split {trunk.width} features into {len(self.branches)} branches.")

    def step(self, embedder: nn.Module, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        head = embedder.head
        if not isinstance(head, RelationHead):
            raise BadSpecification(f"'drml' needs its own head, not a {type(head).__name__}.")
        final = self.embed(embedder, batch.inputs)
        taken: Callable[[], Steps] = getattr(embedder, "taken", head.taken)  # of a divided batch: those of all parts
        return self.terms(taken()._replace(final=final), batch.labels, generator)

    def terms(self, steps: Steps, labels: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        """The three weighted terms of the loss."""
        objective: Any = self.objective
        branches = self.branch_losses(steps, labels, generator)
        return {
            "branches": self.weight_branch * torch.stack(branches).sum(),
            "final": self.weight_final * objective(steps.final, labels, generator=generator),
            "reconstruction": self.weight_reconstruction * steps.errors.mean(),
        }

    def branch_losses(self, steps: Steps, labels: Tensor, generator: torch.Generator) -> list[Tensor]:
        """The unweighted wrapped loss of each branch on the nodes of its images."""
        losses = []
        for objective, nodes, classes in zip(self.branches, *subsets(steps, labels), strict=True):
            fewest = 1 if objective.facts.least == (1, 1) else 2
            vectors = objective.class_vectors
            if len(classes) < fewest:  # gradients of 0: momentum and decay go on, as in zheng2021's code
                zeros = (0 * parameter.sum() for parameter in objective.parameters())
                losses.append(sum(zeros, start=nodes.new_zeros(())))
            elif vectors is not None and len(nodes) * len(vectors) <= FEW_SCORES:
                losses.append(sum_of(objective.terms(nodes, classes, generator=generator)))
            else:
                losses.append(objective(nodes, classes, generator=generator))
        return losses

    def groups(self) -> list[Group]:
        by_name: dict[str, list[Group]] = {}
        for objective in self.branches:
            for group in own_groups(objective):
                by_name.setdefault(group.name, []).append(group)
        shared = [
            replace(same[0], name=f"branch_{name}", parameters=[p for group in same for p in group.parameters])
            for name, same in by_name.items()
        ]
        return [*super().groups(), *shared]

    def active(self) -> Tensor | int | None:
        return total_of(getattr(objective, "active", None) for objective in (*self.branches, self.objective))

    @property
    def separable(self) -> bool:
        return False  # the number of images in a branch's mean varies

    @torch.no_grad()
    def start_proxies(self, class_means: Tensor) -> None:
        """A new head passes the K unit nodes through, so that its unit rows are the concatenated nodes over sqrt K."""
        super().start_proxies(class_means)
        nodes = (class_means * math.sqrt(len(self.branches))).chunk(len(self.branches), 1)
        for objective, means in zip(self.branches, nodes, strict=True):
            put_proxies(objective.class_vectors, means)

    def start_from(self, start: StartRows) -> None:
        """As in the base class; the first rows are the concatenated nodes, so that a branch has its block of them."""
        super().start_from(start)
        for objective, block in zip(self.branches, start.blocks(len(self.branches)), strict=True):
            objective.start_from(block)

    def deviations(self, setting: Setting) -> dict[str, Any]:
        """The head's parameters beyond the common head count as extra parameters."""
        declared = super().deviations(setting)
        extra = declared.pop("extra_parameters", 0) + self._head_parameters - setting.common_head
        return declared | ({"extra_parameters": extra} if extra > 0 else {})


def subsets(steps: Steps, labels: Tensor) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    """For each branch the nodes (m, e) and labels (m,) of its images, in the order of the batch.

    The sizes of the branches depend on the nodes: it waits for the device once, and brings the assignment to the host.
    """
    _, branches, size = steps.nodes.shape
    assigned = steps.assignment.cpu()
    order = assigned.argsort(stable=True)
    counts = torch.bincount(assigned, minlength=branches).tolist()
    nodes = to_device(order * branches + assigned.index_select(0, order), labels.device)
    classes = on_host(labels).index_select(0, order).split(counts)
    chosen = steps.nodes.reshape(-1, size).index_select(0, nodes)
    return chosen.split(counts), [on_device(part, labels.device) for part in classes]


@torch.no_grad()
def _start(objective: Objective, *, normal: bool, generator: torch.Generator) -> None:
    """Class vectors as in zheng2021's code: He with slope sqrt 5, fan in; normal, or uniform for the final loss."""
    vectors = objective.class_vectors
    if vectors is not None and normal:
        vectors.copy_(torch.randn(vectors.shape, generator=generator) / math.sqrt(3 * vectors.shape[1]))
    elif vectors is not None:
        vectors.copy_(start_proxies(*vectors.shape, init="uniform", generator=generator))


def _mapping(name: str, value: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise BadSpecification(f"'{name}' of 'drml' is {value!r}; expected settings of the wrapped loss.")
    return value or {}
