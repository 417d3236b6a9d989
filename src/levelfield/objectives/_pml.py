"""Losses of pytorch-metric-learning by name, `pml:CircleLoss`, with our interface."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from levelfield.geometry import Geometry
from levelfield.miners import MinerChoice
from levelfield.miners._pml import as_pml_indices, make_pml, pml_settings
from levelfield.objectives._contract import Facts, LossInputs, Objective
from levelfield.randomness import drawn_from, stream
from levelfield.registry import load_from_pml

# PML's name of the embedding size.
_DIM = ("embedding_size", "descriptors_dim")


class PMLLoss(Objective):
    """A loss of PML. Works with our tuples and miners; its random numbers come from the generator."""

    facts = Facts(paper="pytorch-metric-learning", formula="see its documentation", weights=False)

    def __init__(self, loss: nn.Module, *, miner: MinerChoice | None = None) -> None:
        super().__init__(miner=miner)
        self.loss = loss

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        tuples = inputs.tuples
        if tuples is None and self.miner is not None:
            tuples = self.chosen(Geometry(inputs.embeddings.detach(), normalize=True), inputs)
        with drawn_from(inputs.generator):
            return {"loss": self.loss(inputs.embeddings, inputs.labels, as_pml_indices(tuples))}

    @property
    def class_vectors(self) -> nn.Parameter | None:
        proxies = getattr(self.loss, "proxies", None)
        return proxies if isinstance(proxies, nn.Parameter) else None

    @property
    def _label(self) -> str:
        return f"pml:{type(self.loss).__name__}"


def pml_objective(
    reference: str,
    settings: Mapping[str, Any],
    *,
    num_classes: int | None,
    dim: int | None,
    miner: MinerChoice | None,
    generator: torch.Generator | None,
) -> PMLLoss:
    """The loss `reference` with `settings`; class vectors are initialised from `generator`."""
    takes = pml_settings(load_from_pml(reference, "losses"))
    offered = {"num_classes": num_classes, **dict.fromkeys(_DIM, dim)}
    needed = {name: value for name, value in offered.items() if takes.get(name) is inspect.Parameter.empty}
    needed = {name: value for name, value in needed.items() if value is not None}
    with drawn_from(generator or stream(0, "proxies")):
        return PMLLoss(make_pml(reference, "losses", {**needed, **settings}), miner=miner)


def pml_facts(reference: str) -> Facts:
    """Facts of a loss of PML: its settings and requirements."""
    takes = pml_settings(load_from_pml(reference, "losses"))
    needs = tuple(name for name in ("num_classes", "dim") if {name, *(_DIM if name == "dim" else ())} & set(takes))
    defaults = {name: value for name, value in takes.items() if value is not inspect.Parameter.empty}
    facts = PMLLoss.facts
    return Facts(facts.paper, facts.formula, needs=needs, weights=False, name=reference, defaults=defaults)
