"""Invalid labels, settings and sizes are refused on creation, and the message states the requirement."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from levelfield.batching import Choice, Layout, create, describe, names
from levelfield.errors import BadInput, BadSpecification, LevelfieldError

LABELS = np.repeat(np.arange(10), 5)
UNEVEN = np.repeat(np.arange(10), [2, 3, 4, 5, 6, 7, 8, 9, 10, 11])
NO_LABELS = (["cat", "cat"], [None, 1], [0.0, 1.0], [True, False], [[0, 1]], [[0], [1, 2]], [], 3, None)


@pytest.mark.parametrize("name", names())
def test_wrong_labels_and_numbers_that_every_batching_has_are_refused(name):
    for labels in NO_LABELS:
        with pytest.raises(BadInput, match="Labels must be a non-empty list of integers"):
            create(name, labels, batch_size=10, batches_per_epoch=2)
    for key in ("batch_size", "seed", "batches_per_epoch"):
        for value in ("10", [], 1.5, True, float("nan"), -1):
            with pytest.raises(BadSpecification, match=f"'{key}' is "):
                create(name, LABELS, **{"batch_size": 20, key: value})
    if "small" in describe(name).settings:
        for value in (3, None, [], "repaet"):
            with pytest.raises(BadSpecification, match="'small' is "):
                create(name, LABELS, batch_size=10, small=value)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("spcc", {}, "Did you mean 'spc'"),
        ("spc", {"replace": "yes"}, "'replace' is 'yes'"),
        ("spc", {"sample_per_class": 2}, "Did you mean 'samples_per_class'"),
        ("spc", {"batch_size": 13}, "13 is not a multiple of 2"),
        ("spc", {"batch_size": 40}, "needs 20 classes; there are 10.*at most 10x2"),
        ("spc", {"samples_per_class": 3, "batch_size": 12, "small": "error"}, "1 of 10 classes have fewer than 3"),
        ("random", {"batch_size": 100}, "batch of 100 is too large for 65 images"),
        ("random", {"batch_size": 100, "batches_per_epoch": 1}, "A batch of 100 is too large for 65 images"),
        ("spc_r", {"labels": [0, 1, 2, 3], "batch_size": 2}, "needs a class with at least 2 images"),
        ("spc_r", {"labels": [0, 0, 1, 1], "batch_size": 1}, "batch_size of 2"),
        ("spc_r", {"labels": [0, 0, 1, 1], "batch_size": 6, "batches_per_epoch": 1}, "replace=True"),
        ("n_pair", {"batch_size": 5}, "5 is not a multiple of 2"),
        ("n_pair", {"labels": [0, 1, 1, 2, 2, 1], "batch_size": 6, "small": "skip"}, "there are 2 with at least 2"),
        ("m_per_class", {"batch_size": 12, "length": 11}, "length 11 is shorter than one batch of 12"),
        ("m_per_class", {"batch_size": 12, "length": 24, "batches_per_epoch": 2}, "give one of them"),
        ("m_per_class", {"batch_size": 44}, "needs 11 classes; there are 10"),
        ("balanced", {"batch_size": 13, "redraw_shape": True}, "No divisor of the batch size 13"),
        ("balanced", {"batch_size": 12, "small": "refill", "mode": "cover"}, "refill"),
        (
            "balanced",
            {"labels": [0, 1, 2, *[3] * 9], "batch_size": 9, "samples_per_class": 3, "small": "refill"},
            "all 4 classes together give 6",
        ),
        (
            "episodes",
            {"batch_size": 25, "episodes": 2, "support": 3, "query": 2},
            r"25 is not a multiple of 2 episode\(s\) x \(3 support \+ 2 query\)",
        ),
        ("episodes", {"batch_size": 60, "episodes": 2, "small": "skip"}, "An episode of 30 .* are 2 .*more episodes"),
        ("episodes", {"batch_size": 20, "small": "error"}, "8 of 10 classes have fewer than 10"),
        ("greedy_coreset", {"pool": "al"}, "'pool' is 'al'; it must be a number of images, or all"),
        ("greedy_coreset", {"pool": 3}, "'pool' is 3; a batch needs 5 anchors"),
        ("ddm", {"pol": 3}, "Did you mean 'pool'"),
        ("ddm", {"3": 3}, "The batching 'ddm' has no setting '3'"),
        ("ddm", {"distance": "euclidean"}, "'distance'"),
        ("ddm", {"bins": 0}, "'bins'"),
        ("ddm", {"moments": 1}, "'moments'"),
        ("ddm", {"candidates": 0}, "'candidates'"),
        ("frd", {"shared": "yes"}, "'shared'"),
        ("frd", {"pool": 6}, "'pool' is 6; it must be at least the batch size 10"),
        ("frd", {"bins": 50}, "no setting 'bins'"),
        ("d2_coreset", {"power": -1}, "'power'"),
        ("d2_coreset", {"refresh": "daily"}, "'refresh'"),
        *((name, {"batch_size": 24}, "needs 12 classes; there are 10") for name in ("d2_coreset", "ddm", "frd")),
    ],
)
def test_settings_and_sizes_that_are_impossible_are_refused(name, settings, message):
    with pytest.raises(LevelfieldError, match=message):
        create(name, **{"labels": UNEVEN, "batch_size": 10, **settings})


def test_numbers_of_numpy_and_labels_of_torch_are_as_good_as_any():
    plain = create("spc", LABELS, batch_size=10, samples_per_class=5, seed=3)
    numbers = {"batch_size": np.int64(10), "samples_per_class": np.int32(5), "seed": np.int64(3)}
    assert np.array_equal(plain.plan(1), create("spc", torch.from_numpy(LABELS), **numbers).plan(1))


def test_a_study_cannot_set_what_the_run_gives_nor_write_anything_else_than_a_batching():
    layout = Layout.parse("5x2")
    for key in ("labels", "batch_size", "seed"):
        with pytest.raises(BadSpecification, match=f"'ddm' cannot set '{key}' here"):
            Choice.of({"ddm": {key: 4}}).make(LABELS, layout)
    for choice, message in (
        (Choice("episodes", {"suport": 2}), "Did you mean 'support'"),
        (Choice("episode", {}), "Did you mean 'episodes'"),
    ):
        with pytest.raises(LevelfieldError, match=message):
            choice.make(LABELS, layout)
    for written, message in (
        ({"spc": {}, "random": {}}, "a name with settings"),
        ({"spc": 3}, "pairs of key and value"),
    ):
        with pytest.raises(BadSpecification, match=message):
            Choice.of(written, layout)
    for text in ("4x0", "0x4", "1", "4x", "x4", "-4x2", "4x2x2", ""):
        with pytest.raises(BadSpecification, match="is not a batch"):
            Layout.parse(text)


@pytest.mark.parametrize("name", names())
def test_the_description_of_a_batching_names_every_setting_and_makes_it(name):
    about = describe(name)
    assert about.what
    assert [key for key in about.settings if not re.search(rf"\b{key}\b", about.text)] == []
    plain = create(name, LABELS, batch_size=20)
    assert create(name, LABELS, batch_size=20, **about.settings).settings() == plain.settings()
