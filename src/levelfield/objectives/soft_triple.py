"""SoftTriple: classification by cosines to several centres per class, combined by a softmax."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from levelfield.geometry import Geometry, unit
from levelfield.objectives._contract import Facts, LossInputs, Objective, register
from levelfield.objectives._parts.class_scores import Chunk, ClassScores, Gradients, cross_entropy, differentiable
from levelfield.objectives._parts.closed import LOG2_E
from levelfield.objectives._parts.proxies import ProxyInit, mean_entropy, start_proxies
from levelfield.objectives.cosface import cosface_logits
from levelfield.settings import Count, NotNegative, Positive

_SHARP = 0.0125  # below this, e^(1 / gamma) overflows float32 and the largest cosine must be subtracted first


def soft_similarity(cosine: Tensor, *, gamma: float) -> Tensor:
    """S_ic = sum_k q_ick s_ick with q = softmax_k(s / gamma); cosine: (b, C, K).

    >>> soft_similarity(torch.tensor([[[1.0, 0.0]]]), gamma=0.01)
    tensor([[1.]])
    """
    return ((cosine / gamma).softmax(2) * cosine).sum(2)


def centre_spread(centers: Tensor, *, reg_eps: float) -> Tensor:
    """sum_c sum_{k<l} |w_ck - w_cl| / (C K (K-1)) of unit centres (C, K, d); reg_eps keeps the gradient of the root
    finite.

    >>> centre_spread(torch.eye(2)[None], reg_eps=1e-5)
    tensor(0.7071)
    """
    classes, k, _ = centers.shape
    if k == 1:
        return centers.sum() * 0
    first, second = torch.triu_indices(k, k, 1, device=centers.device)
    cosine = (centers @ centers.mT)[:, first, second]
    return ((2 - 2 * cosine).relu() + reg_eps).sqrt().sum() / (classes * k * (k - 1))


@register(
    "soft_triple",
    Facts(
        paper="Qian et al. 2019",
        equation="roth2020 eq. 16-18 (printed with errors); Qian et al. 2019 eq. 8",
        formula="mean_i CE(la (S_ic - delta [c = y_i]), y_i) + tau spread(centers), "
        "S_ic = sum_k softmax_k(s_ick / gamma) s_ick",
        use="Classes that consist of several kinds of images: each class has several vectors, and the loss "
        "chooses softly among them.",
        least=(1, 1),
        sources={
            "la": "Qian et al. 2019, section 4 (roth2020: 8)",
            "gamma": "Qian et al. 2019, section 4; roth2020",
            "tau": "Qian et al. 2019, section 4; roth2020",
            "delta": "Qian et al. 2019, section 4; roth2020",
            "centers_per_class": "Qian et al. 2019, section 4 (roth2020: 2)",
            "reg_eps": "authors' code",
            "proxy_init": "authors' code: Kaiming uniform, a = sqrt 5",
            "proxy_lr_multiplier": "authors' code: 0.01 against 1e-4",
        },
        published_lr=1e-4,
        search={
            "la": (4, 100, "log"),
            "gamma": (0.02, 100, "log"),
            "tau": (0.0, 0.5, "linear"),
            "delta": (0.0, 1.0, "linear"),
            "centers_per_class": [1, 2, 5, 10],
            "proxy_lr_multiplier": (0.1, 1000, "log"),
        },
        separable=True,
    ),
)
class SoftTriple(Objective):
    """SoftTriple loss. `centers` (num_classes * K, dim) are sorted by class; labels are 0..num_classes-1.

    With one centre per class this is `cosface(scale=la, margin=delta)`. Memory: O(batch * classes * K).

    >>> loss = SoftTriple(num_classes=2, dim=4, centers_per_class=2)
    >>> sorted(loss.terms(torch.eye(4), torch.tensor([0, 0, 1, 1])))
    ['classification', 'regularizer']
    """

    num_classes: Count
    dim: Count
    la: Positive = 20.0
    gamma: Positive = 0.1
    tau: NotNegative = 0.2
    delta: float = 0.01
    centers_per_class: Count = 10
    reg_eps: Positive = 1e-5
    proxy_init: ProxyInit = "kaiming_uniform"
    proxy_lr_multiplier: NotNegative = 100.0
    generator: torch.Generator | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.centers = start_proxies(
            self.num_classes * self.centers_per_class, self.dim, init=self.proxy_init, generator=self.generator
        )

    def lr_multipliers(self) -> dict[str, float]:
        return {"centers": self.proxy_lr_multiplier}

    @property
    def class_vectors(self) -> nn.Parameter:
        return self.centers

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        shape = (self.num_classes, self.centers_per_class, -1)
        cosine = Geometry(inputs.embeddings, self.centers, normalize=True).similarity
        similarity = soft_similarity(cosine.view(len(cosine), *shape[:2]), gamma=self.gamma)
        logits = cosface_logits(similarity, inputs.labels, scale=self.la, margin=self.delta)
        terms = {"classification": mean_entropy(logits, inputs.labels, inputs.weights)}
        if self.tau and self.centers_per_class > 1:
            # The loss is a mean over samples including the regulariser: without samples it is 0.
            count = len(inputs.labels) if inputs.weights is None else inputs.weights.sum()
            spread = centre_spread(unit(self.centers).view(shape), reg_eps=self.reg_eps)
            terms["regularizer"] = self.tau * count / max(1, len(inputs.labels)) * spread
        return terms

    def quick(self, inputs: LossInputs) -> Tensor | None:
        if inputs.embeddings.dtype != self.centers.dtype:
            return None
        scores = ClassScores(inputs.embeddings, self.centers, inputs.labels, per_class=self.centers_per_class)
        spread = _Spread(scores, self.reg_eps) if self.tau and self.centers_per_class > 1 else None
        scores.filled(None if spread is None else spread.measure)
        powers, scratch = scores.buffer(), scores.buffer()
        entropy, weights_of = cross_entropy(
            scores, scale=self.la, margin=self.delta, pool=lambda cosine: self._pooled(cosine, powers, scratch)[0]
        )
        terms = {"classification": entropy}
        if spread is not None:
            terms["regularizer"] = self.tau * spread.value()

        def back(gradient: Tensor) -> Gradients:
            gradients = Gradients(scores, gradient)
            for chunk in scores.chunks:
                cosine = scores.matrix[chunk.vectors]
                pooled, power, total = self._pooled(cosine, powers, scratch)
                slope = weights_of(chunk, pooled, torch.empty_like(pooled)).div_(total)
                # dS/ds_k = q_k (1 + (s_k - S) / gamma), the shares q being the powers divided by their total
                lift = torch.mul(cosine, 1 / self.gamma, out=scratch[: len(cosine)]).view_as(power)
                lift.add_((1 - pooled / self.gamma)[:, None])
                weights = lift.mul_(power).mul_(slope[:, None]).view_as(cosine)
                if spread is None:
                    gradients.add(chunk, cosine, weights)
                else:
                    among = self.tau * spread.slope(chunk)
                    moved = gradients.add(chunk, cosine, weights, spread.inward(chunk, among))
                    spread.pull_(moved, chunk, among * gradient)
            return gradients

        return differentiable(self.total(terms), inputs, self.centers, back, self.definition(inputs))

    def _pooled(self, cosine: Tensor, powers: Tensor, scratch: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """From cosines sorted by class (c K, b): the classes' similarities S (c, b), and numerators (c, K, b) and
        denominators (c, b) of the centres' shares e^(s_k / gamma) / sum_j e^(s_j / gamma)."""
        shape = (-1, self.centers_per_class, cosine.shape[1])
        power, scratch = powers[: len(cosine)].view(shape), scratch[: len(cosine)].view(shape)
        cosine = cosine.view(shape)
        torch.mul(cosine, LOG2_E / self.gamma, out=power)
        if self.gamma < _SHARP:
            power -= power.amax(1, keepdim=True)
        total = power.exp2_().sum(1)
        return torch.mul(power, cosine, out=scratch).sum(1).div_(total), power, total


