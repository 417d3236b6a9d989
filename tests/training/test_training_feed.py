"""The feed: the same images and views despite interruptions, with any workers, and with or without the cache."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from training_world import LABELS, Stored, execute_run, log_of

from levelfield import batching
from levelfield.data import decoders
from levelfield.data.loader import Loader
from levelfield.randomness import numpy_stream
from levelfield.training.feed import Feed, Images, StoredRows, cached_view

IDENTITIES = [f"image {i}" for i in range(len(LABELS))]


PICTURES = [Image.new("RGB", (1, 1), (i, 0, 0)) for i in range(len(LABELS))]


class Drawn:
    """A view: the red of the image, and the first number that is drawn."""

    random, decoded, key = True, 0, "drawn"

    def __call__(self, image, stream):
        return torch.tensor([float(image.getpixel((0, 0))[0]), stream.random()], dtype=torch.float64)


def view(position, number):
    return Drawn()(PICTURES[position], numpy_stream(*cached_view(number, IDENTITIES[position])))


def images(*, seed=0, views=0):
    return Images(Loader(PICTURES, Drawn()), seed=seed, views=views, identities=IDENTITIES)


def planner(seed=0, **more):
    return batching.create("spc", LABELS, seed=seed, **{"batch_size": 6, "samples_per_class": 2, **more})


def taken(feed, start, count):
    return list(islice(feed.batches(start), count))


def test_batches_follow_the_plan_with_their_labels_step_and_epoch():
    feed = Feed(images(), planner(), LABELS)
    length = len(feed.batching)
    for number, batch in enumerate(taken(feed, 0, 2 * length + 1)):
        epoch, offset = divmod(number, length)
        assert (batch.step, batch.epoch) == (number, epoch)
        assert batch.indices.tolist() == planner().plan(epoch)[offset].tolist()
        assert batch.inputs[:, 0].tolist() == batch.indices.tolist()
        assert batch.labels.tolist() == LABELS[batch.indices].tolist()
        assert batch.labels.dtype == torch.int64


@pytest.mark.parametrize("views", [0, 1, 3])
@pytest.mark.parametrize("start", [1, 4, 7, 9, 12])
def test_a_feed_resumed_at_any_step_gives_the_batches_of_one_never_interrupted(views, start):
    whole = taken(Feed(images(views=views), planner(batches_per_epoch=7), LABELS), 0, 16)
    rest = taken(Feed(images(views=views), planner(batches_per_epoch=7), LABELS), start, 16 - start)
    for expected, result in zip(whole[start:], rest, strict=True):
        assert (result.step, result.epoch) == (expected.step, expected.epoch)
        assert result.indices.tolist() == expected.indices.tolist()
        assert torch.equal(result.inputs, expected.inputs)


@pytest.mark.parametrize("views", [0, 3])
def test_an_image_that_comes_again_in_an_epoch_gets_another_view(views):
    feed = Feed(images(views=views), planner(batches_per_epoch=12), LABELS)  # 72 places for 30 images
    drawn: dict[int, list[float]] = {}
    for batch in taken(feed, 0, 12):
        for position, number in batch.inputs.tolist():
            drawn.setdefault(int(position), []).append(number)
    assert max(map(len, drawn.values())) >= 2
    for numbers in drawn.values():
        new = len(numbers) if views == 0 else min(len(numbers), views)
        assert len(set(numbers)) == new


def test_fresh_views_differ_from_epoch_to_epoch_and_seed_to_seed():
    def drawn(seed, start):
        result = {}
        for batch in taken(Feed(images(seed=seed), planner(), LABELS), start, 5):
            result |= {int(position): number for position, number in batch.inputs.tolist()}
        return result

    first, later, other = drawn(0, 0), drawn(0, 5), drawn(1, 0)
    assert all(first[p] != later[p] for p in first.keys() & later.keys())
    assert all(first[p] != other[p] for p in first.keys() & other.keys())


def test_kept_views_are_those_of_the_image_whatever_the_seed():
    kept = {i: [view(i, k)[1] for k in range(3)] for i in range(30)}
    used = set()
    for seed in (0, 1):
        for batch in taken(Feed(images(seed=seed, views=3), planner(), LABELS), 0, 10):
            for position, number in batch.inputs:
                used.add((seed, kept[int(position)].index(number)))
    assert used == {(seed, k) for seed in (0, 1) for k in range(3)}


@pytest.mark.parametrize("views", [1, 3])
def test_stored_rows_and_decoded_images_give_the_same_views(views):
    stored = [Stored((torch.stack([view(i, k) for i in range(30)]),)) for k in range(views)]
    rows = taken(Feed(StoredRows(stored, seed=4), planner(4, batches_per_epoch=9), LABELS), 0, 20)
    fresh = taken(Feed(images(seed=4, views=views), planner(4, batches_per_epoch=9), LABELS), 0, 20)
    for first, second in zip(rows, fresh, strict=True):
        assert torch.equal(first.inputs[0], second.inputs)


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_change_no_bit_and_no_order(workers, monkeypatch):
    alone = taken(Feed(images(), planner(), LABELS), 3, 6)
    monkeypatch.setattr(decoders, "TINY", 0)
    with decoders.decoding(workers):
        helped = taken(Feed(images(), planner(), LABELS), 3, 6)
    for first, second in zip(alone, helped, strict=True):
        assert first.step == second.step
        assert first.indices.tolist() == second.indices.tolist()
        assert torch.equal(first.inputs, second.inputs)


def test_a_source_is_asked_for_no_plan_that_is_not_needed():
    source, planned = images(), []
    batches = source.batches
    source.batches = lambda plans: batches(planned.append(one) or one for one in plans)
    taken(Feed(source, planner(), LABELS), 0, 3)
    assert [one.step for one in planned] == [0, 1, 2]


def test_a_batch_is_named_by_its_first_images():
    feed = Feed(images(), planner(), LABELS, names=[f"{i}.png" for i in range(30)])
    [batch] = taken(feed, 0, 1)
    assert feed.name(batch, most=2) == f"{batch.indices[0]}.png, {batch.indices[1]}.png, ..."
    assert Feed(images(), planner(), LABELS).name(batch) == ", ".join(map(str, batch.indices[:5])) + ", ..."
    assert feed.name(batch, most=6).count("png") == 6
    assert "..." not in feed.name(batch, most=6)


STEPS = {"cut": "last-1", "steps": 6, "batches_per_epoch": 4, "lr": 0.01, "trunk_lr": 0.01, "schedule": "constant"}


def weights(folder):
    return load_file(folder / "model.safetensors")


def moved(first, second):
    """Largest difference of a weight."""
    return max((first[name].double() - second[name].double()).abs().max().item() for name in first)


@pytest.mark.parametrize(
    "views",
    [{}, {"augment": "light", "views": 1}, {"augment": "light", "views": 3}, {"augment": "standard", "views": 2}],
    ids=lambda v: f"{v.get('views', 1)} {v.get('augment', 'plain')}",
)
def test_training_with_the_cache_equals_training_without_it_to_rounding(
    training_photos, training_cache, tmp_path, views
):
    for cached in (True, False):
        execute_run(
            training_photos,
            tmp_path / str(cached),
            "contrastive",
            settings={"miner": "all"},  # a random miner turns a difference in the last bit into another tuple
            store=training_cache if cached else tmp_path / "none",
            **{**STEPS, **views, "cache": cached},
        )
    first, second = weights(tmp_path / "True"), weights(tmp_path / "False")
    for name, value in first.items():
        torch.testing.assert_close(second[name], value, rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")
    one, other = (np.load(tmp_path / kind / "embeddings.npy") for kind in ("True", "False"))
    np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5)
    losses = [[entry["loss"] for entry in log_of(tmp_path / kind)] for kind in ("True", "False")]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    execute_run(training_photos, tmp_path / "start", "start", store=training_cache, **STEPS)
    assert moved(first, weights(tmp_path / "start")) > 1e-2  # far more than the tolerance above
