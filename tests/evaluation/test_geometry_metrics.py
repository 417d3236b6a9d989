"""Metrics of the geometry: distances of pairs against loops, and spectra against the definition."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from levelfield.errors import BadInput, BadSpecification, UnknownName
from levelfield.evaluation import (
    alignment,
    class_spectra,
    class_spectrum,
    density,
    evaluate,
    spectral_decay,
    spectrum,
    uniformity,
)
from levelfield.evaluation.search.threads import torch_threads

GEOMETRY = ["rho", "intra_distance", "inter_distance", "density", "alignment", "alignment[alpha=1]", "uniformity"]


def unit(rows: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


def slow(rows: np.ndarray, labels: np.ndarray, distance: str) -> tuple[float, float]:
    """Distances within and between classes by loops over all pairs."""
    cosine = distance == "cosine"
    rows = unit(rows) if cosine else rows

    def mean_distance(some):
        found = [1 - x @ y if cosine else np.linalg.norm(x - y) for x, y in itertools.combinations(some, 2)]
        return np.mean(found) if found else None

    classes = [rows[labels == name] for name in np.unique(labels)]
    means = np.array([own.mean(axis=0) for own in classes])
    within = [found for own in classes if (found := mean_distance(own)) is not None]
    between = mean_distance(unit(means) if cosine else means)
    return np.mean(within) if within else math.nan, math.nan if between is None else between


small = st.integers(-2, 2).map(float)


@settings(max_examples=40, deadline=None)
@given(st.data())
@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
def test_every_value_is_that_of_a_loop_over_pairs(distance, data):
    """Also with zero rows, duplicates, classes of one and a single class."""
    size = data.draw(st.integers(2, 9))
    rows = np.array(data.draw(st.lists(st.tuples(small, small, small), min_size=size, max_size=size)))
    labels = np.array(data.draw(st.lists(st.integers(0, 3), min_size=size, max_size=size)))
    got, want = density(rows, labels, distance), slow(rows, labels, distance)
    np.testing.assert_allclose(got[:2], want, atol=1e-7)  # the root of a rounding error, where rows are equal
    if distance == "cosine":
        pairs = [
            (unit(rows)[i], unit(rows)[j], labels[i] == labels[j]) for i, j in itertools.combinations(range(size), 2)
        ]
        same = [np.linalg.norm(x - y) for x, y, together in pairs if together]
        for alpha in (1, 2, 3.5):
            wanted = np.mean(np.power(same, alpha)) if same else math.nan
            np.testing.assert_allclose(alignment(rows, labels, alpha), wanted, atol=1e-7)
        for t in (0.5, 2, 50):
            wanted = math.log(np.mean([math.exp(-t * ((x - y) ** 2).sum()) for x, y, _ in pairs]))
            assert uniformity(rows, t) == pytest.approx(wanted, rel=1e-9, abs=1e-12)


@pytest.fixture
def sample():
    """More rows than a block holds, one class as well; float32 with a common offset."""
    random = np.random.default_rng(0)
    labels = np.concatenate([np.zeros(1100, dtype=int), random.integers(1, 60, 1400), [99]])
    rows = random.normal(size=(100, 16))[labels] + 0.7 * random.normal(size=(len(labels), 16)) + 20
    return rows.astype(np.float32), labels


def squares_of(rows: np.ndarray) -> np.ndarray:
    return np.stack([np.square(row - rows).sum(axis=1) for row in rows])


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
def test_blocks_give_what_whole_matrices_give(sample, distance):
    rows, labels = sample[0].astype(np.float64), sample[1]
    rows = unit(rows) if distance == "cosine" else rows
    classes = [rows[labels == name] for name in np.unique(labels)]
    means = np.array([own.mean(axis=0) for own in classes])
    means = unit(means) if distance == "cosine" else means

    def mean_distance(some):
        squares = squares_of(some)[np.triu_indices(len(some), 1)]
        return np.mean(squares / 2 if distance == "cosine" else np.sqrt(squares))

    found = density(*sample, distance)
    within = np.mean([mean_distance(own) for own in classes if len(own) > 1])
    assert found == pytest.approx((within, mean_distance(means), within / mean_distance(means)), rel=1e-9)
    if distance == "euclidean":
        return
    upper = np.triu_indices(len(rows), 1)
    squares, same = squares_of(rows)[upper], (labels[:, None] == labels[None])[upper]
    assert alignment(*sample) == pytest.approx(squares[same].mean(), rel=1e-9)
    assert alignment(*sample, alpha=1) == pytest.approx(np.sqrt(squares[same]).mean(), rel=1e-9)
    wanted = math.log(np.exp(-2 * squares).mean())
    assert uniformity(rows) == pytest.approx(wanted, rel=1e-9)
    assert uniformity(sample[0]) == pytest.approx(wanted, rel=1e-5)  # products in float32


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
def test_order_of_rows_and_names_of_classes_change_no_bit(sample, distance):
    rows, labels = sample[0].copy(), sample[1].copy()
    rows[5], rows[7] = rows[2000], rows[8]  # equal rows in two classes, and in one
    order = np.random.default_rng(1).permutation(len(rows))
    renamed = np.array([f"class {1000 - label}" for label in labels[order]])
    one = evaluate(rows, labels, metrics=GEOMETRY, distance=distance)
    assert dict(one) == dict(evaluate(rows[order], renamed, metrics=GEOMETRY, distance=distance))


def test_two_threads_give_the_bits_of_one(sample):
    sample = sample[0][:1200], sample[1][:1200]
    found = []
    for threads in (1, 2):
        with torch_threads(threads):
            found.append(dict(evaluate(*sample, metrics=GEOMETRY)))
    assert found[0] == found[1]


def test_a_collapsed_net_has_no_distances():
    rows, labels = np.full((30, 5), 0.37, np.float32), np.repeat(np.arange(6), 5)
    for distance in ("cosine", "euclidean"):
        found = evaluate(rows, labels, metrics=GEOMETRY, distance=distance)
        wanted = dict.fromkeys(GEOMETRY, 0.0) | {"rho": math.inf}
        assert dict(found) == pytest.approx(wanted, abs=1e-7)


def test_the_offset_of_all_rows_does_not_drown_their_distances():
    rows, labels = np.random.default_rng(2).normal(size=(60, 4)).astype(np.float32), np.repeat(np.arange(12), 5)
    moved = (rows.astype(np.float64) + 1e6).astype(np.float64)
    assert density(moved, labels, "euclidean") == pytest.approx(density(rows, labels, "euclidean"), rel=1e-8)


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
@pytest.mark.parametrize("size", [2.0**1000, 2.0**-1000])
def test_sizes_at_the_edge_of_float64_only_change_the_unit(distance, size):
    rows, labels = np.random.default_rng(2).normal(size=(60, 4)), np.repeat(np.arange(12), 5)
    one, other = density(rows, labels, distance), density(size * rows, labels, distance)
    unit = size if distance == "euclidean" else 1.0
    assert other[:2] == pytest.approx((unit * one.intra, unit * one.inter), rel=1e-14, abs=0)
    assert spectrum(size * rows) == pytest.approx(size * spectrum(rows), rel=1e-14, abs=0)


def test_what_makes_no_sense_is_refused(sample):
    with pytest.raises(BadSpecification, match="'density' is not defined for distance 'dot'; use cosine or euclidean"):
        evaluate(*sample, metrics=["density"], distance="dot")
    with pytest.raises(UnknownName, match="Did you mean 'euclidean'"):
        density(*sample, distance="euclidian")
    with pytest.raises(BadSpecification, match="alpha=0: expected a number above 0"):
        alignment(*sample, alpha=0)
    with pytest.raises(BadSpecification, match="t=500: expected a number above 0 and at most 100"):
        uniformity(sample[0], t=500)


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(3000, 12)) * np.logspace(0, -5, 12)


def divergence(values: np.ndarray, *, reverse: bool = False) -> float:
    """Straight from the definition, term by term."""
    share = values / values.sum()
    uniform = np.full(len(values), 1 / len(values))
    first, second = (share, uniform) if reverse else (uniform, share)
    return sum(p * math.log(p / q) for p, q in zip(first, second, strict=True))


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (4, 9), (9, 9), (1025, 3)])
def test_there_are_as_many_values_as_the_smaller_side(shape):
    rows = np.random.default_rng(1).normal(size=shape)
    np.testing.assert_allclose(spectrum(rows), np.linalg.svd(rows, compute_uv=False), rtol=1e-12)


def test_small_values_keep_their_digits():
    """The eigenvalues of the matrix of products would have none of the last one's left."""
    random = np.random.default_rng(2)
    left, right = (np.linalg.qr(random.normal(size=(size, 4)))[0] for size in (5000, 4))
    wanted = np.array([1.0, 1e-3, 1e-6, 1e-9])
    np.testing.assert_allclose(spectrum(left * wanted @ right.T), wanted, rtol=1e-6)


