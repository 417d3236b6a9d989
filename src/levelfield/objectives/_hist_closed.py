"""HIST as lim2022 has it in closed form: both terms of the loss and the gradients of everything, see `_closed`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from levelfield.objectives._closed import LOG2_E
from levelfield.objectives._distributions import Bounds, Distances
from levelfield.objectives._hypergraph import Network
from levelfield.objectives._hypergraph_closed import Classification, Hypergraph, entropies_


class ClosedHist:
    """`distribution` and `classification`, both unweighted, of a batch of two or more; `back` has the gradients.

    Memory: the distances and the logits, over which their slopes are written, the products of rows and means, and the
    gradients.
    """

    def __init__(
        self,
        embeddings: Tensor,
        labels: Tensor,
        means: Tensor,
        log_vars: Tensor,
        network: Network,
        *,
        layer_norm: bool,
        log_var_clamp: Bounds,
        tau: float,
        alpha: float,
        way_back: bool,
    ) -> None:
        self.embeddings, self.tau = embeddings, tau
        self.z, self.statistics = embeddings, None
        if layer_norm:
            self.z, *self.statistics = torch.native_layer_norm(embeddings, self._shape, None, None, 1e-5)
        logits = embeddings.new_empty(2, len(means), len(embeddings))  # in base 2; their slopes will stand here
        self.of_distances, self.of_logits = logits
        self.distances = Distances(
            self.z, means, log_vars, log_var_clamp, out=self.of_distances, scale=-tau * LOG2_E, way_back=way_back
        )
        self.classes, places = labels.unique(return_inverse=True)
        exponents = self.of_distances.index_select(0, self.classes).mul_(alpha / tau)
        self.graph = Hypergraph(exponents, places, alpha=alpha)
        self.network = Classification(self.z, self.graph.matrix, network, out=self.of_logits)
        self.distribution, self.classification = entropies_(logits, labels)

    def back(self, of_distribution: Tensor, of_classification: Tensor) -> Sequence[Tensor]:
        """Gradients of embeddings, means, log_vars and the network's weights, from those of the two terms."""
        batch = len(self.z)
        network = self.network.back(self.of_logits, of_classification / batch)
        through_graph = self.graph.back(network.graph)
        distances = self.distances.back(self._slope(of_distribution * (-self.tau / batch), through_graph))
        of_z = network.rows.add_(distances.rows)
        if self.statistics is not None:
            of_z, *_ = torch.ops.aten.native_layer_norm_backward(
                of_z, self.embeddings, self._shape, *self.statistics, None, None, [True, False, False]
            )
        return [of_z, distances.means, distances.log_vars, *network.network]

    def _slope(self, factor: Tensor, through_graph: Tensor) -> Callable[[slice, Tensor], Tensor]:
        """Slope by the distances: the distribution loss reaches all classes, the hypergraph those of the batch."""
        classes = self.classes.tolist()

        def slope(part: slice, out: Tensor) -> Tensor:
            torch.mul(self.of_distances[part], factor, out=out)
            present = slice(bisect_left(classes, part.start), bisect_left(classes, part.stop))
            return out.index_add_(0, self.classes[present] - part.start, through_graph[present])

        return slope

    @property
    def _shape(self) -> list[int]:
        return [self.embeddings.shape[1]]
