"""SPC and random batches, and layouts that fit a folder."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelfield import batching
from levelfield.errors import BadInput, BadSpecification, UnknownName

UNEVEN = np.repeat(np.arange(12), [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13])


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
    groups = labels[plan].reshape(batches, k, n)
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


def test_random_uses_no_image_twice_in_an_epoch_until_more_batches_are_wanted():
    plan = batching.create("random", UNEVEN, batch_size=7).plan(3)
    assert plan.shape == (len(UNEVEN) // 7, 7)
    assert len(np.unique(plan)) == plan.size
    plan = batching.create("random", np.zeros(10, int), batch_size=4, batches_per_epoch=10).plan(0)
    assert all(len(set(row)) == 4 for row in plan.tolist())
    assert (np.bincount(plan.ravel()) == 4).all()


def test_small_classes_can_be_skipped_and_are_counted():
    sampler = spc(np.repeat(np.arange(5), [1, 2, 4, 4, 4]), batch_size=8, n=4, small="skip")
    assert sampler.skipped == 2
    assert sampler.repeating == 0
    assert spc(sampler.labels, batch_size=8, n=4).repeating == 2
    assert set(sampler.labels[sampler.plan(0)].ravel()) <= {2, 3, 4}


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
    with pytest.raises(BadSpecification, match="repeat"):
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