@pytest.mark.parametrize("drop", [0, 1, 9])
@pytest.mark.parametrize("direction", ["uniform-spectrum", "spectrum-uniform"])
def test_decay_is_the_divergence_of_what_is_left(rows, drop, direction):
    left = np.linalg.svd(rows, compute_uv=False)[drop:]
    wanted = divergence(left, reverse=direction == "spectrum-uniform")
    assert spectral_decay(rows, drop, direction) == pytest.approx(wanted, rel=1e-9)
    name = f"rho[drop={drop}{',reverse' if direction == 'spectrum-uniform' else ''}]"
    found = evaluate(rows, np.zeros(3000, dtype=int), metrics=[name], distance="dot")
    assert found[name] == spectral_decay(rows, drop, direction)


def test_evaluate_hands_over_unit_rows_under_cosine_and_bits_under_hamming(rows):
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    labels = np.zeros(len(rows), dtype=int)
    assert evaluate(rows, labels, metrics=["rho"])["rho"] == pytest.approx(spectral_decay(unit), rel=1e-9)
    bits = evaluate(rows, labels, metrics=["rho"], distance="hamming")["rho"]
    assert bits == pytest.approx(spectral_decay((rows > 0).astype(float)), rel=1e-12)


def test_a_dead_direction_makes_it_infinite_and_the_reverse_finite():
    rows = np.random.default_rng(3).normal(size=(50, 6))
    rows[:, 4] = 0
    assert spectral_decay(rows) == math.inf
    assert spectral_decay(rows, direction="spectrum-uniform") < 1
    assert spectral_decay(rows.astype(np.float32)) == math.inf
    dependent = rows.copy()
    dependent[:, 4] = dependent[:, 0] + dependent[:, 1]  # dead only up to rounding
    assert spectral_decay(dependent) == math.inf
    assert spectral_decay(np.zeros((5, 3))) == math.inf
    assert math.isnan(spectral_decay(np.zeros((5, 3)), direction="spectrum-uniform"))
    weak = np.random.default_rng(4).normal(size=(400, 3)).astype(np.float32) * np.float32([1, 1, 1e-6])
    assert math.isfinite(spectral_decay(weak))


