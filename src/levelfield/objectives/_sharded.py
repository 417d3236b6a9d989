"""Objectives with more classes than one process can hold: every process has the vectors of its share of the classes.

As in partial FC (An et al. 2021): a loss over all classes is made of sums over classes. The processes compute them for
their own classes and exchange a few numbers per row. Scores are computed in chunks of classes, and again in the
backward pass. Memory per process: its vectors and their gradient, and one chunk of scores; no matrix of rows and
classes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from levelfield.errors import BadSpecification, unknown
from levelfield.gathering import from_each, shared
from levelfield.geometry import unit
from levelfield.objectives._create import create
from levelfield.objectives._proxies import ProxyObjective
from levelfield.objectives.arcface import ArcFace
from levelfield.objectives.cosface import CosFace
from levelfield.objectives.normalized_softmax import NormalizedSoftmax
from levelfield.objectives.proxy_anchor import ProxyAnchor, proxy_anchor_terms
from levelfield.objectives.proxy_nca import ProxyNCA
from levelfield.randomness import stream
from levelfield.ranks import ALONE, Ranks
from levelfield.settings import number

SHARDED = ("arcface", "cosface", "normalized_softmax", "proxy_anchor", "proxy_nca")
AT_ONCE = 4096  # class vectors whose scores are in memory


class ShardedClasses(nn.Module):
    """An objective with one vector per class, whose classes are divided among the processes.

    Every process passes the rows and labels of the whole batch and gets the loss over all classes; the gradient of the
    rows is complete on every process, that of `proxies` is complete for the process's own classes. Exclude `proxies`
    from every sum or average over processes (`Divided(trained=...)`).

    sample: share of the classes without image in the batch that a step compares with, drawn anew for each call; 1: all,
    and the loss is that of the undivided objective. Less is another loss: declare it as a deviation.

    >>> loss = ShardedClasses("cosface", num_classes=1000, dim=8)
    >>> loss(torch.eye(8), torch.arange(8)).requires_grad, loss.proxies.shape
    (True, torch.Size([1000, 8]))
    """

    def __init__(
        self, name: str, *, num_classes: int, dim: int, ranks: Ranks = ALONE, sample: float = 1.0, **settings: Any
    ) -> None:
        super().__init__()
        if name not in SHARDED:
            raise unknown("objective that can divide its classes", name, SHARDED)
        if num_classes < ranks.size:
            raise BadSpecification(f"{num_classes} classes cannot be divided among {ranks.size} processes.")
        self._ranks, self.num_classes = ranks, num_classes
        self.own = ranks.share(num_classes)
        """The classes of this process."""
        self.sample = number("sample", sample, above=0, most=1)
        count = self.own.stop - self.own.start
        settings = {"generator": stream(0, "proxies", ranks.rank), **settings}
        self._objective = create(name, num_classes=count, dim=dim, **settings)
        _check(self._objective)

    @property
    def proxies(self) -> nn.Parameter:
        """(own classes, dim)."""
        found: nn.Parameter = self._objective.proxies  # type: ignore[assignment]
        return found

    def forward(self, embeddings: Tensor, labels: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
        rows = unit(shared(embeddings, self._ranks))
        local = labels - self.own.start
        local = torch.where((labels >= self.own.start) & (labels < self.own.stop), local, -1)
        vectors, local = self._drawn(local, generator)
        if isinstance(self._objective, ProxyAnchor):
            return self._anchored(self._objective, rows, vectors, local)
        return self._classified(rows, vectors, local)

    def _classified(self, rows: Tensor, vectors: Tensor, local: Tensor) -> Tensor:
        """Mean cross-entropy from the score of the own class and the log-sum of all others."""
        scale, include_true = _scale(self._objective)
        found: list[Tensor] = []
        for start, chunk in _chunks(vectors):
            found.append(_again(_log_sum_of_others, rows, chunk, local - start, scale))
        here = local >= 0
        own = torch.where(here, (rows * unit(vectors[local.clamp_min(0)])).sum(1), 0.0)
        both = from_each(torch.stack([own, torch.stack(found).logsumexp(0)]), self._ranks)  # (ranks, 2, b)
        own, others = both[:, 0].sum(0), both[:, 1].logsumexp(0)
        target = getattr(self._objective, "_target", None)
        logit = scale * own if target is None else target(own)[0]
        terms = torch.logaddexp(others, logit) - logit if include_true else others - logit
        return terms.sum() / max(1, len(terms))

    def _anchored(self, objective: ProxyAnchor, rows: Tensor, vectors: Tensor, local: Tensor) -> Tensor:
        """Both sums over the proxies, and the number of classes in the batch and of proxies compared with."""
        sums = [
            _again(_anchored_chunk, rows, chunk, local - start, objective.alpha, objective.delta)
            for start, chunk in _chunks(vectors)
        ]
        counts = rows.new_tensor([len(local[local >= 0].unique()), len(vectors)])
        pull, push, present, proxies = from_each(torch.cat([torch.stack(sums).sum(0), counts]), self._ranks).sum(0)
        loss: Tensor = pull / present.clamp_min(1) + push / proxies
        return loss

    def _drawn(self, local: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """The vectors to compare with, and the positions of the labels among them; all vectors if `sample` is 1."""
        if self.sample == 1:
            return self.proxies, local
        count = len(self.proxies)
        here = local[local >= 0].unique()
        chosen = torch.zeros(count, dtype=torch.bool, device=local.device)
        source: Any = generator or self._objective._own_generator
        number = int(torch.randint(2**62, (), generator=source))  # equal on all processes; the draws are not
        order = torch.randperm(count, generator=stream(number, "classes", self._ranks.rank)).to(local.device)
        chosen[order[: max(1, round(self.sample * count))]] = True
        chosen[here] = True
        places = chosen.nonzero()[:, 0]
        position = torch.full((count + 1,), -1, device=local.device)
        position[places] = torch.arange(len(places), device=local.device)
        return self.proxies.index_select(0, places), position[local]  # -1 is the last entry, which stays -1


def _chunks(vectors: Tensor) -> list[tuple[int, Tensor]]:
    return [(AT_ONCE * k, chunk) for k, chunk in enumerate(vectors.split(AT_ONCE))]


def _again(compute: Any, *inputs: Any) -> Tensor:
    """The result, whose intermediate values are not kept but computed again in the backward pass."""
    found: Tensor = checkpoint(compute, *inputs, use_reentrant=False, preserve_rng_state=False)
    return found


def _log_sum_of_others(rows: Tensor, vectors: Tensor, local: Tensor, scale: float) -> Tensor:
    """log sum over the vectors of other classes of e^(scale s), (b,); finite also if there is none."""
    scores = scale * (rows @ unit(vectors).T)
    return scores.masked_fill(_member(vectors, local), LOWEST).logsumexp(1)


def _anchored_chunk(rows: Tensor, vectors: Tensor, local: Tensor, alpha: float, delta: float) -> Tensor:
    similarity = unit(vectors) @ rows.T
    return torch.stack(
        [part.sum() for part in proxy_anchor_terms(similarity, _member(vectors, local).T, alpha=alpha, delta=delta)]
    )


def _member(vectors: Tensor, local: Tensor) -> Tensor:
    """(b, vectors): whether a vector belongs to the row's class."""
    return local[:, None] == torch.arange(len(vectors), device=local.device)


def _scale(objective: Any) -> tuple[float, bool]:
    """Factor of the cosines, and whether the true class is in the denominator."""
    if isinstance(objective, NormalizedSoftmax):
        return 1 / objective.temperature, True
    if isinstance(objective, ProxyNCA):
        return 2 * objective.scale, objective.include_true  # -D = 2 cos - 2, and the constant drops out
    assert isinstance(objective, ArcFace | CosFace)
    return objective.scale, True


def _check(objective: nn.Module) -> None:
    """Refuse settings whose sums over classes are not implemented."""
    assert isinstance(objective, ProxyObjective)
    for name in ("smoothing_over_all", "dropout"):
        if getattr(objective, name, 0.0):
            said = {"smoothing_over_all": "label_smoothing"}.get(name, name)
            raise BadSpecification(f"Classes that are divided among processes do not support '{said}': set it to 0.")


LOWEST = -1e30  # below every score, but finite: differences of infinities are NaN
