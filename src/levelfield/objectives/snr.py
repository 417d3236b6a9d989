"""SNR: distances as noise-to-signal ratio, the variance of a difference over that of the anchor."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from levelfield.geometry import Geometry
from levelfield.labels import class_table
from levelfield.miners import MinerChoice, Tuples
from levelfield.objectives._contract import LossInputs, Objective, ObjectiveFacts, register
from levelfield.objectives._parts.closed import attached, back_to_rows, through_unit
from levelfield.objectives._parts.sums import Reduction, mean
from levelfield.objectives.contrastive import all_pairs, means_of_sides, sides_of
from levelfield.objectives.triplet import all_hinges, sum_over_triplets, triplet_terms
from levelfield.settings import NotNegative, Share

CONSTANT = 1e-12  # a row with a sum of squared deviations up to this has no signal


class Signals:
    """Noise-to-signal ratios D(a, j) = var(x_a - x_j) / var(x_a) of rows (n, d), the anchor a first (roth2020 eq. 15).

    With `columns` (m, d), ratios of the rows against the columns. Variances are over the d coordinates; without
    `centered` they are sums of squares. `usable` (n,): rows that are not constant and can be anchors; the ratios of the
    others are 0.

    >>> signals = Signals(torch.tensor([[1.0, -1.0], [3.0, -3.0], [2.0, 2.0]]), centered=True)
    >>> signals.of(torch.tensor([0, 1]), torch.tensor([1, 0]))
    tensor([4.0000, 0.4444])
    >>> signals.usable
    tensor([ True,  True, False])
    """

    def __init__(self, rows: Tensor, columns: Tensor | None = None, *, centered: bool) -> None:
        if centered:
            rows = rows - rows.mean(1, keepdim=True)
            columns = None if columns is None else columns - columns.mean(1, keepdim=True)
        self.rows = rows
        self.energy = self.rows.square().sum(1)
        self.usable = self.energy.detach() > CONSTANT
        self.inverse = self.energy.masked_fill(~self.usable, torch.inf).reciprocal()
        self.geometry = Geometry(self.rows, columns, normalize=False)

    def of(self, anchor: Tensor, other: Tensor) -> Tensor:
        return self.geometry.distance_of(anchor, other, squared=True) * self.inverse.index_select(0, anchor)

    def matrix(self) -> Tensor:
        """All ratios (n, n)."""
        return self.geometry.squared_distance * self.inverse[:, None]


@register(
    "snr",
    ObjectiveFacts(
        paper="Yuan et al. 2019",
        equation="roth2020 eq. 15",
        formula="mean over active triplets [D_ap - D_an + margin]+ + lam mean_i |sum_m x_im|, "
        "D_aj = var(x_a - x_j) / var(x_a)",
        use="Instead of triplet or contrastive, when distances should be relative to the anchor's variance.",
        tuples="triplets",
        memory=True,
        miners=("distance_weighted", "random", "semihard", "softhard", "batch_hard", "all"),
        sources={
            "margin": "roth2020 A.1",
            "pos_margin": "PML",
            "neg_margin": "PML",
            "lam": "roth2020 A.1 (its code: 0 with the plain miner, 0.005 with `switch`); of raw rows in PML and MLRC",
            "centered": "Yuan et al. 2019, PML, roth2020 code; roth2020 eq. 15 reads as uncentred",
            "reg_over": "roth2020 eq. 15; its code: the mined anchors",
            "reduction": "roth2020 code, PML",
            "miner": "roth2020 A.2",
        },
        search={"margin": (0.02, 0.5, "log"), "lam": (0.0, 0.5, "linear")},
    ),
)
class SNR(Objective):
    """SNR loss as triplets (`form="triplet"`) or pairs (`"contrastive"`), mined, or all of them with `miner="all"`.

    `lam` is the weight of a regulariser that pulls each row's mean towards 0 (with `normalize` that of the unit row),
    over the batch or (`reg_over="anchors"`) over the anchors of the tuples with multiplicity. Tuples whose anchor is a
    constant row are skipped. Memory: O(batch * batch).

    >>> SNR(lam=0.0, miner="all")(torch.eye(4), torch.tensor([0, 0, 1, 1]))
    tensor(0.2000)
    """

    form: Literal["triplet", "contrastive"] = "triplet"
    margin: float = 0.2
    pos_margin: float = 0.0
    neg_margin: float = 1.0
    centered: bool = True
    lam: NotNegative = 0.005
    reg_over: Literal["batch", "anchors"] = "batch"
    normalize: bool = True
    reduction: Reduction = "mean_nonzero"
    miner: MinerChoice = "distance_weighted"
    switch: Share = 0.0

    def __post_init__(self) -> None:
        super().__post_init__(margin=self.margin)

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        geometry = inputs.geometry(normalize=self.normalize)
        columns = None if geometry.with_itself else geometry.columns
        signals = Signals(geometry.rows, columns, centered=self.centered)
        tuples = (self.triplets_of if self.form == "triplet" else self.tuples_of)(geometry, inputs)
        terms = (self._triplets if self.form == "triplet" else self._pairs)(signals, inputs, tuples)
        if self.lam:
            means = geometry.rows.sum(1).abs() * self._shares(inputs, tuples, geometry.rows.dtype)
            terms["zero_mean"] = inputs.weighted(means).sum()
        return terms

    def _triplets(self, signals: Signals, inputs: LossInputs, triplets: Tuples | None) -> dict[str, Tensor]:
        if triplets is None:
            positive, negative = inputs.class_masks()
            positive = positive & signals.usable[:, None]
            total, self.active = sum_over_triplets(
                signals.matrix(), positive.nonzero(), negative, inputs.weights, margin=self.margin
            )
            count = (positive.sum(1) * negative.sum(1)).sum() if self.reduction == "mean" else self.active
            return {"triplet": total / count.clamp_min(1)}
        assert isinstance(triplets, Tensor)
        anchor, positive, negative = triplets.T
        terms = triplet_terms(signals.of(anchor, positive), signals.of(anchor, negative), margin=self.margin)
        usable = signals.usable[anchor]
        self.active = ((terms.detach() > 0) & usable).sum()
        return {"triplet": mean(terms, usable, self.reduction, inputs.weights_of(anchor))}

    def _pairs(self, signals: Signals, inputs: LossInputs, tuples: Tuples | None) -> dict[str, Tensor]:
        if tuples is None:
            anchors = torch.arange(len(inputs.embeddings), device=inputs.labels.device)[:, None]
            ratio, usable = signals.matrix(), signals.usable[:, None]
            sides = [(ratio, mask & usable, anchors) for mask in inputs.class_masks()]
        else:
            sides = [
                (signals.of(*pairs.T), signals.usable[pairs[:, 0]], pairs[:, 0]) for pairs in sides_of(self, tuples)
            ]
        return means_of_sides(self, inputs, sides)

    def _shares(self, inputs: LossInputs, tuples: Tuples | None, dtype: torch.dtype) -> Tensor | float:
        """Weight of each row in the regulariser (n,), or one for all; the sum is `lam`."""
        rows = len(inputs.embeddings)
        if self.reg_over == "batch" or (tuples is None and self.form == "contrastive"):
            return self.lam / max(1, rows)
        if tuples is None:
            positives = class_table(inputs.labels, rows).counts
            counts = positives * (len(inputs.labels) - 1 - positives)
        else:
            anchors = tuples[:, 0] if isinstance(tuples, Tensor) else torch.cat([pairs[:, 0] for pairs in tuples])
            counts = anchors.new_zeros(rows).index_add_(0, anchors, torch.ones_like(anchors))
        return counts.to(dtype) * self.lam / counts.sum().clamp_min(1)

    def quick(self, inputs: LossInputs) -> Tensor | None:
        """With U the slope of the squared distances, an anchor's energy changes the ratios of its row by - D /
        energy."""
        if not self.takes_everything(inputs):
            return None
        geometry = Geometry(inputs.embeddings.detach(), normalize=self.normalize)
        signals = Signals(geometry.rows, centered=self.centered)
        shares = self._shares(inputs, None, geometry.rows.dtype)
        # all ratios in one buffer: (|x_a|^2 + |x_j|^2 - 2 x_a.x_j) / |x_a|^2
        ratio = torch.addmm(signals.energy, signals.rows, signals.rows.T, alpha=-2).add_(signals.energy[:, None])
        ratio.clamp_min_(0).mul_(signals.inverse[:, None])
        table, usable = class_table(inputs.labels), signals.usable
        table = table._replace(valid=table.valid & usable[:, None], counts=table.counts * usable)
        if self.form == "contrastive":
            margins = {"pos_margin": self.pos_margin, "neg_margin": self.neg_margin}
            terms, slope, self.active = all_pairs(ratio, table, **margins, reduction=self.reduction, usable=usable)
        else:
            hinges = all_hinges(ratio, table, margin=self.margin)
            value, slope = hinges.mean_(self.reduction)
            terms, self.active = {"triplet": value}, hinges.active
        slope.mul_(signals.inverse[:, None])
        energy_slope = ratio.mul_(slope).sum(1).neg_()
        sums = geometry.rows.sum(1)
        if self.lam:
            terms["zero_mean"] = (sums.abs() * shares).sum()

        def slopes(upstream: Tensor) -> list[Tensor]:
            gradient = back_to_rows(signals.geometry, slope, "squared_distance")  # has mean 0, like the rows
            gradient = gradient.addcmul_(energy_slope[:, None], signals.rows, value=2)
            gradient += (sums.sign() * shares)[:, None]
            gradient *= upstream
            return [gradient if geometry.lengths is None else through_unit(gradient, geometry.rows, geometry.lengths)]

        return attached(self.total(terms), [inputs.embeddings], slopes)
