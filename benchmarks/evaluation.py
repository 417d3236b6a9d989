"""Speed and memory of the evaluation engine as ratios: one thread, CPU time, best of 3, interleaved.

    python benchmarks/evaluation.py [--only NAME] [--quick] [--no-pml]

The bound is the float32 product of all queries with the gallery in blocks (d = 512). On the SOP-like set the bound and
pytorch-metric-learning (PML) run on part of the queries against the whole gallery and are scaled; ours runs in full.
Peak memory comes from a fresh process per measurement. Prints a table, writes results/evaluation.json.
"""

from __future__ import annotations

from harness import one_thread  # noqa: F401  isort: skip  (before torch and numpy)
import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from harness import first_call
from harness.contenders import CALLS, METRICS, pml_missing, share, warm_up
from harness.figures import Figure, save, table
from harness.interleaved import Sample, best, between, clocks
from harness.samples import QUICK, SHAPES
from peak import in_a_fresh_process
from rich.console import Console

from levelfield.evaluation import evaluate

HERE = Path(__file__).parent
Bound = tuple[float, float]  # must, good
TIMES_THE_PRODUCT: dict[str, Bound] = {
    "CUB-like": (1.3, 0.9),
    "In-Shop-like": (1.3, 1.1),
    "20k": (0.85, 0.68),
    "SOP-like": (0.80, 0.63),
}
FASTER_THAN_PML: dict[str, Bound] = {
    "CUB-like": (5, 7),
    "In-Shop-like": (2.5, 3),
    "20k": (3, 3.6),
    "SOP-like": (3, 4),
}
MEMORY = ((1.3, 64), (1.2, 32))  # times the embeddings, plus megabytes; plus 16 bytes per query-positive pair
TWO_THREADS = 1.7
FIRST_CALL = (10_000, 2_000)  # milliseconds
EVERYTHING = (
    *METRICS,
    "precision@10",
    "map@c[released]",
    "map@1000",
    "nmi",
    "ami",
    "ari",
    "f1",
    "rho",
    "intra_distance",
    "inter_distance",
    "density",
    "alignment",
    "uniformity",
)
STARTS, FULL = 3, 2.0  # of k-means; times the sum of the bounds
WITHOUT_NUMBA, PAYS = ("CUB-like", "20k"), 1.2  # the smallest and a medium set; required speedup by numba


