"""Invalid labels and settings are refused on creation, and the message states the requirement."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from levelfield.batching import Choice, Layout, create, describe, names
from levelfield.errors import BadInput, BadSpecification

LABELS = np.repeat(np.arange(10), 5)


NO_LABELS = (["cat", "cat"], [None, 1], [0.0, 1.0], [True, False], [[0, 1]], [[0], [1, 2]], [], 3, None)


@pytest.mark.parametrize("name", names())
def test_labels_that_are_no_list_of_integers_are_refused(name):
    for labels in NO_LABELS:
        with pytest.raises(BadInput, match="Labels must be a non-empty list of integers"):
            create(name, labels, batch_size=10, batches_per_epoch=2)


@pytest.mark.parametrize("name", names())
def test_numbers_that_every_batching_has_are_whole_ones(name):
    for key in ("batch_size", "seed", "batches_per_epoch", "rank", "world"):
        for value in ("10", [], 1.5, True, float("nan"), -1):
            with pytest.raises(BadSpecification, match=f"'{key}' is "):
                create(name, LABELS, **{"batch_size": 20, key: value})


@pytest.mark.parametrize("name", [name for name in names() if "small" in describe(name).settings])
def test_a_treatment_of_small_classes_that_is_none_is_refused(name):
    for value in (3, None, [], "repaet"):
        with pytest.raises(BadSpecification, match="'small' is "):
            create(name, LABELS, batch_size=10, small=value)


def test_numbers_of_numpy_and_labels_of_torch_are_as_good_as_any():
    plain = create("spc", LABELS, batch_size=10, samples_per_class=5, seed=3)
    other = create(
        "spc", torch.from_numpy(LABELS), batch_size=np.int64(10), samples_per_class=np.int32(5), seed=np.int64(3)
    )
    assert np.array_equal(plain.plan(1), other.plan(1))


@pytest.mark.parametrize(
    ("name", "change", "told"),
    [
        ("spc", {"replace": "yes"}, "'replace' is 'yes'"),
        ("greedy_coreset", {"pool": "al"}, "'pool' is 'al'; it must be a number of images, or all"),
        ("ddm", {"pol": 3}, "Did you mean 'pool'"),
        ("ddm", {"3": 3}, "The batching 'ddm' has no setting '3'"),
        ("ddm", {"distance": "euclidean"}, "'distance'"),
        ("ddm", {"bins": 0}, "'bins'"),
        ("ddm", {"moments": 1}, "'moments'"),
        ("ddm", {"candidates": 0}, "'candidates'"),
        ("frd", {"shared": "yes"}, "'shared'"),
        ("frd", {"pool": 6}, "'pool' is 6; it must be at least the batch size 10"),
        ("frd", {"bins": 50}, "no setting 'bins'"),
        ("greedy_coreset", {"pool": 3}, "'pool' is 3; a batch needs 5 anchors"),
        ("d2_coreset", {"power": -1}, "'power'"),
        ("d2_coreset", {"refresh": "daily"}, "'refresh'"),
    ],
)
def test_settings_of_one_are_checked(name, change, told):
    with pytest.raises(BadSpecification, match=told):
        Choice(name, change).make(LABELS, Layout.parse("5x2"))


def test_a_study_cannot_set_what_the_run_gives():
    for key in ("labels", "batch_size", "seed", "rank", "world"):
        with pytest.raises(BadSpecification, match=f"'ddm' cannot set '{key}' here"):
            Choice.of({"ddm": {key: 4}}).make(LABELS, Layout.parse("5x2"))


def test_a_layout_without_images_is_none():
    for text in ("4x0", "0x4", "1", "4x", "x4", "-4x2", "4x2x2", ""):
        with pytest.raises(BadSpecification, match="is not a batch"):
            Layout.parse(text)


@pytest.mark.parametrize("name", names())
def test_what_is_said_of_a_batching_names_every_setting_and_makes_it(name):
    about = describe(name)
    assert about.what
    assert [key for key in about.settings if not re.search(rf"\b{key}\b", about.text)] == []
    assert (
        create(name, LABELS, batch_size=20, **about.settings).settings()
        == create(name, LABELS, batch_size=20).settings()
    )


def test_more_random_images_than_there_are_is_refused_at_once():
    with pytest.raises(BadSpecification, match="A batch of 60 is too large for 50 images"):
        create("random", LABELS, batch_size=60, batches_per_epoch=1)


def test_d2_can_choose_from_a_single_image():
    batches = create("d2_coreset", [3], batch_size=2, batches_per_epoch=1)
    with np.errstate(all="raise"):
        assert batches.plan(0, np.ones((1, 4))).tolist() == [[0, 0]]
