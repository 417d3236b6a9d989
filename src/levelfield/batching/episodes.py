"""Episodes: a few classes, each with support images and query images."""

from __future__ import annotations

import numpy as np

from levelfield.batching._base import Batching, Promise
from levelfield.batching._decks import draw
from levelfield.batching._groups import Groups, Small
from levelfield.batching._registry import register
from levelfield.errors import BadSpecification
from levelfield.settings import Count


@register("episodes", "support and query images of a few classes; one or several episodes per batch")
class Episodes(Batching):
    """`episodes` per batch, each with batch_size / (episodes * (support + query)) distinct classes; episodes may share
    classes.

    Roles: the `support` rows, the `query` rows, and the `episode` of every row. An image is never both support and
    query of an episode, unless its class has only one image.

    support, query: images per class of each kind; 5 + 5 with 12 classes in fehervari2019.
    replace: draw the images of a class with replacement, separately for support and query.
    small: for classes with fewer than support + query images: `repeat` (divided between the two kinds, then repeated),
    `skip` the class, or `error`.

    >>> batches = Episodes(np.repeat(np.arange(4), 4), batch_size=8, support=2, query=2, batches_per_epoch=1)
    >>> {role: rows.tolist() for role, rows in batches.roles.items()}
    {'support': [0, 1, 4, 5], 'query': [2, 3, 6, 7], 'episode': [0, 0, 0, 0, 0, 0, 0, 0]}
    """

    episodes: Count = 1
    support: Count = 5
    query: Count = 5
    replace: bool = False
    small: Small = "repeat"

    def __post_init__(self) -> None:
        each = self.support + self.query
        self.classes, rest = divmod(self.batch_size, self.episodes * each)
        if rest or not self.classes:
            raise BadSpecification(
                f"batch_size {self.batch_size} is not a multiple of {self.episodes} episode(s) x "
                f"({self.support} support + {self.query} query) images."
            )
        self.group = self.classes * each
        self._groups = Groups.of(self.labels, each, small=self.small)
        super().__post_init__()
        self._groups.need(self.classes, self.group, "An episode", "a smaller batch, or more episodes")

    @property
    def roles(self) -> dict[str, np.ndarray]:
        rows = np.arange(self.batch_size)
        is_support = rows % (self.support + self.query) < self.support
        return {"support": rows[is_support], "query": rows[~is_support], "episode": rows // self.group}

    def promise(self) -> Promise:
        each = self.support + self.query
        return Promise(self.classes, each, each * self.episodes, self.classes * self.episodes)

    def _plan(self, stream: np.random.Generator, memory: np.ndarray | None) -> np.ndarray:
        draws = np.full(self.batches * self.episodes, len(self._groups))
        classes = draw(draws, self.classes, stream).ravel()
        sizes = self._groups.sizes[classes]
        if self.replace:
            cards = with_replacement(sizes, self.support, self.query, stream)
        else:
            deck = draw(sizes, self._groups.n, stream)
            cards = np.take_along_axis(deck, divide_decks(sizes, self.support, self.query), axis=1)
        return self._groups.at(classes, cards).reshape(self.batches, self.batch_size)


def divide_decks(sizes: np.ndarray, support: int, query: int) -> np.ndarray:
    """[classes, support + query]: card of a shuffled deck for each entry; small decks are divided, then repeated.

    >>> divide_decks(np.array([4, 3, 1]), 2, 2).tolist()
    [[0, 1, 2, 3], [0, 1, 2, 2], [0, 0, 0, 0]]
    """
    sizes = np.minimum(sizes, support + query)
    share = np.round(sizes * support / (support + query)).astype(np.int64)  # number of support images
    share = np.clip(share, np.maximum(1, sizes - query), np.maximum(1, np.minimum(support, sizes - 1)))
    rest = np.maximum(sizes - share, 1)
    first = np.arange(support) % share[:, None]
    second = share[:, None] + np.arange(query) % rest[:, None]
    return np.concatenate([first, np.minimum(second, sizes[:, None] - 1)], axis=1)


def with_replacement(sizes: np.ndarray, support: int, query: int, stream: np.random.Generator) -> np.ndarray:
    """[classes, support + query] cards: independent draws, where no query is one of the support (unless size is 1)."""
    kept = stream.integers(sizes)  # reserve one image for the query
    spare = (sizes > 1) & (sizes <= support)
    first = stream.integers((sizes - spare)[:, None], size=(len(sizes), support))
    first += spare[:, None] & (first >= kept[:, None])
    second = stream.integers(sizes[:, None], size=(len(sizes), query))
    while len(taken := np.argwhere((second[:, :, None] == first[:, None, :]).any(2) & (sizes[:, None] > 1))):
        row, column = taken.T
        second[row, column] = stream.integers(sizes[row])
    return np.concatenate([first, second], axis=1)