def test_class_spectra_are_those_of_each_class_with_zeros_behind():
    random = np.random.default_rng(5)
    rows, labels = random.normal(size=(60, 8)), np.repeat(["c", "a", "b"], [3, 17, 40])
    found = class_spectra(torch.from_numpy(rows), labels, length=5)
    for row, name in zip(found, "abc", strict=True):
        values = np.linalg.svd(rows[labels == name], compute_uv=False)[:5]
        np.testing.assert_allclose(row, np.pad(values, (0, 5 - len(values))), rtol=1e-12)
    np.testing.assert_allclose(class_spectrum(rows, labels, length=5), found.mean(axis=0), rtol=1e-12)
    assert class_spectrum(rows, labels).shape == (35,)


def test_order_and_names_change_no_bit(rows):
    random = np.random.default_rng(6)
    labels, order = random.integers(0, 9, len(rows)), random.permutation(len(rows))
    np.testing.assert_array_equal(spectrum(rows), spectrum(rows[order]))
    np.testing.assert_array_equal(class_spectrum(rows, labels, 4), class_spectrum(rows[order], 99 - labels[order], 4))


def test_a_spectrum_of_nothing_is_refused(rows):
    with pytest.raises(BadInput, match="12 largest of 12 singular values"):
        spectral_decay(rows, drop_largest=12)
    with pytest.raises(UnknownName, match="Did you mean 'spectrum-uniform'"):
        spectral_decay(rows, direction="spectrum-unifrm")
    with pytest.raises(BadInput, match="length=0"):
        class_spectra(rows, np.zeros(3000, dtype=int), length=0)
    with pytest.raises(BadInput, match="rows: 1 of 2 rows contain NaN"):
        spectrum([[0.0, 1.0], [1.0, math.nan]])
