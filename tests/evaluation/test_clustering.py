from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics

from levelfield.errors import BadInput
from levelfield.evaluation import clustering


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("classes", "clusters"), [(2, 2), (5, 9), (30, 3), (40, 40)])
def test_agrees_with_scikit_learn(seed, classes, clusters):
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, 120)
    found = np.where(random.random(120) < 0.5, labels % clusters, random.integers(0, clusters, 120))
    table = clustering.tabulate(labels, found)
    for form in ("arithmetic", "geometric", "min", "max"):
        want = metrics.normalized_mutual_info_score(labels, found, average_method=form)
        assert clustering.nmi(table, form=form) == pytest.approx(want, abs=1e-12)
    assert clustering.ami(table) == pytest.approx(metrics.adjusted_mutual_info_score(labels, found), abs=1e-9)
    assert clustering.ari(table) == pytest.approx(metrics.adjusted_rand_score(labels, found), abs=1e-12)


def test_pair_f1_agrees_with_a_loop_over_pairs():
    random = np.random.default_rng(9)
    labels, found = random.integers(0, 4, 30), random.integers(0, 5, 30)
    pairs = [(labels[i] == labels[j], found[i] == found[j]) for i in range(30) for j in range(i)]
    hit = sum(a and b for a, b in pairs)
    same_class, same_cluster = sum(a for a, _ in pairs), sum(b for _, b in pairs)
    table = clustering.tabulate(labels, found)
    assert clustering.pair_precision(table) == pytest.approx(hit / same_cluster)
    assert clustering.pair_recall(table) == pytest.approx(hit / same_class)
    assert clustering.f1(table) == pytest.approx(2 * hit / (same_class + same_cluster))


def test_expected_information_stays_quick_with_many_clusters():
    random = np.random.default_rng(1)
    table = clustering.tabulate(random.integers(0, 11_000, 60_000), random.integers(0, 11_000, 60_000))
    assert abs(clustering.ami(table)) < 0.01  # a loop over all 11,000^2 cells would take minutes


def test_unequal_lengths_are_refused():
    with pytest.raises(BadInput, match="one of each per sample"):
        clustering.tabulate(np.zeros(3, int), np.zeros(4, int))
