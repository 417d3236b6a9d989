"""How far an evaluation is, over all of its stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Progress = Callable[[int, int], object]  # (done, total)


def in_stages(progress: Progress | None, amounts: Sequence[int]) -> list[Progress | None]:
    """One listener for each stage, which has so much of the work; together they tell `progress` of all of it.

    >>> first, second = in_stages(lambda done, total: print(done, "of", total), [10, 90])
    0 of 100
    >>> first(1, 2)
    5 of 100
    >>> second(1, 2)
    55 of 100
    """
    if progress is None:
        return [None for _ in amounts]
    total = sum(amounts)
    progress(0, total)

    def stage(before: int, amount: int) -> Progress:
        return lambda done, of: progress(before + amount * done // max(of, 1), total)

    return [stage(sum(amounts[:number]), amount) for number, amount in enumerate(amounts)]
