"""Similarities and distances of a batch with their gradients, and its labels."""

from __future__ import annotations

import pytest
import torch

from levelfield.geometry import Geometry, unit
from levelfield.labels import class_masks, class_table
from levelfield.randomness import stream


def rows(n: int, d: int, *, name: str = "rows", dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(n, d, generator=stream(0, name), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("rectangular", [False, True])
def test_matrices_are_those_of_a_loop(normalize: bool, rectangular: bool) -> None:
    first = rows(5, 3)
    second = rows(4, 3, name="columns") if rectangular else first
    geometry = Geometry(first, second if rectangular else None, normalize=normalize)
    for i, x in enumerate(first):
        for j, y in enumerate(second):
            a, b = (x / x.norm(), y / y.norm()) if normalize else (x, y)
            assert geometry.similarity[i, j].item() == pytest.approx(float(a @ b), abs=1e-12)
            assert geometry.squared_distance[i, j].item() == pytest.approx(float((a - b).square().sum()), abs=1e-12)
            assert geometry.distance[i, j].item() == pytest.approx(float((a - b).norm()), abs=1e-7)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("what", ["similarity", "squared_distance", "distance"])
@pytest.mark.parametrize("rectangular", [False, True])
def test_gradients_are_the_derivatives(normalize: bool, what: str, rectangular: bool) -> None:
    weights = rows(4, 4, name="weights")

    def total(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        geometry = Geometry(first, second if rectangular else None, normalize=normalize)
        return (getattr(geometry, what) * weights).sum()

    pair = (rows(4, 3).requires_grad_(), rows(4, 3, name="columns").requires_grad_(rectangular))
    assert torch.autograd.gradcheck(total, pair)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [2, 512])
@pytest.mark.parametrize("normalize", [False, True])
def test_coincident_points_have_distance_and_gradient_zero(dtype: torch.dtype, width: int, normalize: bool) -> None:
    leaf = rows(1, width, dtype=dtype).expand(6, width).clone().requires_grad_()
    distance = Geometry(leaf, normalize=normalize).distance
    distance.sum().backward()
    assert not distance.any()
    assert not leaf.grad.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_diagonal_of_the_distance_is_exactly_zero(dtype: torch.dtype) -> None:
    for normalize in (False, True):
        geometry = Geometry(rows(50, 512, dtype=dtype) * 37, normalize=normalize)
        assert not geometry.distance.diagonal().any()
        assert not geometry.squared_distance.diagonal().any()


def test_raw_distances_survive_a_large_common_offset() -> None:
    points = rows(6, 4, dtype=torch.float32)
    near = Geometry(points, normalize=False).distance
    far = Geometry(points + 1000, normalize=False).distance
    torch.testing.assert_close(far, near, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("length", [0.0, 1e-13])
def test_a_zero_row_stays_zero_and_gets_no_gradient(length: float) -> None:
    leaf = torch.tensor([[length, 0.0], [1.0, 1.0]], dtype=torch.float64, requires_grad=True)
    unit(leaf)[:, 0].sum().backward()
    assert not unit(leaf)[0].any()
    assert not leaf.grad[0].any()
    assert leaf.grad[1].any()


def test_half_precision_is_computed_in_float32_and_mixed_precision_in_the_wider_type() -> None:
    assert Geometry(rows(3, 4, dtype=torch.bfloat16), normalize=True).similarity.dtype == torch.float32
    geometry = Geometry(rows(3, 4), rows(2, 4, dtype=torch.float32), normalize=True)
    assert geometry.similarity.dtype == torch.float64


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("squared", [False, True])
def test_distances_of_pairs_are_entries_of_the_matrix(many: bool, squared: bool) -> None:
    geometry = Geometry(rows(5, 3), rows(4, 3, name="columns"), normalize=True)
    first = torch.arange(5).repeat(40 if many else 1)
    second = first % 4
    matrix = geometry.squared_distance if squared else geometry.distance
    torch.testing.assert_close(geometry.distance_of(first, second, squared=squared), matrix[first, second])


def test_detached_shares_what_is_known_and_carries_no_gradient() -> None:
    geometry = Geometry(rows(4, 3).requires_grad_(), normalize=True)
    known = geometry.similarity
    copy = geometry.detached()
    assert copy.similarity.data_ptr() == known.data_ptr()
    assert not copy.distance.requires_grad
    assert copy.normalized
    torch.testing.assert_close(copy.distance, geometry.distance.detach(), rtol=0, atol=0)


def test_labels_that_are_equal_as_float32_are_still_different_classes() -> None:
    positive, negative = class_masks(torch.tensor([2**25, 2**25 + 1]))
    assert not positive.any()
    assert negative.sum() == 2


@pytest.mark.parametrize("labels", [[3], [1, 1, 1], [5, 9, 5, 5], [2**40, -1, 2**40, 0, -1], []])
def test_the_class_table_lists_every_other_member_once(labels: list[int]) -> None:
    table = class_table(torch.tensor(labels, dtype=torch.int64))
    for row, label in enumerate(labels):
        others = [k for k, other in enumerate(labels) if other == label and k != row]
        assert table.others[row][table.valid[row]].tolist() == others
        assert table.others[row][~table.valid[row]].tolist() == [row] * int((~table.valid[row]).sum())
        assert table.counts[row] == len(others)
