"""`compile: true`: compiled training steps give the values of the plain network; evaluation is not compiled."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from levelfield.embedder import Trunk
from levelfield.embedder.trunk import backbones


def test_a_compiled_step_agrees_and_evaluation_keeps_its_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    trunk = Trunk(backbones.create("test_resnet", weights="random"), cut="last-1", normalize_taps=False)
    stored = trunk.below(torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0)))

    def step() -> list[Tensor]:
        trunk.zero_grad()
        rows = trunk.train().above(*stored)
        rows.square().mean().backward()
        return [
            rows.detach(),
            *(parameter.grad.clone() for _, parameter in trunk.trainable() if parameter.grad is not None),
        ]

    plain, evaluated = step(), trunk.eval().above(*stored)
    trunk.compile_steps()
    called: list[int] = []
    compiled = trunk._compiled
    assert compiled is not None
    monkeypatch.setattr(trunk, "_compiled", lambda *given: called.append(len(given)) or compiled(*given))
    for one, other in zip(step(), plain, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
    assert called
    called.clear()
    assert torch.equal(trunk.eval().above(*stored), evaluated)
    assert not called
