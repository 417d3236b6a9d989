"""The cosine of two embeddings is the sum over the cells of either image."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from levelfield.embedder import Head
from levelfield.embedder.trunk.pooling import pool, side_by_side
from levelfield.reports.page.sections.regions import Linear, cells_of, enlarged


def taps(seed: int) -> list[Tensor]:
    """Two taps of different resolution."""
    random = torch.Generator().manual_seed(seed)
    return [torch.randn(3, 4, 4, generator=random), torch.randn(5, 2, 2, generator=random)]


def row(maps: list[Tensor], how: Linear) -> np.ndarray:
    """The embedding as the network computes it."""
    taps = [pool(tap[None].double(), how.pooling) for tap in maps]
    features = side_by_side(taps, normalize=how.normalize_taps)
    found: np.ndarray = how.head(features)[0].detach().numpy()
    return found


def head(pooling: str, **settings: object) -> Head:
    made = Head(8 if pooling != "grid" else 3 * 16 + 5 * 4, 6, **settings).double()  # type: ignore[arg-type]
    with torch.no_grad():
        made.linear.bias.normal_(generator=torch.Generator().manual_seed(1))
        if settings.get("layer_norm") == "affine":
            made.norm.weight.normal_(generator=torch.Generator().manual_seed(2))
            made.norm.bias.normal_(generator=torch.Generator().manual_seed(3))
    return made


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("pooling", ["average", "grid", "max", "average+max"])
@pytest.mark.parametrize("settings", [{}, {"layer_norm": "plain"}, {"layer_norm": "affine"}, {"output_norm": True}])
def test_cells_sum_to_the_cosine(pooling: str, normalize: bool, settings: dict[str, object]) -> None:
    how = Linear(pooling, normalize, head(pooling, **settings))
    first, second = row(taps(0), how), row(taps(1), how)
    cells, own = cells_of(taps(0), how, second)
    cosine = first @ second / np.linalg.norm(first) / np.linalg.norm(second)
    np.testing.assert_allclose(own, first, rtol=1e-6)
    assert cells.shape == (4, 4)
    assert cells.sum() == pytest.approx(cosine, rel=1e-9)
    back, _ = cells_of(taps(1), how, first)
    assert back.sum() == pytest.approx(cosine, rel=1e-9)


def test_untrained_features_need_no_head() -> None:
    how = Linear("average", True, nn.Identity())
    first, second = row(taps(0), how), row(taps(1), how)
    cells, _ = cells_of(taps(0), how, second)
    assert cells.sum() == pytest.approx(first @ second / np.linalg.norm(first) / np.linalg.norm(second))


def test_a_cell_of_average_pooling_is_the_embedding_of_that_cell_alone() -> None:
    how = Linear("average", False, head("average"))
    maps = [taps(0)[0], taps(0)[1]]
    toward = row(taps(1), how)
    cells, own = cells_of(maps, how, toward)
    blank = [torch.zeros_like(one) for one in maps]
    blank[0][:, 1, 2] = maps[0][:, 1, 2]
    alone = row(blank, how) - row([torch.zeros_like(one) for one in maps], how)
    shared = alone @ toward / np.linalg.norm(own) / np.linalg.norm(toward)
    blank[0][:, 1, 2] = 0
    without, _ = cells_of([blank[0], maps[1]], how, toward)
    rest = cells_of([maps[0] * 0, maps[1]], how, toward)[0] * np.linalg.norm(row([maps[0] * 0, maps[1]], how))
    assert cells[1, 2] == pytest.approx(shared + rest[1, 2] / np.linalg.norm(own), rel=1e-6)
    assert without.shape == (4, 4)


@pytest.mark.parametrize(
    ("pooling", "settings", "exact"),
    [
        ("average", {}, True),
        ("grid", {}, True),
        ("max", {}, False),
        ("grid", {"layer_norm": "plain"}, False),
        ("average", {"output_norm": True}, False),
    ],
)
def test_what_makes_it_an_approximation_is_said(pooling: str, settings: dict[str, object], exact: bool) -> None:
    assert (not Linear(pooling, True, head(pooling, **settings)).caveats) == exact


def test_enlarging_keeps_the_sum_even_if_sizes_do_not_divide() -> None:
    cells = np.arange(9.0).reshape(3, 3)
    made = enlarged(cells, 7, 5)
    assert made.shape == (7, 5)
    assert made.sum() == pytest.approx(36.0)
