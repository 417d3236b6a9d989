"""SoftTriple: classification by cosines to several centres per class, combined by a softmax."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from levelfield.geometry import Geometry, unit
from levelfield.objectives._contract import LossInputs, ObjectiveFacts, register
from levelfield.objectives._parts.class_scores import ClassScores, Gradients, differentiable, log_sum_of_others
from levelfield.objectives._parts.closed import LOG2_E
from levelfield.objectives._parts.proxies import ClassObjective, ProxyInit, mean_entropy, start_proxies
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
    ObjectiveFacts(
        paper="Qian et al. 2019",
        equation="roth2020 eq. 16-18 (printed with errors); Qian et al. 2019 eq. 8",
        formula="mean_i CE(la (S_ic - delta [c = y_i]), y_i) + tau spread(centers), "
        "S_ic = sum_k softmax_k(s_ick / gamma) s_ick",
        use="Classes that consist of several kinds of images: each class has several vectors, and the loss "
        "chooses softly among them.",
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
class SoftTriple(ClassObjective):
    """SoftTriple loss. `centers` (num_classes * K, dim) are sorted by class; labels are 0..num_classes-1.

    With one centre per class this is `cosface(scale=la, margin=delta)`. Memory: O(batch * classes * K).

    >>> sorted(SoftTriple(num_classes=2, dim=4, centers_per_class=2).terms(torch.eye(4), torch.tensor([0, 0, 1, 1])))
    ['classification', 'regularizer']
    """

    la: Positive = 20.0
    gamma: Positive = 0.1
    tau: NotNegative = 0.2
    delta: float = 0.01
    centers_per_class: Count = 10
    reg_eps: Positive = 1e-5
    proxy_init: ProxyInit = "kaiming_uniform"
    proxy_lr_multiplier: NotNegative = 100.0

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
        k = self.centers_per_class
        scores.filled()
        centers, inverse = (part.view(-1, k, part.shape[1]) for part in (scores.vectors, scores.inverse))
        powers, scratch = scores.buffer(), scores.buffer()
        target, others = log_sum_of_others(
            scores, self.la, pool=lambda cosine: self._pooled(cosine, powers, scratch)[0]
        )
        excess, samples = others / LOG2_E - self.la * (target - self.delta), max(1, len(target))
        share = excess.sigmoid()
        pull, shift = -share * self.la / samples, (share * (self.la / samples)).log2_().sub_(others)
        terms = {"classification": torch.logaddexp(excess, torch.zeros_like(excess)).sum() / samples}
        between = inward = None
        if self.tau and k > 1:
            terms["regularizer"], between, inward = quick_spread(
                centers, inverse, weight=self.tau, reg_eps=self.reg_eps
            )

        def back(gradient: Tensor) -> Gradients:
            gradients = Gradients(scores, gradient)
            for chunk in scores.chunks:
                cosine = scores.matrix[chunk.vectors]
                pooled, power, total = self._pooled(cosine, powers, scratch)
                slope = torch.add(shift, pooled, alpha=self.la * LOG2_E).exp2_()
                slope[chunk.targets] = pull[chunk.targets[1]]
                slope.div_(total)
                # dS/ds_k = q_k (1 + (s_k - S) / gamma), the shares q being the powers divided by their total
                lift = torch.mul(cosine, 1 / self.gamma, out=scratch[: len(cosine)]).view_as(power)
                lift.add_((1 - pooled / self.gamma)[:, None])
                weights = lift.mul_(power).mul_(slope[:, None]).view_as(cosine)
                moved = gradients.add(chunk, cosine, weights, None if inward is None else inward[chunk.vectors])
                if between is not None:
                    classes = slice(chunk.vectors.start // k, chunk.vectors.stop // k)
                    pairs = between[classes] * gradient * inverse[classes] * inverse[classes].mT
                    moved.view_as(centers[classes]).baddbmm_(pairs, centers[classes])
            return gradients

        return differentiable(self.total(terms), inputs, self.centers, back)

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


def quick_spread(centers: Tensor, inverse: Tensor, *, weight: float, reg_eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """`weight` times the spread of raw centres (C, K, d), its slope (C, K, K) by the cosines between the centres of
    each class, each pair at both positions, and the component of the gradient along each centre (C K, 1), which
    normalisation removes. inverse: 1 / length (C, K, 1)."""
    classes, k, _ = centers.shape
    cosine = torch.bmm(centers, centers.mT).mul_(inverse).mul_(inverse.mT)
    root = (2 - 2 * cosine).relu_().add_(reg_eps).sqrt_()
    root.diagonal(dim1=1, dim2=2).fill_(0)
    value = weight * (root.sum() / (2 * classes * k * (k - 1)))
    root.diagonal(dim1=1, dim2=2).fill_(torch.inf)
    slope = weight * root.reciprocal_().mul_(-1 / (classes * k * (k - 1)))
    return value, slope, (slope * cosine).sum(2).view(-1, 1)
