"""The law of divided batches: `conditions.accumulate` and several processes give the gradients of the whole batch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from levelfield.randomness import stream
from levelfield.testing._measuring import Factory, close, make, ordinary
from levelfield.training.divided import Divided

PIECES = 5  # of 12 rows: not all equal


def a_divided_batch_has_the_gradients_of_the_whole(factory: Factory) -> None:
    """Embedded in pieces, in two passes: loss, and gradients of the network and of the objective's own parameters."""
    images, labels = ordinary(dtype=torch.float64)
    results = []
    for pieces in (1, PIECES):
        objective, network = make(factory, torch.float64), _network(images.shape[1])
        divided = Divided(network, pieces=pieces)
        rows = network(images) if pieces == 1 else divided(images)
        loss = objective(rows, labels, generator=stream(0, "law"))
        loss.backward() if pieces == 1 else divided.backward(loss)
        own = {f"'{name}' of the objective": parameter for name, parameter in objective.named_parameters()}
        named = {f"'{name}' of the network": parameter for name, parameter in network.named_parameters()} | own
        results.append({"loss": loss.detach()} | {name: _gradient(parameter) for name, parameter in named.items()})
    whole, in_pieces = results
    for name, value in whole.items():
        what = name if name == "loss" else f"gradient of {name}"
        close(in_pieces[name], value, f"the {what} differs if the batch is embedded in pieces")


def _network(dim: int) -> nn.Module:
    """A map that moves rows a little, so that they stay in their classes."""
    network = nn.Linear(dim, dim).double()
    with torch.no_grad():
        network.weight.copy_(torch.eye(dim) + 0.1 * torch.randn(dim, dim, generator=stream(0, "network")))
        network.bias.zero_()
    return network


def _gradient(parameter: nn.Parameter) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
