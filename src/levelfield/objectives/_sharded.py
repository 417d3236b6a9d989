"""Objectives with more classes than one process can hold: every process has the vectors of its share of the classes.

As in partial FC (An et al. 2021): a loss over all classes is made of sums over classes. The processes compute them for
their own classes and exchange a few numbers per row. Scores are computed in chunks of classes, and again in the
backward pass. Memory per process: its vectors, their gradient, and a few chunks of scores; no matrix of rows and
classes.
"""

from __future__ import annotations

from typing import Annotated, Any

import torch
from annotated_types import Gt, Le
from torch import Tensor, nn

from levelfield.distributed.gathering import from_each, shared
from levelfield.distributed.ranks import ALONE, Ranks
from levelfield.errors import BadSpecification, unknown
from levelfield.labels import on_device, on_host, to_device
from levelfield.objectives._contract import LossInputs, Objective, ObjectiveFacts, sum_of
from levelfield.objectives._create import create
from levelfield.objectives._parts.class_scores import LOWEST, ClassScores, Gradients, differentiable, log_sum_of_others
from levelfield.objectives._parts.closed import LOG2_E, wants_slope
from levelfield.objectives._parts.proxies import ProxyObjective
from levelfield.objectives.arcface import ArcFace
from levelfield.objectives.cosface import CosFace
from levelfield.objectives.normalized_softmax import NormalizedSoftmax
from levelfield.objectives.proxy_anchor import ProxyAnchor
from levelfield.objectives.proxy_nca import ProxyNCA

SHARDED = ("arcface", "cosface", "normalized_softmax", "proxy_anchor", "proxy_nca")


