"""N-pair: an anchor and a positive of each of batch_size / 2 classes."""

from __future__ import annotations

import numpy as np

from levelfield.batching._base import Batching, Promise
from levelfield.batching._decks import deal
from levelfield.batching._groups import Small
from levelfield.batching._registry import register
from levelfield.settings import Share


@register("n_pair", "an anchor and a positive of each of many classes; objectives receive these roles")
class Pairs(Batching):
    """Pairs of distinct classes, dealt as in `spc` with n = 2, with the roles `anchor` and `positive`.

    same_image: probability that the positive is the anchor's own image in another view (0.1 in the released code of
    fehervari2019, for N-pair and angular).
    small: a class with one image: `repeat` it (counted in `repeating`), `skip` the class, or `error`.

    >>> batches = Pairs([0, 0, 1, 1], batch_size=4)
    >>> {role: rows.tolist() for role, rows in batches.roles.items()}
    {'anchor': [0, 2], 'positive': [1, 3]}
    """

    group = 2
    same_image: Share = 0.0
    small: Small = "repeat"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._groups.need(self.classes_per_batch, self.batch_size)

    @property
    def roles(self) -> dict[str, np.ndarray]:
        rows = np.arange(self.batch_size // self.world)
        return {"anchor": rows[::2], "positive": rows[1::2]}

    def promise(self) -> Promise:
        return Promise.of_groups(self.classes_per_batch, 2)

    def _plan(self, stream: np.random.Generator, memory: np.ndarray | None) -> np.ndarray:
        classes = deal(len(self._groups), hand=self.classes_per_batch, hands=self.batches, stream=stream).ravel()
        pairs = self._groups.dealt(classes, stream)
        if self.same_image:
            same = stream.random(len(pairs)) < self.same_image
            pairs[same, 1] = pairs[same, 0]
        return pairs.reshape(self.batches, self.batch_size)
