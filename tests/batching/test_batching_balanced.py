"""n classes x p images, drawn or covering; m per class with a configurable epoch length."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelfield import batching
from levelfield.batching.balanced import cover
from levelfield.errors import BadInput, BadSpecification

LABELS = np.repeat(np.arange(10), [3, 5, 6, 6, 8, 8, 9, 10, 11, 14])


def balanced(labels=LABELS, *, batch_size=12, p=3, **settings):
    return batching.create("balanced", labels, batch_size=batch_size, samples_per_class=p, **settings)


@given(st.lists(st.integers(1, 6), min_size=2, max_size=9), st.integers(1, 4), st.integers(0, 2**31))
@settings(max_examples=150, deadline=None)
def test_cover_takes_the_classes_with_most_chunks_left(chunks, count, seed):
    count = min(count, len(chunks))
    left = np.array(chunks)
    for taken in cover(left, count, np.random.default_rng(seed)):
        assert len(set(taken.tolist())) == count
        others = np.delete(left, taken)
        assert left[taken].min() >= max(1, others.max(initial=0))
        left[taken] -= 1
    assert (left > 0).sum() < count


def test_cover_uses_every_image_and_fills_the_last_chunk_with_others_of_the_class():
    labels = np.repeat(np.arange(6), 5)  # chunks of 3 and 2 + 1
    sampler = balanced(labels, batch_size=9, mode="cover", batches_per_epoch=4)
    plan = sampler.plan(0)
    assert batching.report(labels, plan).coverage == 1
    assert (np.bincount(plan.ravel()) <= 2).all()
    assert all(len(set(group)) == 3 for group in plan.reshape(-1, 3).tolist())


def test_cover_goes_on_anew_until_the_epoch_is_full():
    plan = balanced(mode="cover", batches_per_epoch=50).plan(0)
    assert plan.shape == (50, 12)
    assert batching.report(LABELS, plan).coverage == 1


def test_draw_is_uniform_over_classes():
    plan = balanced(batches_per_epoch=4000).plan(0)
    share = np.bincount(LABELS[plan[:, ::3]].ravel()) / 4000
    assert abs(share - 0.4).max() < 0.04  # 5 standard errors


def test_redrawn_shape_is_a_divisor_of_the_batch():
    sampler = balanced(np.repeat(np.arange(30), 27), batch_size=54, redraw_shape=True)
    seen = set()
    for epoch in range(60):
        groups = [np.unique(row, return_counts=True)[1] for row in sampler.labels[sampler.plan(epoch)]]
        assert len({(len(sizes), tuple(sizes)) for sizes in groups}) == 1, "one shape an epoch"
        assert len(set(groups[0].tolist())) == 1
        seen.add(len(groups[0]))
    assert seen == {2, 3, 6, 9, 18, 27}


def test_redrawn_shapes_are_those_that_the_data_can_fill():
    assert balanced(batch_size=24, redraw_shape=True).shapes == [2, 3, 4, 6, 8]
    with pytest.raises(BadInput, match="No divisor of the batch size 13"):
        balanced(batch_size=13, redraw_shape=True)
    with pytest.raises(BadSpecification, match="one process"):
        balanced(redraw_shape=True, world=2)


def test_refill_takes_more_classes():
    facts = batching.report(LABELS, balanced(p=6, small="refill", batches_per_epoch=200).plan(0))
    assert facts.repeats.max() == 0
    assert facts.classes.max() >= 3
    with pytest.raises(BadSpecification, match="refill"):
        balanced(mode="cover", small="refill")
    with pytest.raises(BadInput, match="all 4 classes together give 6"):
        balanced(np.repeat(np.arange(4), [1, 1, 1, 9]), batch_size=9, small="refill")
    with pytest.raises(BadSpecification, match="one process"):
        balanced(small="refill", world=2)


def m_per_class(labels=LABELS, **settings):
    return batching.create("m_per_class", labels, **settings)


def test_without_a_batch_size_every_batch_has_all_classes():
    sampler = m_per_class(batch_size=None, samples_per_class=2, length=70)
    assert sampler.plan(0).shape == (3, 20)
    assert all(len(set(row)) == 10 for row in LABELS[sampler.plan(0)].tolist())
    assert m_per_class(batch_size=None, samples_per_class=2, length=5).plan(0).shape == (1, 20)


def test_a_small_class_is_drawn_with_replacement():
    labels = np.repeat(np.arange(4), 2)
    plan = m_per_class(labels, batch_size=8, samples_per_class=4, batches_per_epoch=500).plan(0)
    distinct = [len(set(group)) for group in plan.reshape(-1, 4).tolist()]
    assert np.mean(np.array(distinct) == 1) == pytest.approx(1 / 8, abs=0.03)  # all four draws are one image
    assert m_per_class(labels, batch_size=8).repeating == 4


def test_lengths_that_make_no_sense_are_refused():
    with pytest.raises(BadSpecification, match="length 11 is shorter than one batch of 12"):
        m_per_class(batch_size=12, length=11)
    with pytest.raises(BadSpecification, match="give one of them"):
        m_per_class(batch_size=12, length=24, batches_per_epoch=2)
    with pytest.raises(BadInput, match="needs 11 classes; there are 10"):
        m_per_class(batch_size=44)