@dataclass(frozen=True)
class Benchmark:
    """Measurements and their repetitions."""

    quick: bool
    pml: bool
    say: Callable[[str], None]

    @property
    def rounds(self) -> int:
        return 1 if self.quick else 3

    def of_set(self, name: str) -> Iterator[Figure]:
        """Times against the bound and PML, and the peak memory, of one set."""
        sample = (QUICK if self.quick else SHAPES)[name].sample()
        lanes = [
            "product",
            "ours",
            "short",
            *(["torch"] if name in WITHOUT_NUMBA else []),
            *(["PML"] if self.pml else []),
        ]
        for who in lanes:
            warm_up(who)
        taken: dict[str, list[float]] = {who: [] for who in lanes}
        for number in range(self.rounds):
            for who in lanes[:: 1 if number % 2 == 0 else -1]:
                before = clocks()
                CALLS[who](sample)
                taken[who].append(between(before, clocks()).cpu / share(who, sample))
                self.say(f"  {name}: {who}: {taken[who][-1]:.2f} s" + self._scaled(who, share(who, sample)))
        least = {who: min(seconds) for who, seconds in taken.items()}
        facts = {f"{who}_seconds": seconds for who, seconds in least.items()}
        must, good = TIMES_THE_PRODUCT[name]
        yield Figure(
            name, "every retrieval metric", "product", least["ours"] / least["product"], must, True, good, facts=facts
        )
        yield Figure(name, "recall, R-precision, MAP@R", "product", least["short"] / least["product"], None, True)
        if "torch" in least:
            without = least["torch"] / least["ours"]
            yield Figure(name, "every retrieval metric", "without numba, in torch", without, PAYS, False)
        if self.pml:
            must, good = FASTER_THAN_PML[name]
            yield Figure(
                name,
                "every retrieval metric",
                "PML, k = 1000",
                least["PML"] / least["ours"],
                must,
                False,
                good,
                facts={"share_of_queries": share("PML", sample)},
            )
        limits = [times * sample.bytes / 1e6 + more + 16 * sample.pairs / 1e6 for times, more in MEMORY]
        peak = in_a_fresh_process("ours", name, quick=self.quick) / 1e6
        yield Figure(
            name,
            "extra memory",
            "-",
            peak,
            limits[0],
            True,
            limits[1],
            "MB",
            facts={"embeddings_MB": sample.bytes / 1e6, "pairs": sample.pairs},
        )
        if self.pml:
            peak = in_a_fresh_process("PML", name, quick=self.quick) / 1e6
            yield Figure(
                name,
                "extra memory of PML",
                "-",
                peak,
                None,
                True,
                unit="MB",
                facts={"share_of_queries": share("PML", sample)},
            )

    @staticmethod
    def _scaled(who: str, part: float) -> str:
        return f" (scaled from {part:.0%} of the queries)" if part < 1 else ""

    def two_threads(self) -> Iterator[Figure]:
        """Wall time: two threads against one, compared with the speedup of two threads on independent products."""
        sample = (QUICK if self.quick else SHAPES)["20k"].sample()
        taken: dict[int, list[Sample]] = {1: [], 2: []}
        products: dict[int, list[Sample]] = {1: [], 2: []}
        warm_up("ours")
        for _ in range(self.rounds):
            for threads in taken:
                torch.set_num_threads(threads)
                try:
                    for who, kept in (("ours", taken), ("product", products)):
                        before = clocks()
                        CALLS[who](sample)
                        kept[threads].append(between(before, clocks()))
                finally:
                    torch.set_num_threads(1)
        wall = {threads: min(one.wall for one in samples) for threads, samples in taken.items()}
        alone = {threads: min(one.wall for one in samples) for threads, samples in products.items()}
        yield Figure(
            "threads",
            "20k, two threads",
            "one thread",
            wall[1] / wall[2],
            TWO_THREADS,
            False,
            facts={"product_alone": alone[1] / alone[2], "more_computing": best(taken[2]) / best(taken[1])},
        )

    def full(self) -> Iterator[Figure]:
        """All metrics in one call, against twice the sum of the targets of its parts.

        The sum: retrieval within its target, three starts of k-means of a good number of passes each, and half of the
        product for uniformity.
        """
        import evaluation_clusters as clusters

        name = "20k" if self.quick else "SOP-like"
        sample = (QUICK if self.quick else SHAPES)[name].sample()
        warm_up("ours")
        before = clocks()
        CALLS["product"](sample)
        product = between(before, clocks()).cpu / share("product", sample)
        a_pass = clusters.one_pass(sample.query, len(set(sample.labels.tolist()))).cpu
        before = clocks()
        found = evaluate(sample.query, sample.labels, metrics=EVERYTHING, starts=STARTS)
        taken = between(before, clocks()).cpu
        bound = TIMES_THE_PRODUCT[name][0] * product + STARTS * clusters.PASSES[name][1] * a_pass + product / 2
        self.say(f"  {name}: {len(found)} metrics: {taken:.1f} s, product {product:.1f} s, a pass {a_pass:.2f} s")
        yield Figure(
            name,
            "every metric in one call",
            "sum of the bounds",
            taken / bound,
            FULL,
            True,
            facts={"seconds": taken, "product_seconds": product, "pass_seconds": a_pass},
        )

    def compiling(self) -> Iterator[Figure]:
        """The very first call, which compiles the loops, and the first call of a later process."""
        first, later = first_call.measured()
        yield Figure("first call", "loops compiled", "-", 1e3 * first, FIRST_CALL[0], True, FIRST_CALL[1], "ms")
        yield Figure("first call", "loops kept on disk", "-", 1e3 * later, None, True, unit="ms")

    def clusters(self) -> Iterator[Figure]:
        """k-means and its metrics: see evaluation_clusters.py."""
        import evaluation_clusters

        yield from evaluation_clusters.figures(quick=self.quick, say=self.say)

    def parts(self) -> dict[str, Callable[[], Iterator[Figure]]]:
        """Every part by its name."""
        found: dict[str, Callable[[], Iterator[Figure]]] = {name: partial(self.of_set, name) for name in SHAPES}
        return found | {
            "threads": self.two_threads,
            "first call": self.compiling,
            "clusters": self.clusters,
            "full": self.full,
        }


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Measure, print, save."""
    names = list(Benchmark(True, False, print).parts())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help=f"one of {', '.join(names)}")
    parser.add_argument("--quick", action="store_true", help="tiny sets: whether it works, not how fast")
    parser.add_argument("--no-pml", action="store_true", help="without pytorch-metric-learning")
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: results/evaluation.json; --quick: none")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    console = Console()

    def say(text: str) -> None:
        console.print(text, highlight=False, soft_wrap=True)

    missing = pml_missing()
    if missing and not chosen.no_pml:
        say(f"Without PML: {missing}.")
    benchmark = Benchmark(chosen.quick, not chosen.no_pml and missing is None, say)
    out = chosen.out or (None if chosen.quick else HERE / "results" / "evaluation.json")
    figures = []
    for name in chosen.only or names:
        for figure in benchmark.parts()[name]():
            figures.append(figure)
            if out is not None:  # immediately: a long run may be interrupted
                save(out, [figure])
            say(f"{figure.part}: {figure.what}: {figure.peer}: {figure.shown[0]} {figure.verdict}")
    console.print(table(figures, "Speed of the evaluation"))
    asked = [figure for figure in figures if figure.target is not None]
    say(
        f"{sum(figure.reached for figure in asked)} of {len(asked)} targets reached, "
        f"{sum(figure.verdict == 'yes, good' for figure in asked)} of them well."
    )
    return figures


if __name__ == "__main__":
    main()
