"""Protocols: training, validation and test classes."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as drawing
from hypothesis import strategies as st

from levelfield.data import Catalog, protocols
from levelfield.errors import BadInput, BadSpecification, UnknownName


def catalog(sizes, groups=None, shuffle=None):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    if shuffle is not None:
        labels = np.random.default_rng(shuffle).permutation(labels)
    return Catalog(
        "test",
        tuple(Path(str(i)) for i in range(len(labels))),
        labels,
        tuple(f"class {i}" for i in range(len(sizes))),
        None if groups is None else np.array(groups),
    )


def classes(data, images):
    return np.unique(data.labels[images]).tolist()


def test_first_half_of_the_classes_trains_second_half_tests():
    data = catalog([2] * 7)
    [fold] = protocols.create("standard", data)
    assert classes(data, fold.train) == [0, 1, 2]
    assert classes(data, fold.test) == [3, 4, 5, 6]
    assert fold.validation.size == 0


def test_last_training_classes_validate():
    data = catalog([2] * 20)
    [fold] = protocols.create("standard", data, validation=0.3)
    assert classes(data, fold.train) == list(range(7))
    assert classes(data, fold.validation) == [7, 8, 9]
    assert classes(data, fold.test) == list(range(10, 20))


def test_cut_moves_to_the_nearest_boundary_of_contiguous_groups():
    data = catalog([2] * 10, groups=[0, 0, 0, 1, 1, 1, 1, 2, 2, 2])
    [fold] = protocols.create("standard", data)
    assert classes(data, fold.train) == [0, 1, 2]  # 3 and 7 are equally near to 5: the earlier
    data = catalog([2] * 10, groups=[0, 0, 0, 1, 1, 1, 2, 2, 2, 2])
    [fold] = protocols.create("standard", data)
    assert classes(data, fold.train) == [0, 1, 2, 3, 4, 5]


def test_scattered_groups_are_assigned_by_first_appearance_until_half_is_reached():
    data = catalog([2] * 8, groups=[5, 1, 5, 1, 7, 5, 9, 7])
    [fold] = protocols.create("standard", data)
    assert classes(data, fold.train) == [0, 1, 2, 3, 5]
    assert classes(data, fold.test) == [4, 6, 7]


@given(st.lists(st.integers(0, 5), min_size=4, max_size=20), st.sampled_from([0.0, 0.2, 0.5]), st.integers(0, 99))
@drawing(max_examples=150, deadline=None)
def test_no_image_class_or_group_is_in_two_parts_and_none_is_lost(groups, validation, seed):
    data = catalog([2] * len(groups), groups=groups, shuffle=seed)
    try:
        [fold] = protocols.create("standard", data, validation)
    except BadInput as error:
        assert "group" in str(error) or "fewer than 2 classes" in str(error)  # noqa: PT017
        return
    parts = [fold.train, fold.validation, fold.test]
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(data)))
    assert all((np.diff(part) > 0).all() for part in parts)
    owners = [set(data.groups[data.labels[part]].tolist()) for part in parts]
    assert sum(map(len, owners)) == len(set.union(*owners))
    assert bool(validation) == bool(len(fold.validation))


def test_all_classes_train_and_some_may_validate():
    data = catalog([2] * 10)
    [fold] = protocols.create("all-classes", data)
    assert len(fold.train) == 20
    assert fold.test.size == fold.validation.size == 0
    [fold] = protocols.create("all-classes", data, validation=0.2)
    assert classes(data, fold.validation) == [8, 9]


@pytest.mark.parametrize(
    ("protocol", "classes", "settings", "error", "message"),
    [
        ("standard", catalog([5] * 3), {}, BadInput, "at least 4"),
        ("standard", catalog([5, 5, 1, 1]), {}, BadInput, r"No test class .* two images"),
        ("standard", catalog([5, 5, 1, 1, 5, 5, 5, 5]), {"validation": 0.5}, BadInput, r"No validation class .* two"),
        ("standard", catalog([2] * 4, groups=[3] * 4), {}, BadInput, "one group"),
        ("standard", catalog([5] * 4), {"validation": 0.5}, BadInput, "fewer than 2 classes"),
        ("standard", catalog([5] * 8), {"validation": 1.0}, BadSpecification, "share"),
        ("standart", catalog([5] * 8), {}, UnknownName, "Did you mean 'standard'"),
        ("all-classes", catalog([5]), {}, BadInput, "at least 2"),
        ("mlrc", catalog([2] * 14), {}, BadInput, "some fold has fewer than 2"),
        ("mlrc", catalog([2] * 6), {}, BadInput, r"has 3 classes; 4 folds need at least as many"),
        ("mlrc", catalog([2] * 40), {"validation": 0.2}, BadSpecification, "remove `validation`"),
        ("mlrc", catalog([2] * 40), {"form": "round"}, BadSpecification, "form"),
        ("mlrc", catalog([2] * 40), {"fold": 3}, BadSpecification, "no setting 'fold'"),
        ("mlrc", catalog([2] * 40, groups=range(40)), {"form": "rotating"}, BadSpecification, "divide the groups"),
    ],
)
def test_impossible_folds_are_refused(protocol, classes, settings, error, message):
    with pytest.raises(error, match=message):
        protocols.create(protocol, classes, **settings)


def test_emoji_keep_variants_of_one_emoji_on_one_side(emoji):
    [fold] = protocols.create("standard", emoji, validation=0.25)
    assert [len(classes(emoji, part)) for part in (fold.train, fold.validation, fold.test)] == [580, 194, 774]
    owners = [set(emoji.groups[emoji.labels[part]].tolist()) for part in (fold.train, fold.validation, fold.test)]
    assert sum(map(len, owners)) == 1336 == len(set.union(*owners))


def divided(sizes, split, roles=None, groups=None):
    plain = catalog(sizes, groups=groups)
    return Catalog("test", plain.paths, plain.labels, plain.class_names, plain.groups, split=split, roles=roles)


def test_the_makers_split_is_respected_and_a_share_of_its_training_classes_validates():
    data = divided([2] * 6, ("test", "test", *["train"] * 8, "test", "test"))
    [fold] = protocols.create("standard", data, validation=0.5)
    assert [classes(data, part) for part in (fold.train, fold.validation, fold.test)] == [[1, 2], [3, 4], [0, 5]]
    assert fold.query is None


def test_mlrc_trains_on_three_blocks_and_validates_on_one():
    data = catalog([2] * 23)  # 11 train, 12 test
    folds = protocols.create("mlrc", data)
    assert [fold.name for fold in folds] == ["mlrc-0", "mlrc-1", "mlrc-2", "mlrc-3"]
    assert [classes(data, fold.validation) for fold in folds] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10]]
    for fold in folds:
        assert sorted(classes(data, fold.train) + classes(data, fold.validation)) == list(range(11))
        assert classes(data, fold.test) == list(range(11, 23))
    turned = protocols.create("mlrc", data, reversed=True)
    assert classes(data, turned[0].train) == [0, 1, 2]
    assert classes(data, turned[0].validation) == list(range(3, 11))
    rotating = protocols.create("mlrc", data, form="rotating")
    assert classes(data, rotating[0].validation) == [9, 10]


def test_mlrc_never_divides_a_group():
    data = catalog([2] * 20, groups=[0, 0, 0, 1, 2, 2, 3, 3, 3, 4, *range(5, 15)])
    folds = protocols.create("mlrc", data, folds=3)
    assert [classes(data, fold.validation) for fold in folds] == [[0, 1, 2, 3], [4, 5], [6, 7, 8, 9]]


def test_closed_trains_and_tests_the_same_classes():
    data = divided([6] * 4, ("train", "train", "train", "train", "test", "test") * 4)
    [fold] = protocols.create("closed", data)
    assert fold.closed
    assert classes(data, fold.train) == classes(data, fold.test) == [0, 1, 2, 3]
    [fold] = protocols.create("closed", data, validation=0.25)
    assert fold.validation.tolist() == [3, 9, 15, 21]  # the last training image of each class
    with pytest.raises(BadInput, match="protocol 'closed'"):
        protocols.create("standard", data)
    with pytest.raises(BadInput, match="column `split`"):
        protocols.create("closed", catalog([4] * 4))
    with pytest.raises(BadInput, match="two test images"):
        protocols.create("closed", divided([2] * 4, ("train", "test") * 4))
    with pytest.raises(BadInput, match="protocol 'standard'"):
        protocols.create("closed", divided([2] * 4, ("train",) * 4 + ("test",) * 4))


def test_roles_of_every_image_are_a_split_and_make_queries_and_gallery():
    roles = ("train",) * 4 + ("query", "gallery", "gallery", "query")
    data = divided([2] * 4, None, roles=roles)
    [fold] = protocols.create("query-gallery", data)
    assert [fold.train.tolist(), fold.query.tolist(), fold.gallery.tolist()] == [[0, 1, 2, 3], [4, 7], [5, 6]]
    with pytest.raises(BadInput, match="query or gallery"):
        protocols.create("query-gallery", catalog([2] * 4))
    with pytest.raises(BadInput, match=r"No query of .* has a positive"):
        protocols.create("standard", divided([2] * 4, None, roles=("train",) * 4 + ("query",) * 2 + ("gallery",) * 2))


def test_a_split_that_divides_a_group_or_leaves_a_side_empty_is_refused():
    with pytest.raises(BadInput, match="divides the group"):
        protocols.create("standard", divided([2] * 4, ("train",) * 4 + ("test",) * 4, groups=[0, 1, 1, 2]))
    with pytest.raises(BadInput, match="No class of 'test' is in the test part"):
        protocols.create("standard", divided([2] * 4, ("train",) * 8))
    given = divided([2] * 6, ("train",) * 6 + ("validation",) * 2 + ("test",) * 4)
    with pytest.raises(BadSpecification, match="already defines"):
        protocols.create("standard", given, validation=0.2)
