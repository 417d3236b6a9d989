"""HIST: class distributions define a hypergraph of the batch, on which a small network classifies the samples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from levelfield.errors import BadSpecification
from levelfield.geometry import Geometry, unit
from levelfield.labels import on_host, to_device
from levelfield.objectives._contract import LossInputs, ObjectiveFacts, register
from levelfield.objectives._parts.proxies import ClassObjective, mean_entropy, start_proxies
from levelfield.objectives._parts.start import StartRows, linear_classifier, log_variances
from levelfield.randomness import stream
from levelfield.settings import Count, NotNegative, Positive, span

Bounds = tuple[float, float]
PER_CLASS = ("means", "log_vars")  # parameters of the distributions; the others are the network's


def distances(rows: Tensor, means: Tensor, log_vars: Tensor | None, *, log_var_clamp: Bounds) -> Tensor:
    """D_ic = sum_f (x_if - m_cf)^2 / v_cf (b, C): squared distances of unit rows x and unit means m, v = exp(clamped
    log_vars).

    rows: (b, d). means, log_vars: (C, d); without log_vars the means are proxies, v = 1.

    >>> rows, means = torch.tensor([[2.0, 0.0], [0.0, 5.0]]), torch.tensor([[1.0, 0.0]])
    >>> distances(rows, means, torch.tensor([[-3.0, 2.0]]), log_var_clamp=(0, 6))  # 1/1 + 1/e^2
    tensor([[0.0000],
            [1.1353]])
    """
    if log_vars is None:
        return Geometry(rows, means, normalize=True).squared_distance
    x, m = unit(rows), unit(means.to(rows.dtype))
    precision = functional.hardtanh(log_vars.to(x.dtype), *log_var_clamp).neg().exp()
    return x.square() @ precision.T - 2 * x @ (m * precision).T + (m.square() * precision).sum(1)


def propagation(incidence: Tensor) -> Tensor:
    """G = Dv^-1/2 H De^-1 H' Dv^-1/2 (b, b), the degrees Dv, De being the sums of H by row and by column.

    incidence: H (b, E), with a 1 in each row and column.

    >>> propagation(torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    tensor([[0.5000, 0.5000, 0.0000],
            [0.5000, 0.5000, 0.0000],
            [0.0000, 0.0000, 1.0000]])
    """
    of_rows, of_edges = incidence.sum(1, keepdim=True), incidence.sum(0)
    scaled = incidence / of_rows.sqrt()
    return (scaled / of_edges) @ scaled.T


def attention(rows: Tensor, query_weight: Tensor, key_weight: Tensor) -> Tensor:
    """softmax_j(q_i . k_j / sqrt h) (b, b), the attention of a transformer instead of G. Weights: (h, d), without bias.

    >>> attention(torch.zeros(2, 3), torch.ones(4, 3), torch.ones(4, 3))
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]])
    """
    queries, keys = rows @ query_weight.T, rows @ key_weight.T
    return (queries @ keys.T / math.sqrt(len(query_weight))).softmax(1)


def network_logits(rows: Tensor, graph: Tensor, weights: Mapping[str, Tensor]) -> Tensor:
    """G (A theta2' + b2) with A = leaky_relu(batch_norm(G (z theta1' + b1))): class scores (b, C) of rows z (b, d).

    The batch norm always uses this batch's statistics: the network is not used at test time. The second layer computes
    G A first, which is equivalent and avoids the product of G with all classes.

    weights: `theta1_weight` (h, d), `theta1_bias`, `bn_weight`, `bn_bias` (h,), `theta2_weight` (C, h), `theta2_bias`.
    """
    scale, shift = weights["bn_weight"], weights["bn_bias"]
    hidden = graph @ functional.linear(rows, weights["theta1_weight"], weights["theta1_bias"])
    if len(rows) < 2:  # torch refuses a single row, which has no variance: it becomes the bias
        hidden = (hidden - hidden) * scale + shift
    else:
        hidden = functional.batch_norm(hidden, None, None, scale, shift, training=True)
    hidden = graph @ functional.leaky_relu(hidden, 0.1)
    logits = (weights["theta2_weight"] @ hidden.T).T  # faster class by class
    return logits + graph.sum(1, keepdim=True) * weights["theta2_bias"]


class Steps(NamedTuple):
    """Intermediate results; None if the settings do not need them."""

    distance: Tensor | None = None  # D (b, C)
    hyperedge_classes: Tensor | None = None  # (E,), those of the batch in ascending order
    incidence: Tensor | None = None  # H (b, E)
    propagation: Tensor | None = None  # G (b, b), or the attention instead
    logits: Tensor | None = None  # (b, C)


@register(
    "hist",
    ObjectiveFacts(
        paper="Lim et al. 2022 (lim2022)",
        equation="lim2022 section 3 and the released code, which clamps the log variances",
        formula="mean_i CE(-tau D_i, y) + lambda_s mean_i CE(HGNN(z, G)_i, y)\n"
        "D_ic = sum_f (z_f/|z| - m_f/|m|)^2 / v_f of class c's mean m and variances v = exp(clamp(log_var, 0, 6))\n"
        "H_ie = 1 if y_i = e, else exp(-alpha D_ie); G = Dv^-1/2 H De^-1 H' Dv^-1/2\n"
        "HGNN(z, G) = G lrelu(BN(G z theta1)) theta2",
        use="When classes differ in spread and the batch is small and random: samples learn from all classes they "
        "resemble. It adds a network and two vectors per class during training, nothing at test time.",
        batch="any (lim2022: 32 at random)",
        distributions=True,
        least=(1, 1),
        sources={
            "tau": "lim2022 table 3: 32 on CUB and Cars (16 SOP), at lr 1.2e-4; at a larger one 32 * 1.2e-4 / lr",
            "alpha": "lim2022 table 3: 1.1 on CUB (0.9 Cars, 2 SOP)",
            "lambda_s": "lim2022 tables 2-3",
            "distribution_weight": "lim2022: 1 (table 4 tries 0)",
            "incidence": "lim2022 eq. 5 (table 4: positives)",
            "variance": "lim2022 section 3.1 (table 5: proxies, which is fixed)",
            "relations": "lim2022 section 3.2 (table 4: attention, and linear as its baseline)",
            "hidden": "lim2022 tables 2-3",
            "log_var_clamp": "authors' code (relu6)",
            "layer_norm": "lim2022 tables 2-3: without affine",
            "distribution_lr_multiplier": "lim2022 table 3: SOP 100, CUB 833, Cars 1000; at another rate lr: 0.1 / lr",
            "hgnn_lr_multiplier": "lim2022 table 3: 10 on Cars and SOP (5 CUB); at another rate lr: 6e-4 / lr",
        },
        published_lr=1e-4,
        search={
            "tau": (1, 64, "log"),
            "alpha": (0.5, 4, "log"),
            "distribution_lr_multiplier": (1, 1000, "log"),
            "hgnn_lr_multiplier": (0.5, 50, "log"),
        },
    ),
)
class Hist(ClassObjective):
    """Distribution loss and classification in a hypergraph of semantic tuples. Labels are 0..num_classes-1.

    z is the row after a layer norm without parameters, in lim2022 the network's last layer. In a run this layer is part
    of the head (`leave_norm_to_head`), so that test rows have it too. `layer_norm=False`: no layer norm. In your own
    loop, compare `z` at test time: the loss ignores a row's mean. Needs at least 3 dimensions: with 2, only a sign is
    left.

    Each class has a normal distribution, `means` and `log_vars` (num_classes, dim), and is a hyperedge of every batch
    it is in. The network has `theta1`, a batch norm (always with the batch's own statistics, because it is not used at
    test time) and `theta2`, a row per class. lim2022's ablations: `incidence="positives"`: a hyperedge has only the
    class's own samples. `variance="fixed"`: variances of 1, that is, proxies. `distribution_weight=0`: without the
    distribution loss. `relations="attention"`: one head of softmax attention with learned queries and keys instead of G
    (lim2022 gives no details). `relations="linear"`: a linear classifier of z; with `distribution_weight=0`, it is
    lim2022's baseline.

    `tau` and the own learning rates depend on the head's rate in lim2022: 1.2e-4 on CUB, 1e-4 elsewhere. For another
    rate `lr`, as in the small versions of the papers' studies: keep the own rates as published, so that on CUB the
    multipliers are 0.1 / lr for the distributions and 6e-4 / lr for the network; if lr is larger, keep tau times lr,
    i.e. tau = 32 * 1.2e-4 / lr on CUB, so that a step moves the logits equally far. With lr 0.003, tau is 1.28 and
    recall@1 on validation classes of the embedded data is 0.83, compared with 0.76 for tau 32.

    Half of the log variances start below 0, where the clamp removes their gradient; only weight decay moves them. The
    released code drops samples whose own probability is 0 in float32; here none is dropped (log-softmax). Memory:
    O(batch * (batch + num_classes)) besides the parameters and their gradients.

    >>> sorted(Hist(num_classes=2, dim=4).terms(torch.eye(4), torch.tensor([0, 0, 1, 1])))
    ['classification', 'distribution']
    """

    tau: Positive = 32.0
    alpha: NotNegative = 1.1
    lambda_s: NotNegative = 1.0
    distribution_weight: NotNegative = 1.0
    incidence: Literal["semantic", "positives"] = "semantic"
    variance: Literal["learned", "fixed"] = "learned"
    relations: Literal["hypergraph", "attention", "linear"] = "hypergraph"
    hidden: Count = 512
    log_var_clamp: Bounds = (0.0, 6.0)
    layer_norm: bool = True
    distribution_lr_multiplier: NotNegative = 100.0
    hgnn_lr_multiplier: NotNegative = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.lambda_s and not self.distribution_weight:
            raise BadSpecification("'lambda_s' and 'distribution_weight' are both 0: the loss has no term left.")
        self.log_var_clamp = span("log_var_clamp", self.log_var_clamp)
        # distributions start He-normal by fan-out, std sqrt(2 / num_classes), and layers as in torch
        generator, classes, dim = self.generator or stream(0, "hist"), self.num_classes, self.dim
        used = self.distribution_weight or (
            self.lambda_s and self.relations == "hypergraph" and self.incidence == "semantic"
        )
        distribution = [start_proxies(classes, dim, init="kaiming_normal", generator=generator) for _ in range(2)]
        self.means = distribution[0] if used else None
        self.log_vars = distribution[1] if used and self.variance == "learned" else None
        if not self.lambda_s:
            return
        layers = {"theta2": (classes, dim if self.relations == "linear" else self.hidden)}
        if self.relations != "linear":
            layers = {"theta1": (self.hidden, dim), **layers}
            self.bn_weight, self.bn_bias = nn.Parameter(torch.ones(self.hidden)), nn.Parameter(torch.zeros(self.hidden))
        for name, (out, into) in layers.items():
            self.register_parameter(f"{name}_weight", start_proxies(out, into, init="uniform", generator=generator))
            bias = (2 * torch.rand(out, generator=generator) - 1) / math.sqrt(into)
            self.register_parameter(f"{name}_bias", nn.Parameter(bias))
        for name in ("query_weight", "key_weight") if self.relations == "attention" else ():
            self.register_parameter(name, start_proxies(self.hidden, dim, init="uniform", generator=generator))

    def lr_multipliers(self) -> dict[str, float]:
        of_class, of_layer = self.distribution_lr_multiplier, self.hgnn_lr_multiplier
        return {name: of_class if name in PER_CLASS else of_layer for name, _ in self.named_parameters()}

    def part_of(self, parameter: str) -> str:
        return parameter if parameter in PER_CLASS else "hgnn"

    @property
    def class_vectors(self) -> nn.Parameter | None:
        return self.means

    @torch.no_grad()
    def start_from(self, start: StartRows) -> None:
        """The log variances of the classes. A linear classifier (`relations: linear`) starts like `softmax`."""
        start = StartRows(self.z(start.rows), start.labels)
        if self.log_vars is not None:
            self.log_vars.copy_(log_variances(start))
        if self.lambda_s and self.relations == "linear":
            for name, value in zip(("theta2_weight", "theta2_bias"), linear_classifier(start), strict=True):
                self.get_parameter(name).copy_(value)

    def leave_norm_to_head(self) -> bool:
        had, self.layer_norm = self.layer_norm, False
        return had

    def z(self, embeddings: Tensor) -> Tensor:
        """Rows for the loss and for comparisons at test time: after the layer norm, in working precision.

        >>> Hist(num_classes=2, dim=3).z(torch.tensor([[1.0, 2.0, 3.0]]))
        tensor([[-1.2247,  0.0000,  1.2247]])
        """
        return functional.layer_norm(embeddings, embeddings.shape[1:]) if self.layer_norm else embeddings

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        steps, terms = self.steps(inputs.embeddings, inputs.labels), {}
        if steps.distance is not None and self.distribution_weight:
            entropy = mean_entropy(-self.tau * steps.distance, inputs.labels, inputs.weights)
            terms["distribution"] = self.distribution_weight * entropy
        if steps.logits is not None:
            terms["classification"] = self.lambda_s * mean_entropy(steps.logits, inputs.labels, inputs.weights)
        return terms

    def steps(self, embeddings: Tensor, labels: Tensor) -> Steps:
        """All steps of the method, for rows in working precision."""
        z, distance = self.z(embeddings), None
        if self.means is not None:
            distance = distances(z, self.means, self.log_vars, log_var_clamp=self.log_var_clamp)
        if not self.lambda_s:
            return Steps(distance)
        weights = {name: parameter.to(z.dtype) for name, parameter in self.named_parameters()}
        if self.relations == "linear":
            return Steps(distance, logits=functional.linear(z, weights["theta2_weight"], weights["theta2_bias"]))
        if self.relations == "attention":
            graph = attention(z, weights["query_weight"], weights["key_weight"])
            return Steps(distance, propagation=graph, logits=network_logits(z, graph, weights))
        classes = to_device(on_host(labels).unique(), labels.device)
        incidence = (labels[:, None] == classes).to(z.dtype)
        if self.incidence == "semantic" and distance is not None:
            others = (-self.alpha * distance.index_select(1, classes)).exp()
            incidence = torch.where(incidence.bool(), 1.0, others)
        graph = propagation(incidence)
        return Steps(distance, classes, incidence, graph, network_logits(z, graph, weights))
