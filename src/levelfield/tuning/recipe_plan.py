"""How the recipe for photos divides its time: from the seconds of a step and of an image to its stages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from levelfield.wording import duration, plural

SIZES = (96, 128, 160, 192, 224)  # pixels of the images that are tested
MAX_ENLARGEMENT = 1.5  # largest test size / shorter side of the photos: networks trained at 224 px gain by enlarging
TRAINED_AT = 0.7  # of the tested size: a step costs half, and the score on larger images hardly changes
VALIDATION_SHARE, MAX_VALIDATION_CLASSES = 0.2, 20  # of the training classes
FIRST_STEPS = 50  # of the shortest training; each further one doubles the steps
RANKING_STEPS = 200  # of the shortest training of several methods: benchmarks/results/recipe_objectives.json
EPOCHS, USUAL_EPOCHS = 60, 10  # how often training sees every image: at most, and in the time that is not limited
USUAL_TIME = (300.0, 3600.0)  # seconds, at least and at most, if the user gives no limit
SEARCH, TEST = 0.35, 0.25  # shares of the time for stages 2 and 3, and for embedding the test images
IMAGES_A_SECOND = 20  # of the time limit: a core checks about 200, and embeds about 50
OVERHEAD = 20.0  # seconds of imports, tables and the page


@dataclass(frozen=True)
class Timing:
    """Seconds of one training step on images of `trained` pixels, and of embedding one image of `tested` pixels."""

    step: float
    trained: int
    image: float
    tested: int

    def step_at(self, size: int) -> float:
        return self.step * (size / self.trained) ** 2

    def image_at(self, size: int) -> float:
        return self.image * (size / self.tested) ** 2


@dataclass(frozen=True)
class Amounts:
    """Images of each part of the data, and images in a batch. train and test: of a fold on average."""

    train: int
    validation: int
    test: int
    batch: int
    folds: int = 1

    def most_steps(self) -> int:
        """Steps that see every training image `EPOCHS` times."""
        return max(FIRST_STEPS, EPOCHS * self.train // self.batch)


@dataclass(frozen=True)
class StagePlan:
    """What the stages of a recipe do, and the seconds that they are expected to take."""

    limit: float  # seconds for everything
    sizes: tuple[int, ...]  # of the test images, in stage 1
    rungs: tuple[tuple[int, int], ...]  # of stage 2: (steps, number of methods), shortest first
    untrained_seconds: float  # of stage 1
    search_seconds: float  # of stage 2
    scoring_seconds: float  # of embedding and scoring the validation images after one training
    test_seconds: float  # of the end of stage 3, when nothing trains any more
    minimum_seconds: float  # of all stages with the fewest steps
    methods: tuple[str, ...]  # for which there is time
    skipped_methods: tuple[str, ...]
    judges_text: str  # the validation classes in words
    most_steps: int

    def lines(self) -> list[str]:
        """The stages in words, with their expected times."""
        (first, count), *others = self.rungs
        on = ", then goes on" if count == 1 else "; the better half goes on, and again,"
        longer = f"{on} to {others[-1][0]} steps" if others else ""
        last = self.limit - self.untrained_seconds - self.search_seconds
        skipped = ", ".join(self.skipped_methods)
        names = f" ({', '.join(self.methods)}; no time for {skipped})" if skipped else ""
        lines = [
            f"1. untrained features at {', '.join(map(str, self.sizes))} pixels: about "
            f"{duration(self.untrained_seconds)}",
            f"2. {plural(count, 'objective trains', 'objectives train')} the network for {first} steps{longer}: about "
            f"{duration(self.search_seconds)}{names}",
            f"3. the best one trains on all training classes, and is tested: about {duration(max(1.0, last))}",
            f"{self.judges_text} judge 1 and 2.",
        ]
        if self.minimum_seconds > self.limit:
            lines.append(f"Even the shortest training makes it about {duration(self.minimum_seconds)}: more than that.")
        return lines


def trained_size(tested: int, grain: int = 32) -> int:
    """The size of training images for a size of test images, a multiple of `grain`.

    >>> [trained_size(side) for side in (96, 160, 224)], trained_size(224, grain=14)
    ([64, 128, 160], 154)
    """
    return max(math.ceil(64 / grain), round(TRAINED_AT * tested / grain)) * grain


def make_plan(
    limit: float,
    amounts: Amounts,
    timing: Timing,
    sizes: Mapping[int, int],
    methods: Sequence[str],
    cores: int,
    judges: str,
) -> StagePlan:
    """Divide the time. More time makes rungs longer, and a longer training goes on from a shorter one.

    sizes: of training images, by those of test images.
    """
    tests = 2 * amounts.folds * amounts.test
    affordable = [size for size in sizes if tests * timing.image_at(size) / cores <= TEST * limit] or [min(sizes)]
    looking = sum(amounts.validation * timing.image_at(size) for size in affordable)
    tested = max(affordable)
    testing = OVERHEAD + tests * timing.image_at(tested) / min(cores, 2)
    step, judging = timing.step_at(sizes[tested]), amounts.validation * timing.image_at(tested)
    most = amounts.most_steps()

    def cost(rungs: Sequence[tuple[int, int]]) -> float:
        before = [0, *(steps for steps, _ in rungs)]
        added = [(steps - earlier, count) for (steps, count), earlier in zip(rungs, before, strict=False)]
        return sum(math.ceil(count / cores) * (steps * step + judging) for steps, count in added)

    budget = SEARCH * (limit - looking - testing)
    lengths = doubled(FIRST_STEPS, most)
    ranking = [steps for steps in lengths if steps >= RANKING_STEPS] or lengths[-1:]
    ladders = [halving(first, 1, most) for first in lengths]
    ladders += [halving(first, count, most) for count in range(2, len(methods) + 1) for first in ranking]
    shorter = [ladder[:count] for ladder in ladders for count in range(1, len(ladder) + 1)]
    fitting = [rungs for rungs in shorter if cost(rungs) <= budget]
    # first the number of objectives, then a second rung, then the steps
    worth = {(rungs[0][1], len(rungs) > 1, rungs[0][0], len(rungs)): rungs for rungs in fitting}
    rungs = worth[max(worth)] if worth else [(FIRST_STEPS, 1)]
    while rungs[-1][0] * 2 <= most and cost([*rungs, (rungs[-1][0] * 2, 1)]) <= budget:
        rungs.append((rungs[-1][0] * 2, 1))
    shortest = looking + cost(rungs[:1]) + FIRST_STEPS * step * amounts.folds + testing
    tried = rungs[0][1]
    return StagePlan(
        limit, tuple(affordable), tuple(rungs), looking, cost(rungs), judging, testing, shortest,
        tuple(methods[:tried]), tuple(methods[tried:]), judges, most,
    )  # fmt: skip


def usual_time(amounts: Amounts, timing: Timing, sizes: Mapping[int, int], cores: int) -> float:
    """The time limit where the user gives none, in whole 5 minutes."""
    step = timing.step_at(max(sizes.values())) * amounts.folds
    testing = 2 * amounts.folds * amounts.test * timing.image_at(max(sizes)) / cores
    seconds = USUAL_EPOCHS * amounts.train / amounts.batch * step / (1 - SEARCH) + testing
    least, most = USUAL_TIME
    return math.ceil(min(max(seconds, least), most) / 300) * 300.0


def most_images(limit: float | None, cores: int) -> int:
    """How many images can be checked, embedded and still leave most of the time; of more, a sample is used.

    >>> most_images(1800, 1), most_images(None, 2)
    (36000, 144000)
    """
    return int(IMAGES_A_SECOND * (USUAL_TIME[1] if limit is None else limit) * cores)


def halving(first: int, count: int, most: int) -> list[tuple[int, int]]:
    """Rungs of (steps, methods): half of the methods go on to twice the steps, until one is left or has `most` steps.

    At least two rungs, if `most` allows it: the last one shows whether more steps help.

    >>> halving(50, 5, 999), halving(50, 1, 999), halving(50, 6, 150)
    ([(50, 5), (100, 3), (200, 2), (400, 1)], [(50, 1), (100, 1)], [(50, 6), (100, 3)])
    """
    rungs = [(first, count)]
    while (rungs[-1][1] > 1 or len(rungs) < 2) and 2 * rungs[-1][0] <= most:
        steps, left = rungs[-1]
        rungs.append((2 * steps, math.ceil(left / 2)))
    return rungs


def doubled(first: int, most: int) -> list[int]:
    """`first` and its doubles up to `most`.

    >>> doubled(50, 400), doubled(50, 30)
    ([50, 100, 200, 400], [50])
    """
    return [first * 2**k for k in range(max(1, most // first).bit_length())]
