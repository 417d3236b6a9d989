"""Speed targets of each objective, as (must, good).

Multiples of the bound are upper limits: `sim` (unit rows, the similarity matrix, and the backward pass from a dense
random slope: three products) or, for objectives with class parameters, their own three products. Multiples of
pytorch-metric-learning (PML) are lower limits; without a number, PML is not run: it needs more than 7 GB or has no such
form.
"""

from __future__ import annotations

from typing import NamedTuple

Bound = tuple[float, float]

# Noise of a batch around its centres: early and late in training.
YOUNG, SOLVED = 2.0, 1.0


class Layout(NamedTuple):
    """A batch of pair objectives: number of images, and of images per class."""

    batch: int
    per_class: int = 4

    def __str__(self) -> str:
        return f"batch {self.batch}, {self.per_class} a class"


class Classes(NamedTuple):
    """A batch of objectives with class parameters."""

    classes: int
    batch: int

    def __str__(self) -> str:
        return f"{self.classes:,} classes, batch {self.batch}"


SMALL, MIDDLE, LARGE = Layout(112), Layout(512), Layout(2048)
BIG_CLASSES, HUGE_CLASSES = Layout(2048, 64), Layout(2048, 256)

# x sim
PAIRS = {
    SMALL: (1.6, 1.2),
    MIDDLE: (1.15, 0.85),
    LARGE: (1.15, 0.85),
    BIG_CLASSES: (1.3, 1.0),
    HUGE_CLASSES: (1.3, 1.0),
}
ALL_TRIPLETS = {**PAIRS, BIG_CLASSES: (2.2, 1.6), HUGE_CLASSES: (3.0, 2.1)}
SEMIHARD_ALL = {**PAIRS, BIG_CLASSES: (3.0, 2.2), HUGE_CLASSES: (4.0, 2.8)}
ANGULAR = {**PAIRS, BIG_CLASSES: (1.5, 1.2), HUGE_CLASSES: (1.5, 1.2)}
ANGULAR_N_PAIR = {SMALL: (2.0, 1.5), MIDDLE: (1.25, 0.9), LARGE: (1.25, 1.0)}
HISTOGRAM = {**PAIRS, SMALL: (2.0, 1.5)}
FAST_AP = {**PAIRS, SMALL: (2.0, 1.5), MIDDLE: (1.25, 0.95), LARGE: (1.25, 0.95)}
MINED = {**PAIRS, SMALL: (2.0, 1.5), MIDDLE: (1.0, 0.7), LARGE: (0.85, 0.55)}
DISTANCE_WEIGHTED = {**MINED, MIDDLE: (1.0, 0.8), LARGE: (0.85, 0.65)}


def few(targets: dict[Layout, Bound]) -> dict[Layout, Bound]:
    """Without the large classes: with a tuple for every positive there would be 63 and 255 for each anchor."""
    return {layout: bound for layout, bound in targets.items() if layout.per_class == 4}


PAYS = 1.2  # required speedup of a closed form over its definition
USUAL = ((100, 128), (512, 512))  # batch and dimensions at which it is measured
USUAL_CLASSES = (100, 774, 11_318)  # CUB or Cars, the embedded data, SOP

# times faster than PML
PML_TRIPLETS = {SMALL: (3.5, 4.5), MIDDLE: (18, 26), LARGE: (5.5, 7.5)}
PML_DISTANCE_WEIGHTED = {SMALL: (5, 7), MIDDLE: (12, 17), LARGE: (45, 70)}
PML_MULTI_SIMILARITY = {SMALL: (3, 3.8), MIDDLE: (4.5, 6), LARGE: (5, 7)}
PML_ALL_PAIRS_OF_TRIPLES = {SMALL: (75, 105)}  # nt_xent and lifted_structure: 7 GB and a minute at 512
PML_HISTOGRAM_SNR = {SMALL: (40, 60), MIDDLE: (180, 280)}  # over 22 GB at 2048
PML_FAST_AP = {SMALL: (1.6, 2.1), MIDDLE: (3, 4), LARGE: (9, 12)}
PML_ANGULAR = {SMALL: (3.5, 5), MIDDLE: (3.5, 5)}
PML_OTHERS = {SMALL: (1.6, 2), MIDDLE: (1.6, 2), LARGE: (1.6, 2)}

MEMORY = {LARGE: (8, 4), BIG_CLASSES: (8, 4), HUGE_CLASSES: (8, 4)}  # n x n matrices of float32

# x the three products of the same size
FEW = (Classes(100, 112), Classes(100, 512))
DEMO = (Classes(25, 112), Classes(774, 112))  # few classes, and the training classes of the demo
SHOP, SHOP_512 = Classes(11_318, 112), Classes(11_318, 512)
MANY, MANY_512 = Classes(100_000, 112), Classes(100_000, 512)
PROXIES = {SHOP: (1.25, 1.05), SHOP_512: (1.25, 1.05), MANY: (1.25, 1.1), MANY_512: (1.25, 1.1)}
SOFT_TRIPLE = {SHOP: (1.35, 1.05), SHOP_512: (1.35, 1.05), MANY: (1.35, 1.17), MANY_512: (1.35, 1.17)}


def pml_proxies(must: float, good: float, few: bool = True) -> dict[Classes, Bound]:
    """Times faster than PML at the large sizes; with few classes the same for all."""
    return {**dict.fromkeys(FEW if few else (), (1.25, 1.5)), **dict.fromkeys(PROXIES, (must, good))}


# megabytes beyond gradient (and logits): must, and for an objective without logits good
PROXY_MEMORY = 64
NO_LOGITS_MEMORY = 32

# milliseconds by (classes, images of each)
STRUCTURED_CLUSTERING = {(24, 5): (50, 17), (60, 2): (120, 50)}
