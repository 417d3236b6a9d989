"""Pools: the images from which a batch is chosen by embedding."""

from __future__ import annotations

import numpy as np

from levelfield.batching.dealing import deal
from levelfield.batching.groups import Groups


def draw_groups(groups: Groups, count: int, stream: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Classes (count,) in ascending order, and images (count, n) of each.

    The classes are distinct. If there are fewer than `count`, classes and images are dealt from decks, so that no image
    occurs twice while its class has unused images.

    >>> classes, images = draw_groups(Groups.of(np.array([0, 0, 1, 1, 1, 1]), 2), 3, np.random.default_rng(0))
    >>> len(classes), len(np.unique(images)) >= 4
    (3, True)
    """
    if count <= len(groups):
        classes = np.sort(stream.choice(len(groups), size=count, replace=False, shuffle=False))
        return classes, groups.drawn(classes, stream)
    classes = np.sort(deal(len(groups), hand=1, hands=count, stream=stream).ravel())
    return classes, groups.dealt(classes, stream)


def draw_candidates(classes: np.ndarray, *, count: int, hand: int, stream: np.random.Generator) -> np.ndarray:
    """(count, hand) indices of groups, each row with distinct classes; `classes`: classes of the groups, ascending.

    >>> draw_candidates(np.array([4, 4, 7]), count=5, hand=2, stream=np.random.default_rng(0)).shape
    (5, 2)
    """
    first = np.flatnonzero(np.r_[True, classes[1:] != classes[:-1]])  # where the groups of a class begin
    each = np.diff(np.r_[first, len(classes)])
    chosen = stream.random((count, len(first))).argsort(axis=1)[:, :hand]
    drawn: np.ndarray = first[chosen] + (stream.random((count, hand)) * each[chosen]).astype(np.int64)
    return drawn


def draw_images(
    groups: Groups, of_image: np.ndarray, *, size: int, least: int, stream: np.random.Generator
) -> np.ndarray:
    """Positions of `size` uniformly drawn images; if they have fewer than `least` classes, add one image each of
    further classes.

    of_image: index of each image's class, -1 if the class is excluded.
    """
    allowed = np.flatnonzero(of_image >= 0)
    pool = stream.choice(allowed, size=min(size, len(allowed)), replace=False)
    there = np.unique(of_image[pool])
    if len(there) < least:
        others = stream.permutation(np.setdiff1d(np.arange(len(groups)), there))[: least - len(there)]
        pool = np.concatenate([pool, groups.drawn(others, stream)[:, 0]])
    return pool


def complete(groups: Groups, of_image: np.ndarray, anchors: np.ndarray, stream: np.random.Generator) -> np.ndarray:
    """(batches, anchors * n): each anchor followed by n - 1 other images of its class.

    anchors: (batches, anchors). An image occurs twice in a batch only if its class has no other image left.

    >>> labels = np.array([0, 0, 1, 1])
    >>> complete(Groups.of(labels, 2), labels, np.array([[1, 2]]), np.random.default_rng(0)).tolist()
    [[1, 0, 2, 3]]
    """
    ordered = np.sort(of_image[anchors], axis=1)
    if (ordered[:, 1:] == ordered[:, :-1]).any():
        return np.stack([_complete_one(groups, of_image, row, stream) for row in anchors])
    anchors = anchors.ravel()
    hands = groups.drawn(of_image[anchors], stream)
    # swap the anchor with the first card, or replace it: the others are distributed as if drawn without the anchor
    hands[np.arange(len(hands)), (hands == anchors[:, None]).argmax(axis=1)] = hands[:, 0]
    hands[:, 0] = anchors
    return hands.reshape(len(ordered), -1)


def _complete_one(groups: Groups, of_image: np.ndarray, anchors: np.ndarray, stream: np.random.Generator) -> np.ndarray:
    """Complete a batch in which a class occurs twice: its anchors share the remaining images."""
    result = np.empty((len(anchors), groups.n), dtype=np.int64)
    result[:, 0] = anchors
    for label in np.unique(of_image[anchors]):
        rows = np.flatnonzero(of_image[anchors] == label)
        images = groups.images[groups.starts[label] : groups.starts[label] + groups.sizes[label]]
        others = stream.permutation(np.setdiff1d(images, anchors[rows]))
        while len(others) < len(rows) * (groups.n - 1):
            others = np.concatenate([others, stream.permutation(images)])
        result[rows, 1:] = others[: len(rows) * (groups.n - 1)].reshape(len(rows), groups.n - 1)
    return result.ravel()
