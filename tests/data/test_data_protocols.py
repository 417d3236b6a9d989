"""Which classes train, validate and test."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelfield.data import Catalog, protocols
from levelfield.errors import BadInput, BadSpecification, UnknownName


def catalog(sizes, groups=None, shuffle=None):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    if shuffle is not None:
        labels = np.random.default_rng(shuffle).permutation(labels)
    return Catalog("test", tuple(Path(str(i)) for i in range(len(labels))), labels,
                   tuple(f"class {i}" for i in range(len(sizes))), None if groups is None else np.array(groups))


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
@settings(max_examples=150, deadline=None)
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


def test_impossible_wishes_are_refused():
    with pytest.raises(BadInput, match="at least 4"):
        protocols.create("standard", catalog([5, 5, 5]))
    with pytest.raises(BadInput, match=r"No test class .* two images"):
        protocols.create("standard", catalog([5, 5, 1, 1]))
    with pytest.raises(BadInput, match=r"No validation class .* two images"):
        protocols.create("standard", catalog([5, 5, 1, 1, 5, 5, 5, 5]), validation=0.5)
    with pytest.raises(BadInput, match="one group"):
        protocols.create("standard", catalog([2] * 4, groups=[3] * 4))
    with pytest.raises(BadInput, match="fewer than 2 classes"):
        protocols.create("standard", catalog([5] * 4), validation=0.5)
    with pytest.raises(BadInput, match="at least 2"):
        protocols.create("all-classes", catalog([5]))
    with pytest.raises(BadSpecification, match="share"):
        protocols.create("standard", catalog([5] * 8), validation=1.0)
    with pytest.raises(UnknownName, match="Did you mean 'standard'"):
        protocols.create("standart", catalog([5] * 8))


def test_emoji_keep_variants_of_one_emoji_on_one_side(emoji):
    [fold] = protocols.create("standard", emoji, validation=0.25)
    assert [len(classes(emoji, part)) for part in (fold.train, fold.validation, fold.test)] == [580, 194, 774]
    owners = [set(emoji.groups[emoji.labels[part]].tolist()) for part in (fold.train, fold.validation, fold.test)]
    assert sum(map(len, owners)) == 1336 == len(set.union(*owners))
