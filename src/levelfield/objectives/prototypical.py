"""Prototypical: each query should be closest to the mean of its class's support."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from levelfield.errors import BadInput
from levelfield.geometry import Geometry, unit
from levelfield.labels import on_host, to_device
from levelfield.objectives._contract import LossInputs, Objective, ObjectiveFacts, register
from levelfield.objectives._parts.sums import mean


class Episode(NamedTuple):
    """Support rows (s,) and query rows (q,) of the batch; the episode of every row (b,) if there are several.

    All of them on the host: they decide the shapes.
    """

    support: Tensor
    query: Tensor
    episode: Tensor | None = None


def halves(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Support and query without roles: the first half of each class is support, the rest query, all on the host.

    The half is rounded up, so a single member is support.

    >>> halves(torch.tensor([4, 4, 7, 4, 9, 9]))
    (tensor([0, 1, 2, 4]), tensor([3, 5]))
    """
    ordered, order = labels.sort(stable=True)
    start = torch.searchsorted(ordered, labels)  # where each row's class begins in the sorted order
    size = torch.searchsorted(ordered, labels, right=True) - start
    position = torch.empty_like(order).index_copy_(0, order, torch.arange(len(order)))
    support = 2 * (position - start) < size
    return support.nonzero()[:, 0], (~support).nonzero()[:, 0]


def prototypical_terms(
    rows: Tensor, labels: Tensor, episode: Episode, *, squared: bool = True
) -> tuple[Tensor, Tensor]:
    """-log softmax_c(-d^2(x_q, mu_c)) of the true class for each query (fehervari2019 eq. 13), and the row of each
    query.

    Queries whose class has no support are excluded; mu_c is the mean of the support rows. Each episode has its own
    prototypes. Memory: O(queries * prototypes).

    >>> rows, labels = torch.tensor([[0.0], [2.0], [3.0], [1.0]]), torch.tensor([0, 0, 1, 0])
    >>> episode = Episode(support=torch.tensor([0, 1, 2]), query=torch.tensor([3]))
    >>> prototypical_terms(rows, labels, episode)  # prototypes at 1 and 3: log(1 + e^-4)
    (tensor([0.0181]), tensor([3]))
    """
    rows = rows - rows.detach()[:1]  # means far from the origin would lose digits; distances do not change
    kinds = labels = on_host(labels)
    if episode.episode is not None:  # treat a class in another episode as another class
        seen, kinds = torch.stack((episode.episode, labels)).unique(dim=1, return_inverse=True)
    present, member, counts = kinds[episode.support].unique(return_inverse=True, return_counts=True)
    if not len(present) or not len(episode.query):
        return rows.sum(1)[:0], to_device(episode.query[:0], rows.device)
    asked = kinds[episode.query]
    target = torch.searchsorted(present, asked).clamp_max(len(present) - 1)
    known = present[target] == asked
    asking = episode.query[known]
    support, member, counts, query, target = (
        to_device(part, rows.device) for part in (episode.support, member, counts, asking, target[known])
    )
    sums = rows.new_zeros(len(present), rows.shape[1]).index_add(0, member, rows.index_select(0, support))
    geometry = Geometry(rows.index_select(0, query), sums / counts[:, None], normalize=False)
    logits = -(geometry.squared_distance if squared else geometry.distance)
    if episode.episode is not None:
        elsewhere = seen[0, present] != episode.episode[asking][:, None]
        logits = logits.masked_fill(to_device(elsewhere, rows.device), -torch.inf)
    return functional.cross_entropy(logits, target, reduction="none"), query


@register(
    "prototypical",
    ObjectiveFacts(
        paper="Snell et al. 2017",
        equation="fehervari2019 eq. 13 (printed with d for d^2)",
        formula="mean_q -log softmax_c(-d^2(x_q, mean of the support of c))[y_q]",
        use="Few-shot use: new images are compared with the mean of the few known images of a class.",
        batch="support and query, 5 + 5 per class",
        roles=("support", "query", "episode"),
        sources={"squared": "Snell et al. 2017; fehervari2019's code", "normalize": "fehervari2019 table 1"},
        search={"squared": [True, False], "normalize": [True, False]},
        tags={"order_of_the_batch_is_irrelevant": "without roles, the first half of each class is its support"},
    ),
)
class Prototypical(Objective):
    """Prototypical loss. `roles`: {"support": rows, "query": rows}, and if several episodes share the batch also
    {"episode": one number per row}. Without roles the first half of each class is support (see `halves`).

    Weights apply to queries. With `normalize` the rows have unit length; their means are not normalised.

    >>> loss = Prototypical()
    >>> rows, labels = torch.tensor([[0.0], [9.0], [3.0], [3.0]]), torch.tensor([0, 1, 0, 1])
    >>> loss(rows, labels, roles={"support": [0, 1], "query": [2]})
    tensor(0.)
    """

    squared: bool = True
    normalize: bool = False

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        rows = unit(inputs.embeddings) if self.normalize else inputs.embeddings
        terms, query = prototypical_terms(rows, inputs.labels, self._episode(inputs), squared=self.squared)
        self.active = (terms.detach() > 0).sum()
        return {"query": mean(terms, None, "mean", inputs.weights_of(query))}

    def _episode(self, inputs: LossInputs) -> Episode:
        if inputs.roles is None:
            return Episode(*halves(on_host(inputs.labels)))
        episode = Episode(**inputs.rows_of_roles(self.who, ("support", "query"), optional="episode"))
        both = episode.query[torch.isin(episode.query, episode.support)]
        if len(both):
            raise BadInput(f"{self.who} got roles in which row {int(both[0])} is both support and query.")
        if episode.episode is not None and episode.episode.shape != inputs.labels.shape:
            raise BadInput(f"{self.who} got {len(episode.episode)} episodes for {len(inputs.labels)} embeddings.")
        return episode
