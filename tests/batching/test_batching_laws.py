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

# Settings under which the batches consist of groups of n images; those that must repeat or may are marked.
GROUPED = {
    "spc": lambda n: [{"samples_per_class": n}],
    "balanced": lambda n: [{"samples_per_class": n}, {"samples_per_class": n, "mode": "cover"}],
    "m_per_class": lambda n: [{"samples_per_class": n}, {"samples_per_class": n, "small": "repeat"}],
    "n_pair": lambda n: [{}] if n == 2 else [],
    "episodes": lambda n: [{"support": n - 1, "query": 1}] if n > 1 else [],
    "ddm": lambda n: [{"samples_per_class": n, "candidates": 3}],
    "frd": lambda n: [{"samples_per_class": n, "candidates": 3}],
    "greedy_coreset": lambda n: [{"samples_per_class": n}],
    "d2_coreset": lambda n: [{"samples_per_class": n}],
}
FREE = {"random": [{}], "spc_r": [{}, {"uniform": "image"}]}
OTHER = {
    "spc": [{"replace": True}, {"small": "skip"}, {"small": "refill", "samples_per_class": 3}],
    "spc_r": [{"replace": True}, {"replace": True, "uniform": "image"}],
    "balanced": [{"redraw_shape": True}, {"small": "refill"}, {"small": "skip", "mode": "cover"}],
    "m_per_class": [{"length": 100}],
    "n_pair": [{"same_image": 0.5}],
    "episodes": [
        {"episodes": 2, "support": 2, "query": 1, "across": "distinct"},
        {"support": 1, "query": 2, "replace": True},
    ],
}
# what is in no table, a new batching, is under the laws that hold for all, with its defaults
DEFAULT = {name: {} for name in batching.names()} | {name: (make(2) or make(3))[0] for name, make in GROUPED.items()}
EVERY = [*DEFAULT.items(), *((name, chosen) for name, more in OTHER.items() for chosen in more)]
IN_ALL_WAYS = pytest.mark.parametrize(("name", "chosen"), EVERY, ids=lambda part: str(part).strip("{}") or "plain")


def make(name, labels=UNEVEN, *, batch_size=12, **chosen):
    return batching.create(name, labels, batch_size=batch_size, **chosen)


def plan(sampler, epoch=0):
    return sampler.plan(epoch, ROWS[: len(sampler.labels)] if sampler.needs_memory else None)


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
@given(layouts())
@settings(max_examples=40, deadline=None)
def test_groups_are_n_images_of_distinct_classes(name, layout):
    labels, n, k, batches, seed = layout
    k = max(k, 2) if name in ("ddm", "frd", "greedy_coreset", "d2_coreset") else k
    for chosen in GROUPED[name](n):
        sampler = make(name, labels, batch_size=n * k, batches_per_epoch=batches, seed=seed, **chosen)
        found = plan(sampler)
        assert found.shape == (batches, n * k)
        assert found.dtype == np.int32
        assert found.min() >= 0
        assert found.max() < len(labels)
        groups = labels[found].reshape(batches, k, n)
        assert (groups == groups[..., :1]).all(), "a group is one class"
        assert all(len(set(row)) == k for row in groups[..., 0].tolist()), "no class twice in a batch"
        for group in found.reshape(-1, n):
            size = (labels == labels[group[0]]).sum()
            drawn_anew = name == "m_per_class" and "small" not in chosen  # may repeat in a class that is too small
            if size >= n or not drawn_anew:
                assert len(set(group.tolist())) == min(size, n), "all images of a class before one is repeated"


@pytest.mark.parametrize("name", FREE)
@given(layouts())
@settings(max_examples=60, deadline=None)
def test_free_images_are_distinct_in_a_batch(name, layout):
    labels, n, k, batches, seed = layout
    size = max(2, min(len(labels), n * k))
    for chosen in FREE[name]:
        found = plan(make(name, labels, batch_size=size, batches_per_epoch=batches, seed=seed, **chosen))
        assert found.shape == (batches, size)
        assert found.min() >= 0
        assert found.max() < len(labels)
        assert all(len(set(row)) == size for row in found.tolist())


