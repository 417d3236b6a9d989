"""Linear maps in closed form: principal components and linear discriminants. Independent of the number of threads."""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

from levelfield.errors import BadInput, BadSpecification
from levelfield.randomness import numpy_stream

_OVERSAMPLING = 32  # embedded_default.md: q = 160 for 128 components


def whitened_components(features: np.ndarray, dim: int, *, whiten: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    """Weight (dim, width) and bias (dim,) of a PCA whose components are divided by (standard deviation) ** whiten.

    features: (rows, width). With fewer independent rows than `dim`, the rest are random directions orthogonal to all
    components, scaled like the last one: training images do not differ along them, but other images may. O(rows * width
    * dim) by randomised SVD.
    """
    import scipy.linalg  # noqa: F401  (before limiting threads, which affects only loaded libraries)

    rows, width = features.shape
    if dim > width:
        raise BadSpecification(
            f"A PCA cannot have more dimensions than features: dim is {dim}, and there are {width} features. Set "
            f"conditions.dim to {width} or less; a head can also start without a PCA (head_init: random)."
        )
    if rows < 2:
        raise BadInput(f"A PCA needs at least 2 training images, got {rows}.")
    features = np.asarray(features, dtype=np.float32)
    mean = features.mean(axis=0, dtype=np.float64).astype(np.float32)
    count = min(dim, rows - 1)
    state = int(numpy_stream(0, "pca").integers(2**31))
    with threadpool_limits(1, user_api="blas"):
        lengths, components = _leading_components(features - mean, count, state)
        real = int((lengths > 1e-5 * lengths[0]).sum())  # in float32, missing components have lengths of about 1e-7
        if real == 0:
            raise BadInput("All training images have the same features, so a PCA is not defined.")
        spread = lengths[:real] / np.sqrt(rows - 1)
        components = components[:real]
        if real < dim:
            extra = numpy_stream(0, "pca", "rest").normal(size=(dim - real, width))
            for _ in range(2):  # twice: once leaves rounding errors along the components
                extra -= (extra @ components.T) @ components
            components = np.concatenate([components, np.linalg.qr(extra.T)[0].T.astype(np.float32)])
        spread = np.concatenate([spread, np.full(dim - real, spread[-1])])
        weight = components / spread[:, None] ** whiten
        bias = -(weight.astype(np.float64) @ mean)
    return weight.astype(np.float32), bias.astype(np.float32)


def lda(features: np.ndarray, labels: np.ndarray, dim: int, *, shrinkage: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Weight (dim, width) and bias (dim,) of Fisher's linear discriminants; spread within classes becomes 1.

    Directions v with the largest between-class spread for within-class spread 1: B v = lambda W v, where
    W = (1 - shrinkage) W_data + shrinkage * trace(W_data) / width * I. There are at most classes - 1 of them; further
    rows of the weight are zero. O(rows * width * min(rows, width)).

    >>> rows = np.array([[0.0, 0.0], [0.0, 5.0], [1.0, 0.0], [1.0, 5.0]])
    >>> weight, bias = lda(rows, np.array([0, 0, 1, 1]), 1)
    >>> bool(abs(weight[0, 0]) > 3 * abs(weight[0, 1]))
    True
    """
    import scipy.linalg  # import before limiting threads

    classes, codes, counts = np.unique(np.asarray(labels), return_inverse=True, return_counts=True)
    if len(classes) < 2 or len(features) == len(classes):
        raise BadInput("Linear discriminants need at least two classes, and at least one of them with two images.")
    rows, width = features.shape
    with threadpool_limits(1, user_api="blas"):
        features = np.asarray(features, dtype=np.float32)
        mean = features.mean(axis=0, dtype=np.float64).astype(np.float32)
        centred = features - mean
        basis = None
        if rows < width:  # the solution is in the span of the rows
            lengths, directions = scipy.linalg.eigh((centred @ centred.T).astype(np.float64))
            real = lengths > 1e-6 * lengths.max()
            basis = ((directions[:, real] / np.sqrt(lengths[real])).T.astype(np.float32)) @ centred
            centred = centred @ basis.T
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        by_class = centred[np.argsort(codes, kind="stable")]
        means = np.add.reduceat(by_class, starts, axis=0, dtype=np.float64) / counts[:, None]
        inside = centred - means[codes].astype(np.float32)
        within = (inside.T @ inside).astype(np.float64) / rows
        ridge = shrinkage * np.trace(within) / width
        if ridge <= 0:
            raise BadInput("The images of each class have identical features, so linear discriminants are not defined.")
        within *= 1 - shrinkage
        within[np.diag_indices_from(within)] += ridge
        factor = scipy.linalg.cholesky(within, lower=True, overwrite_a=True, check_finite=False)
        between = means * np.sqrt(counts / rows)[:, None]
        white = scipy.linalg.solve_triangular(factor, between.T, lower=True, check_finite=False)
        values, vectors = scipy.linalg.eigh(white.T @ white)  # classes x classes; left singular vectors from the right
        kept = np.argsort(values)[::-1][: min(dim, len(classes) - 1)]
        kept = kept[values[kept] > 1e-10 * values.max()]
        directions = white @ (vectors[:, kept] / np.sqrt(values[kept]))
        weight = scipy.linalg.solve_triangular(factor, directions, lower=True, trans="T", check_finite=False).T
        if basis is not None:
            weight = weight @ basis
        full = np.zeros((dim, width), dtype=np.float64)
        full[: len(weight)] = weight
        return full.astype(np.float32), (-(full @ mean)).astype(np.float32)


def _leading_components(rows: np.ndarray, count: int, state: int) -> tuple[np.ndarray, np.ndarray]:
    """Lengths (count,) and right singular vectors (count, width) of `rows`, the longest first (Halko et al. 2011).

    The bits of scikit-learn's `randomized_svd` with four power iterations, without its import, which takes a second.
    """
    from scipy.linalg import lu, qr, svd

    wide = len(rows) < rows.shape[1]
    matrix = rows.T if wide else rows
    size = (matrix.shape[1], count + _OVERSAMPLING)
    probes: np.ndarray = np.random.RandomState(state).normal(size=size).astype(np.float32)
    for _ in range(4):
        probes, _ = lu(matrix @ probes, permute_l=True, check_finite=False)
        probes, _ = lu(matrix.T @ probes, permute_l=True, check_finite=False)
    basis, _ = qr(matrix @ probes, mode="economic", check_finite=False)
    left, lengths, right = svd(basis.T @ matrix, full_matrices=False)
    left = basis @ left
    by_row = right if wide else left.T  # singular vectors with one number for each row: their largest is positive
    signs = np.sign(np.take_along_axis(by_row, np.abs(by_row).argmax(axis=1)[:, None], axis=1))
    return lengths[:count], ((left.T if wide else right) * signs)[:count]
