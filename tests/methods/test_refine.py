"""Message passing at test time: groups against loops, refined rows, and the settings of a refinement."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

from levelfield import methods, objectives
from levelfield.errors import BadSpecification, LevelfieldError
from levelfield.methods import Setting
from levelfield.methods.refine import groups as grouping
from levelfield.methods.refine import passing
from levelfield.methods.refine.groups import chunks_of, cluster_groups, dealt, nearest_groups, reciprocal_groups
from levelfield.methods.refine.passing import WAYS, Refinement, refine, settings_of
from levelfield.randomness import numpy_stream, stream


def rows_of(count: int, dim: int = 3, name: str = "rows") -> np.ndarray:
    """Some blobs on a coarse grid, so that many distances are equal and many rows, too."""
    drawn = numpy_stream(0, "refine", name)
    return np.round(drawn.normal(size=(5, dim))[drawn.integers(5, size=count)] * 2 + drawn.normal(size=(count, dim)))


def ranked(query: np.ndarray, rows: np.ndarray) -> list[int]:
    return sorted(range(len(rows)), key=lambda j: (float(((query - rows[j]) ** 2).sum()), j))


def lists_by_loop(rows: np.ndarray, k: int) -> list[list[int]]:
    return [[q, *[j for j in ranked(rows[q], rows) if j != q][:k]] for q in range(len(rows))]


def reciprocal_by_loop(
    rows: np.ndarray, gallery: np.ndarray | None, k: int, alpha: float, size: int, *, strict: bool
) -> tuple[list[list[int]], list[int], list[int]]:
    """Sample by sample, set by set."""
    half = round(k / 2)
    if gallery is None:
        near, wide = lists_by_loop(rows, k), lists_by_loop(rows, half)
        own = [{g for g in near[q] if q in near[g]} for q in range(len(rows))]
    else:
        near, wide = [ranked(q, gallery)[: k + 1] for q in rows], lists_by_loop(gallery, half)
        back = [ranked(g, rows)[: k + 1] for g in gallery]
        own = [{g for g in near[q] if q in back[g]} for q in range(len(rows))]
    others = [{g for g in wide[q] if q in wide[g]} for q in range(len(wide))]
    groups, sizes = [], []
    for q in range(len(rows)):
        union = set(own[q])
        for g in own[q]:
            shared, needed = len(others[g] & own[q]), alpha * len(others[g])
            if shared > needed if strict else shared >= needed:
                union |= others[g]
        sizes.append(len(union))
        order = ranked(rows[q], rows if gallery is None else gallery)
        if gallery is None:
            order.remove(q)
            union.discard(q)
        order = [j for j in order if j in union] + [j for j in order if j not in union]
        groups.append([q, *order[: size - 1]])
    return groups, [len(members) for members in own], sizes


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("queries", "k", "size"),
    [
        *((None, k, size) for k, size in ((1, 2), (5, 4), (6, 7), (7, 20), (100, 3))),
        *((20, 5, 4), (20, 4, 1), (1, 6, 5), (30, 60, 41)),  # queries in a gallery
    ],
)
def test_reciprocal_groups_are_the_slow_loops(queries: int | None, k: int, size: int, strict: bool) -> None:
    rows = (rows_of(40),) if queries is None else (rows_of(queries, name="queries"), rows_of(40))
    found = reciprocal_groups(*rows, k=k, alpha=0.5, size=size, strict=strict)
    groups, own, expanded = reciprocal_by_loop(rows[0], *(rows[1:] or [None]), k, 0.5, size, strict=strict)
    assert found.members.tolist() == groups
    assert found.reciprocal_size.tolist() == own
    assert found.expanded_size.tolist() == expanded


def test_a_row_comes_first_in_its_group_even_if_others_equal_it() -> None:
    members = reciprocal_groups(np.ones((9, 4)), k=3, size=4).members
    assert members[:, 0].tolist() == list(range(9))
    assert members[5].tolist() == [5, 0, 1, 2]


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(120)
    before, objective = reciprocal_groups(rows, k=6, size=5), made()
    refined = refine(objective, rows + 0.5, k=6, size=5)
    monkeypatch.setattr(grouping, "_ENTRIES", 1)
    monkeypatch.setattr("levelfield.evaluation.search.dense._ENTRIES", 1)
    monkeypatch.setattr(passing, "_ENTRIES", 200)
    for one, other in zip(before, reciprocal_groups(rows, k=6, size=5), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(refine(objective, rows + 0.5, k=6, size=5), refined, atol=1e-6)


def made(**settings: Any) -> Any:
    settings = {"heads": 1, "dropout": 0.5, "generator": stream(0, "refine"), **settings}
    return objectives.create("message_passing", num_classes=4, dim=3, **settings)


def test_the_query_of_each_group_is_refined_by_itself() -> None:
    objective, rows = made(), rows_of(12) + 0.5
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    found = refine(objective, rows, k=4, size=3)
    for query, members in enumerate(reciprocal_by_loop(unit, None, 4, 2 / 3, 3, strict=False)[0]):
        alone = objective.refine(torch.from_numpy(rows[members]))[0].numpy()
        np.testing.assert_allclose(found[query], alone, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)


def test_queries_are_refined_with_members_of_the_gallery() -> None:
    objective, rows, gallery = made(), rows_of(5, name="queries") + 0.5, rows_of(20) + 0.25
    unit = [some / np.linalg.norm(some, axis=1, keepdims=True) for some in (rows, gallery)]
    found = refine(objective, rows, gallery, k=4, size=3)
    for query, (own, *others) in enumerate(reciprocal_by_loop(*unit, 4, 2 / 3, 3, strict=False)[0]):
        group = torch.from_numpy(np.stack([rows[own], *gallery[others]]))
        np.testing.assert_allclose(found[query], objective.refine(group)[0].numpy(), atol=1e-6)


def test_nearest_groups_are_chunks_of_an_anchor_and_its_nearest() -> None:
    rows = rows_of(20)
    members, kept, *_ = nearest_groups(rows, chunks=3, size=4)
    assert members.shape == (7, 12)
    assert kept == (0, 4, 8)
    anchors = members[:, kept].ravel()
    assert sorted(anchors[:20].tolist()) == list(range(20))
    for chunk in members.reshape(-1, 4):
        assert chunk.tolist() == lists_by_loop(rows, 3)[chunk[0]]


def test_chunks_hold_one_label_each_and_everybody_and_are_dealt_by_the_seed() -> None:
    labels = np.array([3, 3, 3, 8, 8, 5, 3, 3])
    chunks = chunks_of(labels, 2, seed=0)
    assert len(chunks) == 3 + 1 + 1
    assert all(len(set(labels[chunk])) == 1 for chunk in chunks)
    assert set(chunks.ravel()) == set(range(8))
    groups = dealt(chunks, 2, seed=0)
    assert groups.shape == (3, 4)
    assert {tuple(chunk) for chunk in groups.reshape(-1, 2).tolist()} == {tuple(chunk) for chunk in chunks.tolist()}
    np.testing.assert_array_equal(groups, cluster_groups(labels, chunks=2, size=2).members)
    assert len({cluster_groups(labels, chunks=2, size=2, seed=seed).members.tobytes() for seed in range(5)}) == 5


SETTINGS: dict[str, dict[str, Any]] = {
    "kmeans": {"clusters": 3},
    "ward": {"clusters": 3},
    "spectral": {"clusters": 3, "neighbours": 4},
    "birch": {"clusters": 3, "threshold": 0.1},
    "dbscan": {"eps": 0.3, "min_samples": 3},
    "optics": {"eps": 0.3, "min_samples": 3},
}


def blobs() -> tuple[np.ndarray, np.ndarray]:
    labels = np.repeat(np.arange(3), 8)
    return np.eye(3)[labels] + 0.02 * numpy_stream(0, "blobs").normal(size=(24, 3)), labels


@pytest.mark.parametrize("clustering", SETTINGS)
def test_clusters_that_are_plain_to_see_are_found_and_again(clustering: str) -> None:
    rows, labels = blobs()
    found = WAYS[clustering][0](rows, **SETTINGS[clustering])
    np.testing.assert_array_equal(found[:, None] == found, labels[:, None] == labels)
    np.testing.assert_array_equal(found, WAYS[clustering][0](rows, **SETTINGS[clustering]))


@pytest.mark.parametrize("clustering", ["dbscan", "optics"])
@pytest.mark.parametrize(("noise", "clusters"), [("together", 4), ("alone", 5)])
def test_noise_is_in_some_cluster(clustering: str, noise: str, clusters: int) -> None:
    rows, _ = blobs()
    rows = np.concatenate((rows, [[-9, 0, 0], [0, -9, 0]]))
    found = WAYS[clustering][0](rows, **SETTINGS[clustering], noise=noise)
    assert len(set(found)) == clusters
    assert found.min() >= 0
    nothing = WAYS[clustering][0](rows[:4] * 100, **SETTINGS[clustering], noise=noise)
    assert len(set(nothing)) == (1 if noise == "together" else 4)


@pytest.mark.parametrize("by", WAYS)
def test_every_way_refines_everybody_in_the_same_bits(by: str) -> None:
    objective, (rows, _) = made(), blobs()
    settings = SETTINGS.get(by, {"size": 4}) | ({"chunks": 2, "size": 3} if by != "reciprocal" else {})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = refine(objective, rows, by=by, **settings)
    assert found.shape == rows.shape
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(found, refine(objective, rows, by=by, **settings))


@pytest.mark.parametrize("by", ["kmeans", "ward", "spectral"])
def test_as_many_clusters_as_rows_at_most(by: str) -> None:
    """The default of 900 is more than a small test set has."""
    rows, _ = blobs()
    assert Refinement(by, {"chunks": 2, "size": 2}).groups(rows).members.shape == (12, 4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"by": "recipocal"}, "Did you mean 'reciprocal'"),
        ({"by": "nearest", "k": 3}, "no setting 'k'"),
        ({"by": "ward", "eps": 3}, "no setting 'eps'.*It takes: chunks, clusters, seed, size"),
        ({"size": 25}, "group size is 25, but there are only 24"),
        ({"by": "nearest", "size": 25}, "chunk size is 25"),
        ({"by": "dbscan", "noise": "away"}, "'noise' is 'away'"),
        ({"by": "nearest", "gallery": np.eye(3)}, "does not support queries with a gallery"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(LevelfieldError, match=message):
        refine(made(), blobs()[0], **settings)


def test_a_study_and_the_command_line_say_the_same() -> None:
    for by in WAYS:
        name, usual = next(iter(settings_of(by).items()))
        assert Refinement.parse(f"{by}:{name}={usual}") == Refinement.of({"by": by, name: usual})
        assert Refinement.parse(by) == Refinement.of(by) == Refinement(by)
    assert Refinement.parse("dbscan:noise=alone:eps=0.5").settings == {"noise": "alone", "eps": 0.5}
    assert Refinement.parse("reciprocal:strict=true").settings == {"strict": True}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("reciprocl", "Did you mean 'reciprocal'"),
        ("nearest:sise=4", "no setting 'sise'. Did you mean 'size'"),
        ("nearest:rows=4", "no setting 'rows'"),
        ("nearest:size", "'size' in 'nearest:size' is not a setting"),
        ("nearest:size=big", "'size' is 'big'"),
        ("reciprocal:strict=1", "'strict' is 1"),
        ("birch:threshold=low", "'threshold' is 'low'"),
    ],
)
def test_a_wrong_text_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(LevelfieldError, match=message):
        Refinement.parse(text)


def method(name: str = "message_passing", **settings: Any) -> methods.Method:
    heads = {"heads": 1} if name == "message_passing" else {}
    return methods.create(name, num_classes=3, dim=3, **heads, **settings)


@pytest.mark.parametrize("setting", [True, 3, {"size": 5}, ["nearest"]])
def test_a_study_must_name_a_way(setting: Any) -> None:
    with pytest.raises(BadSpecification, match="use one of"):
        method(refine=setting)


def test_a_method_refines_and_declares_it() -> None:
    rows, _ = blobs()
    setting = {"by": "nearest", "size": 3, "chunks": 2}
    refining, plain, wide = method(refine=setting), method(), method(refine="reciprocal", steps=2, concat_steps=True)
    np.testing.assert_array_equal(refining.refine(rows), refine(refining.objective, rows, **setting))
    assert plain.refine(rows) is rows
    assert refining.deviations(Setting(3, 16))["refined"] == "nearest size=3 chunks=2"
    assert wide.deviations(Setting(3, 16))["dim"] == 6 == wide.refine(rows).shape[1]
    assert method(refine=False).refinement is None
    with pytest.raises(BadSpecification, match="wider than gallery rows"):
        wide.refine(rows, rows)
    with pytest.raises(BadSpecification, match="needs the objective 'message_passing'"):
        method("softmax", refine="reciprocal")
    with pytest.raises(BadSpecification, match="message-passing network is not trained"):
        method(message_weight=0, refine="reciprocal")
