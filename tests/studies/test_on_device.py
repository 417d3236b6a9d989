"""Stored features stay on a GPU if they fit, and are copied batch by batch if they do not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from levelfield.embedder.trunk.cache import FeatureCache
from levelfield.studies.runs.inputs import STAYS_FREE, OnDevice


@pytest.mark.parametrize("fits", [True, False])
def test_rows_are_copied_once_if_they_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fits: bool) -> None:
    size = 5 * 2 * 4  # five rows of two numbers
    rows = FeatureCache(tmp_path).rows("numbers", list("abcde"), lambda found: (np.float32([[k, -k] for k in found]),))
    monkeypatch.setattr(
        torch.cuda, "mem_get_info", lambda _: (3 * STAYS_FREE * size + (size if fits else size - 1), 3 * size)
    )
    monkeypatch.setattr(OnDevice, "_all", lambda self: (copied.append(5), self._rows.tensors())[1])
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, *_, **__: (copied.append(len(tensor)), tensor)[1])
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    copied: list[int] = []
    placed = OnDevice(rows, "cuda")
    assert len(placed) == 5
    assert copied == ([5] if fits else [])
    copied.clear()
    [found] = placed[np.array([3, 1])]
    assert found.tolist() == [[3, -3], [1, -1]]
    assert copied == [2]  # of the numbers, or of the rows themselves
