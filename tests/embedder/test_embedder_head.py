from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import torch
from sklearn.decomposition import PCA
from sklearn.utils.extmath import randomized_svd
from threadpoolctl import threadpool_limits

from levelfield.embedder import Head, lda, start_at, start_pca, start_random
from levelfield.embedder.linear import _leading_components, whitened_components
from levelfield.errors import BadInput, BadSpecification
from levelfield.randomness import numpy_stream, stream


def features(rows: int, width: int) -> np.ndarray:
    """Rows with a falling spectrum and a mean that is not zero."""
    draw = numpy_stream(0, "features", rows, width)
    mixing = draw.normal(size=(width, width)) / np.sqrt(width)
    return (draw.normal(size=(rows, width)) * 0.9 ** np.arange(width) @ mixing + 3).astype(np.float32)


def test_head_is_layer_norm_then_dropout_then_linear() -> None:
    head = Head(6, 3, layer_norm="affine", dropout=0.5).eval()
    rows = torch.randn(4, 6, generator=stream(0, "rows"))
    normed = (rows - rows.mean(1, keepdim=True)) / torch.sqrt(rows.var(1, keepdim=True, correction=0) + 1e-5)
    expected = normed @ head.linear.weight.T + head.linear.bias
    torch.testing.assert_close(head(rows), expected)
    assert [type(part).__name__ for part in head.children()] == ["LayerNorm", "Dropout", "Linear"]
    assert sum(p.numel() for p in Head(6, 3, layer_norm="plain", bias=False).parameters()) == 18


def test_a_random_start_depends_on_its_generator_alone() -> None:
    before = torch.get_rng_state()
    one, two, three = Head(6, 3), Head(6, 3), Head(6, 3)
    start_random(one, stream(1, "head"))
    start_random(two, stream(1, "head"))
    start_random(three, stream(2, "head"))
    assert torch.equal(one.linear.weight, two.linear.weight)
    assert not torch.equal(one.linear.weight, three.linear.weight)
    assert one.linear.weight.abs().max() <= 6**-0.5
    assert torch.equal(before, torch.get_rng_state())


def test_the_forms_of_a_random_start_have_their_spread_and_bias() -> None:
    heads = {form: Head(200, 50) for form in ("random", "torch", "he_normal")}
    for form, head in heads.items():
        start_random(head, stream(0, "head"), form=form)
    spreads = {form: head.linear.weight.std().item() for form, head in heads.items()}
    uniform = (3 * 200) ** -0.5  # the standard deviation of nn.Linear's weights
    assert spreads == pytest.approx({"random": uniform, "torch": uniform, "he_normal": 0.2}, rel=0.03)
    assert heads["torch"].linear.bias.std().item() == pytest.approx(uniform, rel=0.3)
    assert not any(heads[form].linear.bias.any() for form in ("random", "he_normal"))


@pytest.mark.parametrize("whiten", [0.5, 1.0])
def test_pca_start_gives_scikit_learns_components_divided_by_their_spread(whiten: float) -> None:
    rows = features(400, 60)
    exact = PCA(10, svd_solver="full").fit(rows.astype(np.float64))
    head = Head(60, 10)
    start_pca(head, torch.from_numpy(rows), whiten=whiten)
    ours = head(torch.from_numpy(rows)).detach().numpy()
    expected = exact.transform(rows) / exact.explained_variance_ ** (whiten / 2)
    signs = np.sign((ours * expected).sum(axis=0))  # a component's sign is anybody's choice
    np.testing.assert_allclose(ours * signs, expected, atol=2e-3)


@pytest.mark.parametrize(("count", "width", "found"), [(400, 60, 10), (60, 400, 40), (7, 7, 6)])
def test_leading_components_have_the_bits_of_scikit_learn(count: int, width: int, found: int) -> None:
    rows = features(count, width)
    with threadpool_limits(1, user_api="blas"):
        _, lengths, components = randomized_svd(rows, found, n_oversamples=32, n_iter=4, random_state=7)
        ours = _leading_components(rows, found, 7)
    assert np.array_equal(ours[0], lengths)
    assert np.array_equal(ours[1], components)


def test_pca_of_fewer_images_than_dimensions_fills_up_with_orthogonal_directions() -> None:
    rows = features(6, 40)
    weight, bias = whitened_components(rows, 16, whiten=0.5)
    assert weight.shape == (16, 40)
    unit = weight / np.linalg.norm(weight, axis=1, keepdims=True)
    np.testing.assert_allclose(unit @ unit.T, np.eye(16), atol=1e-4)
    np.testing.assert_allclose((rows @ weight.T + bias)[:, 5:], 0, atol=1e-4)  # training images do not differ there


def test_pca_says_what_it_cannot_do() -> None:
    with pytest.raises(BadSpecification, match="cannot have more dimensions than features"):
        whitened_components(features(50, 8), 9)
    with pytest.raises(BadInput, match="2 training images"):
        whitened_components(features(1, 8), 2)
    with pytest.raises(BadInput, match="same features"):
        whitened_components(np.ones((5, 8), dtype=np.float32), 2)
    with pytest.raises(BadSpecification, match="needs a bias"):
        start_pca(Head(8, 2, bias=False), torch.from_numpy(features(50, 8)))


@pytest.mark.parametrize(("rows", "width"), [(120, 20), (60, 90)], ids=["more rows", "more columns"])
def test_lda_solves_the_generalised_eigenproblem(rows: int, width: int) -> None:
    """Against the dense problem, written down as in the textbook."""
    x = features(rows, width).astype(np.float64)
    labels = np.arange(rows) % 12 * 7 + 100  # neither dense nor sorted
    means = {label: x[labels == label].mean(axis=0) for label in np.unique(labels)}
    inside = np.stack([row - means[label] for row, label in zip(x, labels, strict=True)])
    within = inside.T @ inside / rows
    between = np.cov(np.stack([means[label] for label in labels]).T, bias=True)
    shrunk = 0.7 * within + 0.3 * np.trace(within) / width * np.eye(width)
    values, vectors = scipy.linalg.eigh(between, shrunk)
    expected = (x - x.mean(axis=0)) @ vectors[:, ::-1][:, :5]
    weight, bias = lda(x, labels, 5)
    ours = x @ weight.T + bias
    signs = np.sign((ours * expected).sum(axis=0))
    np.testing.assert_allclose(ours * signs, expected, atol=2e-3)
    assert values[-1] > values[-5]


def test_lda_has_at_most_one_direction_less_than_classes() -> None:
    weight, bias = lda(features(40, 10), np.arange(40) % 3, 6)
    assert weight.shape == (6, 10)
    assert (np.linalg.norm(weight, axis=1) > 0).tolist() == [True, True, False, False, False, False]
    head = Head(10, 6)
    start_at(head, weight, bias)
    assert torch.isfinite(head(torch.zeros(1, 10))).all()


def test_lda_says_what_it_needs() -> None:
    with pytest.raises(BadInput, match="two classes"):
        lda(features(5, 4), np.zeros(5, dtype=np.int64), 2)
    with pytest.raises(BadInput, match="two images"):
        lda(features(5, 4), np.arange(5), 2)
    with pytest.raises(BadInput, match="identical"):
        lda(np.repeat(np.eye(3), 2, axis=0), np.repeat([0, 1, 2], 2), 2)


def test_head_options_are_checked() -> None:
    with pytest.raises(BadSpecification, match="'plain'"):
        Head(4, 2, layer_norm="plane")
    with pytest.raises(BadSpecification, match="less than 1"):
        Head(4, 2, dropout=1.0)