class ShardedClasses(Objective):
    """An objective with one vector per class, whose classes are divided among the processes.

    Every process passes the rows and labels of the whole batch and gets the loss over all classes; the gradient of the
    rows is complete on every process, that of `proxies` is complete for the process's own classes. Exclude `proxies`
    from every sum or average over processes (`Divided(trained=...)`). They start like those of the undivided objective.

    sample: share of the classes that a call compares with, drawn anew for each call, besides those of the batch; 1:
    all, and the loss is that of the undivided objective. Less is another loss: declare it as a deviation. All processes
    must pass generators in the same state.
    settings: those of the objective.

    >>> loss = ShardedClasses("cosface", num_classes=1000, dim=8)
    >>> loss(torch.eye(8), torch.arange(8)).requires_grad, loss.proxies.shape
    (True, torch.Size([1000, 8]))
    """

    facts = ObjectiveFacts(
        paper="An et al. 2021 (partial FC)", formula="that of the undivided objective", least=(1, 1), weights=False
    )
    num_classes: int

    def __init__(
        self,
        name: str,
        *,
        num_classes: int,
        dim: int,
        ranks: Ranks = ALONE,
        sample: Annotated[float, Gt(0), Le(1)] = 1.0,
        **settings: Any,
    ) -> None:
        super().__init__()
        if name not in SHARDED:
            raise unknown("objective that can divide its classes", name, SHARDED)
        if num_classes < ranks.size:
            raise BadSpecification(f"{num_classes} classes cannot be divided among {ranks.size} processes.")
        self._ranks, self.num_classes, self.dim = ranks, num_classes, dim
        self.local_classes = ranks.share(num_classes)
        self.sample = sample
        self._draws = max(1, round(self.sample * num_classes))
        self.class_sample = self._draws / num_classes
        self._objective = create(name, num_classes=num_classes, dim=dim, **settings)
        assert isinstance(self._objective, ProxyObjective)
        for setting, value in vars(self._objective).items():
            if setting in ("label_smoothing", "dropout") and value:  # sums over classes that are not implemented
                raise BadSpecification(
                    f"Classes that are divided among processes do not support '{setting}': set it to 0."
                )
        self._objective.proxies = nn.Parameter(self._objective.proxies.detach()[self.local_classes].clone())

    @property
    def proxies(self) -> nn.Parameter:
        """(own classes, dim)."""
        proxies: nn.Parameter = self._objective.proxies  # type: ignore[assignment]
        return proxies

    @property
    def class_vectors(self) -> nn.Parameter:
        return self.proxies

    @property
    def shards(self) -> dict[str, int]:
        return {"_objective.proxies": self.num_classes}

    @property
    def separable(self) -> bool:
        return self.class_sample == 1 and self._objective.separable  # parts of a batch would draw other classes

    def lr_multipliers(self) -> dict[str, float]:
        return {f"_objective.{name}": rate for name, rate in self._objective.lr_multipliers().items()}

    def part_of(self, parameter: str) -> str:
        return self._objective.part_of(parameter.removeprefix("_objective."))

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        inputs = inputs._replace(embeddings=shared(inputs.embeddings.to(self.proxies.dtype), self._ranks))
        vectors, local, count = self._drawn(inputs)
        scores = ClassScores(inputs.embeddings, vectors, local, elsewhere=True)
        if isinstance(self._objective, ProxyAnchor):
            slope, present = wants_slope(inputs.embeddings, vectors), max(1, len(on_host(inputs.labels).unique()))
            terms, back = self._objective.swept(scores, slope=slope, classes=count, present=present)
            share = differentiable(sum_of(terms), inputs, vectors, back)
            return {"loss": from_each(share, self._ranks).sum()}
        return {"loss": self._entropy(scores, inputs, vectors)}

    def _entropy(self, scores: ClassScores, inputs: LossInputs, vectors: Tensor) -> Tensor:
        """Mean cross-entropy from the score of the true class and the log-sum of all others."""
        objective: Any = self._objective
        include_true = getattr(objective, "include_true", True)
        if isinstance(objective, NormalizedSoftmax):
            scale = 1 / objective.temperature
        else:  # proxy_nca: -D = 2 cos - 2, and the constant drops out
            scale = 2 * objective.scale if isinstance(objective, ProxyNCA) else objective.scale
        sums = from_each(_sums(scores, inputs, vectors, scale), self._ranks)  # (ranks, 2, b)
        target, others = sums[:, 0].sum(0), sums[:, 1].logsumexp(0)
        logit = objective.target_logit(target) if isinstance(objective, ArcFace | CosFace) else scale * target
        terms = torch.logaddexp(others, logit) - logit if include_true else others - logit
        return terms.sum() / max(1, len(terms))

    def _drawn(self, inputs: LossInputs) -> tuple[Tensor, Tensor, int]:
        """The vectors to compare with, the position of each label among them (-1: of another process), and the number
        of classes that all processes compare with."""
        labels, device = on_host(inputs.labels), inputs.labels.device
        start, stop = self.local_classes.start, self.local_classes.stop
        local = torch.where((labels >= start) & (labels < stop), labels - start, -1)
        if self.class_sample == 1:
            return self.proxies, on_device(local, device), self.num_classes
        order = torch.randperm(self.num_classes, generator=inputs.generator, device=inputs.generator.device)
        chosen = torch.zeros(self.num_classes, dtype=torch.bool)
        chosen[order[: self._draws].cpu()] = True
        self.last_class_sample = int(chosen.sum()) / self.num_classes
        chosen[labels] = True
        chosen_here = chosen[self.local_classes]
        position = torch.where(local >= 0, (chosen_here.cumsum(0) - 1)[local.clamp_min(0)], -1)
        vectors = self.proxies[to_device(chosen_here.nonzero()[:, 0], device)]
        return vectors, on_device(position, device), int(chosen.sum())


def _sums(scores: ClassScores, inputs: LossInputs, vectors: Tensor, scale: float) -> Tensor:
    """Of each row, the score s_y of its class (0 without) and log sum_{c != y} e^(scale s_c) over the vectors:
    (2, b). The log-sum is finite also if there is no other class."""
    target, others = log_sum_of_others(scores, scale)

    def back(upstream: Tensor) -> Gradients:
        of_target, of_others = upstream[0], upstream[1] * scale
        gradients, buffer = Gradients(scores, upstream.new_ones(())), scores.buffer()
        for chunk in scores.chunks:
            block = scores.block(chunk)
            slope = torch.add(-others, block, alpha=scale * LOG2_E, out=buffer[: len(block)]).exp2_().mul_(of_others)
            slope[chunk.targets] = of_target[chunk.targets[1]]
            gradients.add(chunk, block, slope)
        return gradients

    value = torch.stack([target, (others / LOG2_E).clamp_min(LOWEST)])
    return differentiable(value, inputs, vectors, back)
