"""Methods with undeclared deviations, and two without. Named in tests as `cheats.py:Name`."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from levelfield import objectives
from levelfield.batching import Layout
from levelfield.embedder.head import Head
from levelfield.methods import Batch, Group, Method, Setting, TrainingFeatures


def declaring(**values: Any) -> Any:
    """A declaration besides that of the base class."""
    return lambda self, setting: Method.deviations(self, setting) | values


def declaring_only(**values: Any) -> Any:
    """A declaration instead of that of the base class."""
    return lambda self, setting: values


class Plain(Method):
    """Keeps the rules: contrastive loss, nothing else."""

    def __init__(self) -> None:
        super().__init__(objectives.create("contrastive"))


class Registered(Plain):
    """A scale that trains, handed to the optimiser, but not declared."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(7))

    def groups(self) -> list[Group]:
        return [Group("scale", [self.scale])]

    deviations = declaring_only()

    def step(self, embedder: nn.Module, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        return {**super().step(embedder, batch, generator), "scale": self.scale.square().sum()}


class Forgotten(Registered):
    """A registered parameter in no group."""

    def groups(self) -> list[Group]:
        return []


class InAList(Plain):
    """A parameter where nobody looks, used in the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = [torch.ones(7, requires_grad=True)]

    def step(self, embedder: nn.Module, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        return {**super().step(embedder, batch, generator), "hidden": self.hidden[0].square().sum()}


class InAListLater(InAList):
    """As before, but innocent at first: only from the third step on."""

    def step(self, embedder: nn.Module, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        kind: Any = InAList if batch.step >= 2 else Plain
        return kind.step(self, embedder, batch, generator)  # type: ignore[no-any-return]


class InAListAndGroups(InAList):
    """A parameter that only the optimiser knows."""

    def groups(self) -> list[Group]:
        return [Group("hidden", self.hidden)]  # type: ignore[arg-type]

    deviations = declaring_only()


class Twice(Plain):
    """Sends every batch through the trunk twice."""

    def embed(self, embedder: nn.Module, inputs: Any) -> Tensor:
        return (super().embed(embedder, inputs) + super().embed(embedder, inputs)) / 2


class Never(Plain):
    """Trains the head alone: no image passes the trunk."""

    def embed(self, embedder: nn.Module, inputs: Any) -> Tensor:
        model: Any = embedder
        return model.head(torch.ones(len(inputs[0]), model.trunk.width))  # type: ignore[no-any-return]


class TwiceDeclared(Twice):
    """As honest as can be."""

    deviations = declaring(trunk_passes=2)


class LargerBatch(Plain):
    """Batches of 3 x 3 where everybody has 3 x 2."""

    def __init__(self) -> None:
        super().__init__()
        self.layout = Layout.parse("3x3")

    deviations = declaring_only()


class OtherBatching(Plain):
    """As many images, but drawn otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.layout = Layout.parse("6")

    deviations = declaring_only(batch="6")


class WiderAtTheEnd(Plain):
    """Embeddings that grow after training."""

    def refine(self, embeddings: np.ndarray, gallery: np.ndarray | None = None) -> np.ndarray:
        return np.concatenate([embeddings, embeddings**2], axis=1)


class WiderHead(Plain):
    """A head of its own with more dimensions."""

    def head(self, features: Any, setting: Setting) -> nn.Module:
        return Head(features.width, 2 * setting.dim)


class WiderDeclared(WiderAtTheEnd):
    deviations = declaring_only(dim=16, refined="yes")


class OwnOptimiser(Plain):
    """Takes extra steps on the head with an optimiser of its own."""

    def step(self, embedder: nn.Module, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        optimiser = torch.optim.SGD(embedder.head.parameters(), lr=0.1)  # type: ignore[union-attr]
        sum(super().step(embedder, batch, generator).values()).backward()  # type: ignore[union-attr]
        optimiser.step()
        optimiser.zero_grad()
        return super().step(embedder, batch, generator)


class OtherOptimiser(Plain):
    """Asks the loop for another optimiser for its parameter, and declares only the parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3, 3))

    def groups(self) -> list[Group]:
        return [Group("scale", [self.scale], optimiser="sgd")]

    deviations = declaring_only(extra_parameters=9)

    def step(self, embedder: nn.Module, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        return {**super().step(embedder, batch, generator), "scale": self.scale.square().sum()}


class FasterRate(Plain):
    """A head that learns faster, undeclared."""

    def __init__(self) -> None:
        super().__init__()
        self.lr = 0.1

    deviations = declaring_only()


class SaysMore(Plain):
    """Declares parameters it does not have."""

    deviations = declaring_only(extra_parameters=5)


class SaysNonsense(Plain):
    deviations = declaring_only(luck=3)


class RefinesInSilence(Plain):
    """Uses all test embeddings at once to make them better."""

    def refine(self, embeddings: np.ndarray, gallery: np.ndarray | None = None) -> np.ndarray:
        return embeddings - embeddings.mean(0)


class TrainsItsHead(Plain):
    """Trains the head before the race begins."""

    def head(self, features: TrainingFeatures, setting: Setting) -> nn.Module:
        head = Head(features.width, setting.dim)
        optimiser = torch.optim.Adam(head.parameters())
        head(torch.from_numpy(features.rows())).square().mean().backward()
        optimiser.step()
        return head


class LearnsInABuffer(Plain):
    """Learns by hand, in something that is no parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("centre", torch.zeros(8))

    def embed(self, embedder: nn.Module, inputs: Any) -> Tensor:
        rows = super().embed(embedder, inputs)
        self.centre.add_(rows.detach().mean(0))  # type: ignore[operator]
        return rows


class DrawsEverywhere(Plain):
    """Honest, but draws from every global generator there is."""

    def step(self, embedder: nn.Module, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        terms = super().step(embedder, batch, generator)
        luck = random.random() + float(np.random.rand()) + float(torch.rand(1))  # noqa: NPY002
        return {name: term * luck for name, term in terms.items()}


class OwnHead(Plain):
    """Honest: a head that levelfield does not know."""

    def head(self, features: TrainingFeatures, setting: Setting) -> nn.Module:
        return nn.Sequential(Head(features.width, setting.dim))


class RunningStatistics(nn.Module):
    """Honest: a plain loss with buffers that change as it is used."""

    def __init__(self, *, num_classes: int, dim: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(dim, affine=False)
        self.register_buffer("centres", torch.zeros(num_classes, dim))

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        rows = self.norm(embeddings)
        centres: Any = self.centres
        away = (rows - centres[labels]).square().mean()
        with torch.no_grad():
            self.centres = centres.index_add(0, labels, rows.detach(), alpha=0.1)
        return away
