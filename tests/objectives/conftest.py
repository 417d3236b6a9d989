"""Batches for the slow loops: plain Python lists and the tensors they came from."""

from __future__ import annotations

import pytest
import torch

from levelfield.randomness import stream

LAYOUTS = {
    "even": [0, 0, 0, 1, 1, 1, 2, 2, 2],
    "uneven": [5, 9, 5, 5, 9, 7, 5, 2],
    "one class": [3, 3, 3, 3],
    "singletons": [1, 2, 3, 4],
}


@pytest.fixture(params=LAYOUTS)
def batch(request: pytest.FixtureRequest) -> tuple[torch.Tensor, torch.Tensor]:
    labels = torch.tensor(LAYOUTS[request.param])
    rows = torch.randn(len(labels), 5, generator=stream(1, request.param), dtype=torch.float64)
    return rows, labels
