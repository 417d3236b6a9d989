from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy.stats import entropy
from sklearn import metrics

from levelfield.evaluation.metrics import clustering


def agree_with_scikit_learn(labels: np.ndarray, found: np.ndarray) -> None:
    table = clustering.tabulate(labels, found)
    for form in ("arithmetic", "geometric", "min", "max"):
        want = metrics.normalized_mutual_info_score(labels, found, average_method=form)
        assert clustering.nmi(table, form=form) == pytest.approx(want, abs=1e-10)
    assert clustering.ari(table) == pytest.approx(metrics.adjusted_rand_score(labels, found), abs=1e-12)
    assert clustering.ami(table) == pytest.approx(metrics.adjusted_mutual_info_score(labels, found), abs=1e-10)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("classes", "clusters"), [(2, 2), (5, 9), (30, 3), (40, 40)])
def test_agrees_with_scikit_learn(seed, classes, clusters):
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, 120)
    found = np.where(random.random(120) < 0.5, labels % clusters, random.integers(0, clusters, 120))
    agree_with_scikit_learn(labels, found)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=40))
@example([(4, 0)] * 3)  # one class and one cluster
@example([(1, 4), (2, 5), (3, 6)])  # every sample alone in both
@example([(1, 0), (1, 0), (2, 0), (2, 0)])  # one entropy is 0, the other is not
@example([(1, 0), (1, 1), (1, 0), (1, 1)])
def test_agrees_with_scikit_learn_on_any_small_table(pairs):
    labels, found = np.array(pairs).T
    table = clustering.tabulate(labels, found)
    # Where chance alone gives nearly the most there is, AMI is one rounding error divided by another.
    most = (entropy(table.classes) + entropy(table.clusters)) / 2
    assume(table.trivial or most == 0 or most - clustering.expected_mutual_information(table) > 1e-4)
    agree_with_scikit_learn(labels, found)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=30), st.randoms())
def test_names_and_order_are_irrelevant(pairs, random):
    names = np.array([2**53 + 1, 2**53, -(2**40), 0, 7, 2**62])
    texts = np.array(["a", "B", "", "ü", "10", "9"])
    labels, found = np.array(pairs).T
    shuffled = np.array(random.sample(range(len(pairs)), len(pairs)))
    table = clustering.tabulate(labels, found)
    renamed = clustering.tabulate(names[labels][shuffled], texts[found][shuffled])
    for metric in (clustering.nmi, clustering.ami, clustering.ari, clustering.f1):
        assert metric(renamed) == metric(table)


def test_many_clusters_stay_quick():
    random = np.random.default_rng(1)
    table = clustering.tabulate(random.integers(0, 11_000, 60_000), random.integers(0, 11_000, 60_000))
    assert abs(clustering.ami(table)) < 0.01  # a loop over all 11,000^2 cells would take minutes
