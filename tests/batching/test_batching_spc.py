"""SPC and random batches, and layouts that fit a folder."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelfield import batching
from levelfield.errors import BadInput, BadSpecification, UnknownName

UNEVEN = np.repeat(np.arange(12), [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13])
MEMORY = np.random.default_rng(0).normal(size=(len(UNEVEN), 3))  # for those that look at embeddings


def spc(labels=UNEVEN, *, batch_size=12, n=2, **settings):
    return batching.create("spc", labels, batch_size=batch_size, samples_per_class=n, **settings)


@given(
    st.lists(st.integers(2, 9), min_size=3, max_size=15),
    st.integers(1, 3),
    st.integers(1, 6),
    st.integers(1, 9),
    st.integers(0, 1000),
)
@settings(max_examples=150, deadline=None)
def test_spc_laws(sizes, n, k, batches, seed):
    k = min(k, len(sizes))
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(len(sizes)) * 7 + 3, sizes))
    sampler = spc(labels, batch_size=n * k, n=n, batches_per_epoch=batches, seed=seed)
    plan = sampler.plan(0)
    assert plan.shape == (batches, n * k)
    assert plan.dtype == np.int32
    groups = labels[plan].reshape(batches, k, n)
    assert (groups == groups[..., :1]).all(), "a group is one class"
    assert all(len(set(row)) == k for row in groups[..., 0].tolist()), "no class twice in a batch"
    uses = np.array([(groups[..., 0] == label).sum() for label in np.unique(labels)])
    assert uses.max() - uses.min() <= 1
    for label, use, size in zip(np.unique(labels), uses, sizes, strict=True):
        assert size == (labels == label).sum()
        if size >= n:
            used = np.unique(plan[labels[plan] == label])
            assert len(used) == min(size, use * n), "coverage of a class is min(1, u n / m)"
    if min(sizes) >= n:
        assert all(len(set(row)) == n * k for row in plan.tolist()), "no image twice in a batch"


def test_spc_coverage_of_equal_classes_is_that_of_the_specification():
    labels = np.repeat(np.arange(40), 7)
    assert batching.report(labels, spc(labels, batch_size=20).plan(0)).coverage == pytest.approx(0.929, abs=0.0005)


def test_epoch_is_images_divided_by_batch_size_for_every_batching():
    labels = np.arange(5864) % 100  # CUB's training half
    assert len(spc(labels, batch_size=112)) == len(batching.create("random", labels, batch_size=112)) == 52


def test_random_uses_no_image_twice_in_an_epoch():
    plan = batching.create("random", UNEVEN, batch_size=7).plan(3)
    assert plan.shape == (len(UNEVEN) // 7, 7)
    assert len(np.unique(plan)) == plan.size


def test_random_goes_on_with_a_new_deck_when_more_batches_are_wanted():
    plan = batching.create("random", np.zeros(10, int), batch_size=4, batches_per_epoch=10).plan(0)
    assert all(len(set(row)) == 4 for row in plan.tolist())
    assert (np.bincount(plan.ravel()) == 4).all()


def test_iterating_goes_through_the_plan_and_then_to_the_next_epoch():
    sampler = spc()
    assert list(sampler) == sampler.plan(0).tolist()
    assert list(sampler) == sampler.plan(1).tolist()
    sampler.set_epoch(0)
    assert list(sampler) == sampler.plan(0).tolist()


@pytest.mark.parametrize("change", [{"seed": 1}, {"batch_size": 6}, {"labels": UNEVEN[:-1]}, {"n": 3}])
def test_state_of_another_batching_is_refused(change):
    with pytest.raises(BadInput, match="other"):
        spc(**change).load_state_dict(spc().state_dict())


def test_small_class_shows_all_its_images_before_repeating():
    labels = np.repeat(np.arange(4), [1, 2, 3, 9])
    sampler = spc(labels, batch_size=20, n=5, batches_per_epoch=6)
    assert sampler.repeating == 3
    for row in sampler.plan(0).reshape(-1, 5):
        size = (labels == labels[row[0]]).sum()
        assert len(set(row.tolist())) == min(size, 5)


def test_small_classes_can_be_skipped_and_are_counted():
    sampler = spc(np.repeat(np.arange(5), [1, 2, 4, 4, 4]), batch_size=8, n=4, small="skip")
    assert sampler.skipped == 2
    assert set(sampler.labels[sampler.plan(0)].ravel()) <= {2, 3, 4}


def test_refill_takes_more_classes_instead_of_repeating():
    labels = np.repeat(np.arange(8), [1, 2, 2, 3, 5, 5, 5, 9])
    sampler = spc(labels, batch_size=12, n=4, small="refill", batches_per_epoch=40)
    uses = np.zeros(8, dtype=int)
    for row in sampler.plan(0):
        assert len(set(row.tolist())) == 12, "no image twice"
        classes, first, places = np.unique(labels[row], return_index=True, return_counts=True)
        order = np.argsort(first)
        full = np.minimum(np.bincount(labels), 4)[classes]
        assert (places[order][:-1] == full[order][:-1]).all(), "only the last group may be cut"
        assert (np.diff(labels[row]) != 0).sum() == len(classes) - 1, "a class stands in one piece"
        uses[classes] += 1
    assert uses.max() - uses.min() <= 1, "classes are dealt"


def test_refill_says_what_it_cannot_do():
    labels = np.repeat(np.arange(4), [1, 1, 1, 9])
    with pytest.raises(BadInput, match="all 4 classes together give 6"):
        spc(labels, batch_size=9, n=3, small="refill")
    with pytest.raises(BadSpecification, match="cannot share"):
        spc(small="refill", world=2)
    with pytest.raises(BadSpecification, match="choose one of the two"):
        spc(small="refill", replace=True)


def test_bad_settings_are_refused_with_both_numbers_or_the_nearest_name():
    with pytest.raises(BadSpecification, match=r"13 is not a multiple of 2"):
        spc(batch_size=13)
    with pytest.raises(BadInput, match=r"needs 20 classes; there are 12.*at most 12x2"):
        spc(batch_size=40)
    with pytest.raises(BadSpecification, match=r"batch of 100 is too large for 90 images"):
        batching.create("random", UNEVEN, batch_size=100)
    with pytest.raises(BadSpecification, match="Did you mean 'samples_per_class'"):
        batching.create("spc", UNEVEN, batch_size=4, sample_per_class=2)
    with pytest.raises(UnknownName, match="Did you mean 'spc'"):
        batching.create("spcc", UNEVEN, batch_size=4)
    with pytest.raises(UnknownName, match="repeat"):
        spc(small="repeats")
    with pytest.raises(BadInput, match="fewer than 3 images"):
        spc(n=3, small="error")
    with pytest.raises(BadSpecification, match="cannot be shared by 4 processes"):
        spc(world=4)
    with pytest.raises(BadInput, match="non-empty"):
        batching.create("random", [], batch_size=1)


def test_own_batching_from_a_file(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from levelfield.batching import Batching\n"
        "class First(Batching):\n"
        "    def _plan(self, stream, memory):\n"
        "        import numpy as np\n"
        "        return np.tile(np.arange(self.batch_size), (self.batches, 1))\n"
    )
    assert batching.create(f"{tmp_path}/mine.py:First", UNEVEN, batch_size=3).plan(0)[0].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("sizes", "wish", "fitted", "reason"),
    [
        ([8] * 10, (25, 4), (10, 4), "10 training classes"),
        ([7] * 774, (25, 4), (25, 4), ""),
        ([2] * 30, (25, 4), (25, 2), "typical class has 2 images"),
        ([1, 1, 4, 4, 4], (25, 4), (3, 4), "14 training images"),
        ([1, 1, 1, 2], (2, 2), (2, 2), ""),
        ([5] * 3, (2, 1), (2, 1), ""),
    ],
)
def test_layout_fits_the_folder(sizes, wish, fitted, reason):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    layout = batching.fit_batch(labels, *wish)
    assert tuple(layout) == fitted
    assert reason in layout.change
    assert bool(layout.change) == (fitted != wish)
    spc(labels, batch_size=layout.batch_size, n=layout.per_class).plan(0)


def test_layout_needs_two_classes_and_a_pair():
    for labels in ([0, 0, 0], [0, 1, 2], [0, 0, 1]):
        with pytest.raises(BadInput):
            batching.fit_batch(labels)


def test_public_names():
    assert {
        "Batching",
        "Layout",
        "PlanReport",
        "Random",
        "SamplesPerClass",
        "create",
        "describe",
        "fit_batch",
        "names",
        "register",
        "report",
    } <= set(batching.__all__)