@IN_ALL_WAYS
def test_promises_are_kept(name, chosen):
    sampler = make(name, **chosen)
    promise = sampler.promise()
    for epoch in range(5):
        facts = batching.report(UNEVEN, plan(sampler, epoch))
        assert facts.classes.min() >= promise.classes
        assert facts.max_per_class.min() >= promise.together
        assert facts.max_per_class.max() <= promise.most
        assert promise.most_classes is None or facts.classes.max() <= promise.most_classes


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_what_distinct_images_promise_is_what_they_can_be_at_the_worst(sizes, data):
    size = data.draw(st.integers(1, sum(sizes)))
    possible = [taken for taken in product(*(range(n + 1) for n in sizes)) if sum(taken) == size]
    classes = [sum(n > 0 for n in taken) for taken in possible]
    most = [max(taken) for taken in possible]
    expected = batching.Promise(min(classes), min(most), max(most), max(classes))
    assert batching.Promise.of_images(np.array(sizes), size) == expected


@IN_ALL_WAYS
def test_plan_is_a_pure_function_of_seed_and_epoch(name, chosen):
    np.random.seed(0)  # noqa: NPY002  (the global generator must not matter)
    first = plan(make(name, seed=1, **chosen), 4)
    np.random.seed(1)  # noqa: NPY002
    sampler = make(name, seed=1, **chosen)
    plan(sampler, 0)
    assert np.array_equal(first, plan(sampler, 4))
    assert not np.array_equal(first, plan(make(name, seed=2, **chosen), 4))
    assert not np.array_equal(first, plan(make(name, seed=1, **chosen), 5))


@IN_ALL_WAYS
def test_renaming_classes_in_order_does_not_change_the_plan(name, chosen):
    assert np.array_equal(plan(make(name, **chosen)), plan(make(name, UNEVEN * 2**25 + 17, **chosen)))


NOT_SHARED = ({"small": "refill", "samples_per_class": 3}, {"small": "refill"}, {"redraw_shape": True})
SHARED = [(name, chosen) for name, chosen in EVERY if chosen not in NOT_SHARED]


@pytest.mark.parametrize(("name", "chosen"), SHARED, ids=str)
def test_shares_of_processes_are_whole_groups_and_make_up_the_batch_of_one(name, chosen):
    world = 2 if name == "episodes" else 3
    chosen = {**chosen, "episodes": 2, "support": 2, "query": 1} if name == "episodes" else chosen
    whole = make(name, **chosen)
    shares = [make(name, rank=rank, world=world, **chosen) for rank in range(world)]
    assert np.array_equal(np.concatenate([plan(share, 2) for share in shares], axis=1), plan(whole, 2))
    assert (12 // world) % whole.group == 0
    assert all(share.roles is None or max(max(rows) for rows in share.roles.values()) < 12 // world for share in shares)


@IN_ALL_WAYS
def test_resuming_gives_the_remaining_batches(name, chosen):
    whole = list(filled(make(name, seed=5, **chosen)))
    sampler = filled(make(name, seed=5, **chosen))
    walk = iter(sampler)
    seen = [next(walk), next(walk)]
    other = make(name, seed=5, **chosen)
    other.load_state_dict(sampler.state_dict())
    assert seen + list(other) == whole
    assert (other.epoch, other.step) == (1, 0)


@IN_ALL_WAYS
def test_an_iterator_left_behind_goes_on_with_its_own_epoch(name, chosen):
    sampler = filled(make(name, **chosen))
    left = iter(sampler)
    first = next(left)
    sampler.set_epoch(0)
    whole = list(sampler)
    assert [first, *left] == whole
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


@IN_ALL_WAYS
def test_it_is_a_batch_sampler_of_a_loader(name, chosen):
    expected = [UNEVEN[batch].tolist() for batch in filled(make(name, **chosen))]
    loader = DataLoader(UNEVEN, batch_sampler=filled(make(name, **chosen)))
    assert len(loader) == len(expected)
    assert [batch.tolist() for batch in loader] == expected


@IN_ALL_WAYS
def test_an_epoch_is_images_divided_by_batch_size_unless_said_otherwise(name, chosen):
    if "length" not in chosen:
        assert len(make(name, **chosen)) == len(UNEVEN) // 12
        assert plan(make(name, batches_per_epoch=3, **chosen)).shape == (3, 12)