class _Spread:
    """`centre_spread` in closed form, from the cosines between the centres of each class (C, K, K)."""

    def __init__(self, scores: ClassScores, reg_eps: float) -> None:
        self.scores, self.reg_eps, self.k = scores, reg_eps, scores.per_class
        self.classes = len(scores.vectors) // self.k
        self.cosine = scores.rows.new_empty(self.classes, self.k, self.k)

    def measure(self, chunk: Chunk) -> None:
        """Add a chunk of centres with known lengths."""
        vectors, inverse = self._of(chunk)
        torch.bmm(vectors, vectors.mT, out=self.cosine[self._some(chunk)]).mul_(inverse).mul_(inverse.mT)

    def value(self) -> Tensor:
        root = self._roots(self.cosine)
        root.diagonal(dim1=1, dim2=2).fill_(0)
        return root.sum() / (2 * self.classes * self.k * (self.k - 1))

    def slope(self, chunk: Chunk) -> Tensor:
        """Derivative by the chunk's cosines (c, K, K), each pair at both positions."""
        root = self._roots(self.cosine[self._some(chunk)])
        root.diagonal(dim1=1, dim2=2).fill_(torch.inf)
        return root.reciprocal_().mul_(-1 / (self.classes * self.k * (self.k - 1)))

    def inward(self, chunk: Chunk, slope: Tensor) -> Tensor:
        """Component of the gradient along each centre, which normalisation removes."""
        return (slope * self.cosine[self._some(chunk)]).sum(2).view(-1, 1)

    def pull_(self, gradient: Tensor, chunk: Chunk, slope: Tensor) -> None:
        """Add to the gradient of the chunk's centres."""
        vectors, inverse = self._of(chunk)
        gradient.view_as(vectors).baddbmm_(slope * inverse * inverse.mT, vectors)

    def _roots(self, cosine: Tensor) -> Tensor:
        return (2 - 2 * cosine).relu_().add_(self.reg_eps).sqrt_()

    def _some(self, chunk: Chunk) -> slice:
        return slice(chunk.vectors.start // self.k, chunk.vectors.stop // self.k)

    def _of(self, chunk: Chunk) -> tuple[Tensor, Tensor]:
        shape = (-1, self.k, self.scores.vectors.shape[1])
        return self.scores.vectors[chunk.vectors].view(shape), self.scores.inverse[chunk.vectors].view(-1, self.k, 1)
