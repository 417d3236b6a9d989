"""The page on scale agrees with pytorch-metric-learning's wrapper as it is installed."""

from __future__ import annotations

import pages
import pytest
import torch

pytest.importorskip("pytorch_metric_learning")


def test_the_wrapper_gives_proxies_more_and_its_efficient_mode_another_gradient() -> None:
    torch.set_num_threads(1)
    told = pages.script("pml_processes")
    page = (pages.ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    found = told.measured(2)
    assert found["ProxyAnchorLoss", "default"]["network"] == pytest.approx((1, 0), abs=1e-5)
    assert found["ProxyAnchorLoss", "default"]["proxies"] == pytest.approx((2, 0), abs=1e-5)
    length, angle = found["MultiSimilarityLoss", "efficient"]["network"]
    assert f"| `MultiSimilarityLoss` | efficient | 2 | x {length:.2f}, {angle:.0f}° | none |" in page
