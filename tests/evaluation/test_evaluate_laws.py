from __future__ import annotations

import numpy as np
import pytest
import torch

from levelfield.evaluation import evaluate, names
from levelfield.evaluation.inputs import check_inputs
from levelfield.evaluation.search import blocked
from levelfield.evaluation.search.arrangement import EVERYWHERE, arrange
from levelfield.evaluation.search.blocked import blocked_counts

ALL = ["recall@1", "recall@2", "recall@8", "precision@1", "precision@4", "r_precision", "map@r", "map", "mrr"]
ALL += ["map@c[released]", "map@10"]


@pytest.fixture
def sample():
    """Overlapping classes of uneven size, with a lone query, duplicates within and between classes."""
    random = np.random.default_rng(0)
    labels = np.concatenate([random.integers(0, 40, 299), [99]])
    points = (random.normal(size=(100, 12))[labels] + 1.2 * random.normal(size=(300, 12))).astype(np.float32)
    points[10], points[20] = points[11], points[21]
    labels[10], labels[20] = labels[11], labels[21] + 1
    return points, labels


@pytest.mark.parametrize(
    ("distance", "average"), [("cosine", "query"), ("euclidean", "class"), ("dot", "query"), ("hamming", "class")]
)
def test_row_order_and_random_state_change_no_bit_and_nothing_is_written(sample, distance, average):
    points, labels = sample
    copies, state = (points.copy(), labels.copy()), (torch.get_rng_state(), np.random.get_state()[1].copy())  # noqa: NPY002
    points.setflags(write=False)
    order = np.random.default_rng(1).permutation(len(points))
    asked = {"metrics": [*ALL, "nmi", "ami", "ari", "f1"], "distance": distance, "average": average, "ci": 0.9}
    one, other = evaluate(points, labels, **asked), evaluate(points[order], labels[order], **asked)
    assert (dict(one), one.intervals) == (dict(other), other.intervals)
    for name in ALL:
        np.testing.assert_array_equal(one.per_query[name][order], other.per_query[name])
    np.testing.assert_array_equal(points, copies[0])
    np.testing.assert_array_equal(labels, copies[1])
    assert torch.equal(state[0], torch.get_rng_state())
    np.testing.assert_array_equal(state[1], np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize("size", [(192, 192), (96, 480), (96, 96)])
@pytest.mark.parametrize("searched", ["self", "gallery"])
def test_block_size_changes_no_bit(sample, size, searched, monkeypatch):
    points, labels = sample
    other = {} if searched == "self" else {"gallery": points[:200], "gallery_labels": labels[:200]}
    arranged = arrange(check_inputs(points, labels, **other), distance="euclidean")
    reach = np.full(len(points), EVERYWHERE)
    one = blocked_counts(arranged, reach, 0, len(points))
    monkeypatch.setattr(blocked, "HEIGHT", size[0])
    monkeypatch.setattr(blocked, "WIDTH", size[1])
    other = blocked_counts(arranged, reach, 0, len(points))
    for name in ("starts", "near", "above", "level", "active"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize("distance", ["dot", "euclidean", "cosine"])
@pytest.mark.parametrize(("kind", "size"), [(np.float32, 2.0**110), (np.float64, 2.0**1020), (np.float64, 2.0**-1000)])
def test_sizes_at_the_edge_of_a_type_change_nothing(sample, distance, kind, size):
    points, labels = sample[0].astype(kind), sample[1]
    found = evaluate(points * kind(size), labels, distance=distance)
    assert dict(found) == dict(evaluate(points, labels, distance=distance))
    assert 0 < evaluate(points * kind(size), labels, metrics="nmi", distance=distance, starts=1)["nmi"] < 1


@pytest.mark.parametrize("name", [name.replace("@K", "@3") for name in names()])
def test_every_metric_works_alone_and_equals_itself_among_others(sample, name):
    points, labels = sample
    alone = evaluate(points, labels, metrics=[name])
    assert list(alone) == [name]
    assert alone[name] == evaluate(points, labels, metrics=["mrr", "recall@1", "f1", name])[name]


def test_class_means_weighted_by_their_queries_give_the_query_mean(sample):
    result = evaluate(*sample, metrics=["map@r"])
    found = result.per_class("map@r")
    assert found.queries.sum() == result.n_queries - result.n_lone
    assert np.average(found.means, weights=found.queries) == pytest.approx(result["map@r"])
    assert evaluate(*sample, metrics=["map@r"], average="class")["map@r"] == pytest.approx(found.means.mean())


def test_truncated_dimensions_half_precision_and_tensors_are_accepted(sample):
    points, labels = sample
    cut = evaluate(points, labels, dim=5)
    assert dict(cut) == dict(evaluate(points[:, :5], labels))
    assert cut.signature("map").representation.dim == 5
    half = points.astype(np.float16)
    want = dict(evaluate(half.astype(np.float32), labels))
    assert dict(evaluate(half, labels)) == want
    assert dict(evaluate(torch.from_numpy(half), torch.from_numpy(labels))) == want
    assert evaluate(half, labels).signature("map").representation.bits == 16
    bfloat = torch.from_numpy(points).bfloat16().requires_grad_()
    assert dict(evaluate(bfloat, labels)) == dict(evaluate(bfloat.detach().float(), labels))
