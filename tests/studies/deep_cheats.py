"""Methods that break the rules of a comparison. What each tries is in `test_cheats.py`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from levelfield import objectives
from levelfield.embedder.head import Head
from levelfield.methods import Batch, Method, Setting

HERE = Path(__file__).parent


class Plain(Method):
    """Keeps the rules: contrastive loss, nothing else."""

    def __init__(self) -> None:
        super().__init__(objectives.create("contrastive"))

    def cheat(self, embedder: Any, batch: Batch) -> None:
        """What it does besides its step, after it."""

    def step(self, embedder: nn.Module, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        terms = super().step(embedder, batch, generator)
        self.cheat(embedder, batch)
        return terms


class CarriedOnDisk(Plain):
    def head(self, features: Any, setting: Setting) -> nn.Module:
        head = Head(features.width, setting.dim)
        if (HERE / "kept.pt").exists():
            head.load_state_dict(torch.load(HERE / "kept.pt"))
        return head


class OwnedNetwork(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.teacher = nn.Linear(8, 4096).requires_grad_(False)

    def embed(self, embedder: nn.Module, inputs: Any) -> Tensor:  # type: ignore[override]
        rows = super().embed(embedder, inputs)
        return rows + self.teacher(rows).mean(1, keepdim=True)


class FrozenStatistics(Plain):
    def cheat(self, embedder: Any, batch: Batch) -> None:
        if batch.step == 3:  # the last one
            next(m for m in embedder.trunk.modules() if isinstance(m, nn.BatchNorm2d)).running_mean.data += 1


class AveragedWhenSaved(Plain):
    def cheat(self, embedder: Any, batch: Batch) -> None:
        def doubled(module: nn.Module, state: dict[str, Tensor], prefix: str, local: Any) -> None:
            state[f"{prefix}head.linear.weight"] = 2 * state[f"{prefix}head.linear.weight"]

        if batch.step == 0:
            embedder._register_state_dict_hook(doubled)


class InjectedGradient(Plain):
    def cheat(self, embedder: Any, batch: Batch) -> None:
        weight = embedder.head.linear.weight
        weight.grad = weight.detach().clone()


class MoreThreads(Plain):
    def cheat(self, embedder: Any, batch: Batch) -> None:
        torch.set_num_threads(torch.get_num_threads() + 1)


class NoGradients(Plain):
    def cheat(self, embedder: Any, batch: Batch) -> None:
        torch.set_grad_enabled(False)


class EndsTheProcess(Plain):
    def cheat(self, embedder: Any, batch: Batch) -> None:
        sys.exit(0)
