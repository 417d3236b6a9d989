"""Laws of every registered batching, for any distribution of classes."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from levelfield import batching
from levelfield.errors import BadInput

UNEVEN = np.repeat(np.arange(12), [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13])
ROWS = np.random.default_rng(0).normal(size=(400, 5)).astype(np.float32)
EMBEDDINGS = {
    "random": ROWS,
    "equal": np.ones((400, 4)),
    "pairs": np.repeat(ROWS, 2, axis=0),  # fewer points than images
    "line": ROWS[:, :1] @ ROWS[:1, :4],  # a singular covariance
}

# Settings under which the batches consist of groups of n images; those that must repeat or may are marked.
GROUPED = {
    "spc": lambda n: [{"samples_per_class": n}],
    "balanced": lambda n: [{"samples_per_class": n}, {"samples_per_class": n, "mode": "cover"}],
    "m_per_class": lambda n: [{"samples_per_class": n}, {"samples_per_class": n, "small": "repeat"}],
    "n_pair": lambda n: [{}] if n == 2 else [],
    "episodes": lambda n: [{"support": n - 1, "query": 1}] if n > 1 else [],
    "ddm": lambda n: [{"samples_per_class": n, "candidates": 3}],
    "frd": lambda n: [{"samples_per_class": n, "candidates": 3, "pool": 30}],
    "greedy_coreset": lambda n: [{"samples_per_class": n}],
    "d2_coreset": lambda n: [{"samples_per_class": n, "pool": 12}],
}
OTHER = {
    "spc": [{"replace": True}, {"small": "skip"}],
    "spc_r": [{"replace": True}],
    "balanced": [{"redraw_shape": True}, {"small": "refill"}, {"small": "skip", "mode": "cover"}],
    "m_per_class": [{"length": 100}],
    "n_pair": [{"same_image": 0.5}],
    "episodes": [{"episodes": 2, "support": 2, "query": 1}, {"support": 1, "query": 2, "replace": True}],
}
# what is in no table, a new batching, is under the laws that hold for all, with its defaults
DEFAULT = {name: {} for name in batching.names()} | {name: (make(2) or make(3))[0] for name, make in GROUPED.items()}
EVERY = [*DEFAULT.items(), *((name, chosen) for name, more in OTHER.items() for chosen in more)]
IN_ALL_WAYS = pytest.mark.parametrize(("name", "chosen"), EVERY, ids=lambda part: str(part).strip("{}") or "plain")


def make(name, labels=UNEVEN, *, batch_size=12, **chosen):
    return batching.create(name, labels, batch_size=batch_size, **chosen)


def plan(sampler, epoch=0, rows=ROWS):
    return sampler.plan(epoch, rows[: len(sampler.labels)] if sampler.needs_memory else None)


def filled(sampler):
    """Ready to be walked through."""
    if sampler.needs_memory:
        sampler.fill(ROWS[: len(sampler.labels)])
    return sampler


@st.composite
def layouts(draw):
    """Labels in any order, with gaps in their names; a group size and a number of classes that are there."""
    sizes = draw(st.lists(st.integers(1, 9), min_size=2, max_size=12).filter(lambda sizes: max(sizes) > 1))
    n = draw(st.integers(1, 4))
    seed = draw(st.integers(0, 2**31))
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)) * 7 - 3, sizes))
    return labels, n, draw(st.integers(1, min(5, len(sizes)))), draw(st.integers(1, 7)), seed


@pytest.mark.parametrize("name", GROUPED)
@given(layouts(), st.sampled_from([*EMBEDDINGS]))
@settings(max_examples=50, deadline=None)
def test_groups_are_n_images_of_distinct_classes(name, layout, kind):
    labels, n, k, batches, seed = layout
    k = max(k, 2) if name in ("ddm", "frd", "greedy_coreset", "d2_coreset") else k
    for chosen in GROUPED[name](n):
        sampler = make(name, labels, batch_size=n * k, batches_per_epoch=batches, seed=seed, **chosen)
        drawn = plan(sampler, rows=EMBEDDINGS[kind])
        assert drawn.shape == (batches, n * k)
        assert drawn.dtype == np.int32
        assert drawn.min() >= 0
        assert drawn.max() < len(labels)
        groups = labels[drawn].reshape(batches, k, n)
        assert (groups == groups[..., :1]).all(), "a group is one class"
        assert all(len(set(row)) == k for row in groups[..., 0].tolist()), "no class twice in a batch"
        for group in drawn.reshape(-1, n):
            size = (labels == labels[group[0]]).sum()
            drawn_anew = name == "m_per_class" and "small" not in chosen  # may repeat in a class that is too small
            if size >= n or not drawn_anew:
                assert len(set(group.tolist())) == min(size, n), "all images of a class before one is repeated"


@pytest.mark.parametrize("name", ["random", "spc_r"])
@given(layouts())
@settings(max_examples=60, deadline=None)
def test_free_images_are_distinct_in_a_batch(name, layout):
    labels, n, k, batches, seed = layout
    size = max(2, min(len(labels), n * k))
    drawn = plan(make(name, labels, batch_size=size, batches_per_epoch=batches, seed=seed))
    assert drawn.shape == (batches, size)
    assert drawn.min() >= 0
    assert drawn.max() < len(labels)
    assert all(len(set(row)) == size for row in drawn.tolist())


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_what_distinct_images_promise_is_what_they_can_be_at_the_worst(sizes, data):
    size = data.draw(st.integers(1, sum(sizes)))
    possible = [taken for taken in product(*(range(n + 1) for n in sizes)) if sum(taken) == size]
    classes = [sum(n > 0 for n in taken) for taken in possible]
    most = [max(taken) for taken in possible]
    expected = batching.Promise(min(classes), min(most), max(most), max(classes))
    assert batching.Promise.of_images(np.array(sizes), size) == expected


@IN_ALL_WAYS
def test_plans_keep_their_promises_and_depend_on_labels_settings_seed_and_epoch_alone(name, chosen):
    np.random.seed(0)  # noqa: NPY002  (the global generator must not matter)
    sampler = make(name, seed=1, **chosen)
    promise, plans = sampler.promise(), [plan(sampler, epoch) for epoch in range(5)]
    for report in (batching.report(UNEVEN, drawn) for drawn in plans):
        assert report.classes.min() >= promise.classes
        assert report.max_per_class.min() >= promise.together
        assert report.max_per_class.max() <= promise.most
        assert promise.most_classes is None or report.classes.max() <= promise.most_classes
    np.random.seed(1)  # noqa: NPY002
    assert np.array_equal(plans[4], plan(make(name, seed=1, **chosen), 4))
    assert np.array_equal(plans[4], plan(make(name, UNEVEN * 2**25 + 17, seed=1, **chosen), 4)), "classes renamed"
    assert not np.array_equal(plans[4], plan(make(name, seed=2, **chosen), 4))
    assert not np.array_equal(plans[4], plan(sampler, 5))
    if "length" not in chosen:
        assert plans[0].shape == (len(UNEVEN) // 12, 12)
        assert plan(make(name, batches_per_epoch=3, **chosen)).shape == (3, 12)


@IN_ALL_WAYS
def test_a_loader_a_resumed_batching_and_a_late_iterator_give_the_batches_of_the_plan(name, chosen):
    whole = list(filled(make(name, seed=5, **chosen)))
    loader = DataLoader(np.arange(len(UNEVEN)), batch_sampler=filled(make(name, seed=5, **chosen)))
    assert len(loader) == len(whole)
    assert [batch.tolist() for batch in loader] == whole
    sampler = filled(make(name, seed=5, **chosen))
    walk = iter(sampler)
    seen = [next(walk), next(walk)]
    other = make(name, seed=5, **chosen)
    other.load_state_dict(sampler.state_dict())
    assert seen + list(other) == whole
    assert (other.epoch, other.step) == (1, 0)
    sampler.set_epoch(0)
    assert list(sampler) == whole
    assert [*seen, *walk] == whole, "an iterator left behind continues its epoch"
    assert (sampler.epoch, sampler.step) == (1, 0)


@IN_ALL_WAYS
def test_a_state_of_other_labels_seed_or_settings_is_refused(name, chosen):
    state = filled(make(name, **chosen)).state_dict()
    for other in (
        make(name, seed=1, **chosen),
        make(name, UNEVEN[:-1], **chosen),
        make(name, **{**chosen, "batches_per_epoch": 3} | ({"length": None} if "length" in chosen else {})),
    ):
        with pytest.raises(BadInput, match="other"):
            other.load_state_dict(state)
