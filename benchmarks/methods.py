"""Speed and memory of methods beyond a plain loss: one core, CPU time, best of many, interleaved.

    python benchmarks/methods.py [--only hist] [--quick]

Forward and backward of a method (batch 112, d = 512, 100 and 11,318 classes; of drml with its head) against exactly the
matrix products that its equations need, which method_products.py lists; also normalized softmax on the same rows, in
multiples of the same products. Peak memory with twice as many classes: at most twice as much. Refinement of 6,000 test
embeddings against ranking them once. Prints a table and writes results/methods.json next to this file.
"""

from __future__ import annotations

from harness import one_thread  # noqa: F401  isort: skip  (before torch and numpy)
from harness import memory  # isort: skip  (before torch)
import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from harness import method_products as of
from harness.figures import Figure, save, table
from harness.interleaved import Sample, best, between, clocks, keep_freed_memory, take_turns
from rich.console import Console
from torch import Tensor, nn

from levelfield import objectives
from levelfield.embedder.relation import RelationHead
from levelfield.evaluation import evaluate
from levelfield.methods.drml import Drml
from levelfield.methods.refine.groups import reciprocal_groups
from levelfield.methods.refine.passing import refined_rows
from levelfield.objectives import MessagePassing
from objectives import DIM, batch_of, spread

HERE = Path(__file__).parent
BATCH, PER_CLASS, FEATURES = 112, 4, 1024  # features: BN-Inception's
CLASSES = (100, 11_318)  # CUB's and SOP's training halves
TIMES_THE_PRODUCTS = 1.3
TIMES_THE_RANKING = 20


@dataclass(frozen=True)
class Lane:
    """A step of a method and one of normalized softmax on the same input, and the products of the method."""

    ours: Callable[[], Sample]
    softmax: Callable[[], Sample]
    products: Sequence[of.Product]


def objective(name: str, classes: int) -> Lane:
    """An objective on raw rows."""
    rows, labels = batch_of(BATCH, PER_CLASS)
    labels, draw = spread(labels, classes), torch.Generator().manual_seed(0)
    made, softmax = (objectives.create(one, num_classes=classes, dim=DIM) for one in (name, "normalized_softmax"))
    needed = {
        "hist": partial(of.hist, present=len(labels.unique())),
        "message_passing": of.message_passing,
    }[name]
    return Lane(
        step(lambda: made(rows, labels, generator=draw), rows, made),
        step(lambda: softmax(rows, labels, generator=draw), rows, softmax),
        needed(BATCH, DIM, classes),
    )


def drml(classes: int) -> Lane:
    """DRML around cosface with its head; normalized softmax with the common head."""
    features, draw = torch.randn(BATCH, FEATURES, generator=torch.Generator().manual_seed(0)), torch.Generator()
    features.requires_grad_()
    labels = spread(batch_of(BATCH, PER_CLASS)[1], classes)
    method, head = Drml(num_classes=classes, dim=DIM), RelationHead(FEATURES, DIM).train()
    softmax, linear = objectives.create("normalized_softmax", num_classes=classes, dim=DIM), nn.Linear(FEATURES, DIM)

    def loss() -> Tensor:
        final = head(features)
        return torch.stack(list(method.terms(head.taken()._replace(final=final), labels, draw).values())).sum()

    return Lane(
        step(loss, features, method, head),
        step(lambda: softmax(linear(features), labels, generator=draw), features, softmax, linear),
        of.drml(BATCH, DIM, classes, features=FEATURES),
    )


LANES: dict[str, Callable[[int], Lane]] = {
    "hist": partial(objective, "hist"),
    "message_passing": partial(objective, "message_passing"),
    "drml": drml,
}


def step(loss: Callable[[], Tensor], rows: Tensor, *modules: nn.Module) -> Callable[[], Sample]:
    """Time forward and backward; gradients are dropped outside the timing, as an optimiser would."""

    def once() -> Sample:
        before = clocks()
        loss().backward()
        taken = between(before, clocks())
        rows.grad = None
        for module in modules:
            module.zero_grad(set_to_none=True)
        return taken

    return once


@dataclass(frozen=True)
class Benchmark:
    """Measurements and their repetitions."""

    quick: bool

    def of_method(self, name: str) -> Iterator[Figure]:
        for classes in (20,) if self.quick else CLASSES:
            lane = LANES[name](classes)
            taken = self._taken({"ours": lane.ours, "softmax": lane.softmax, "products": of.lane(lane.products)})
            took = {who: best(samples) for who, samples in taken.items()}
            facts = {f"{who}_ms": 1e3 * seconds for who, seconds in took.items()}
            facts["gigaflops"] = sum(product.flops for product in lane.products) / 1e9
            what, products = f"{classes:,} classes", took["products"]
            must = TIMES_THE_PRODUCTS
            yield Figure(name, what, "its products", took["ours"] / products, must, True, facts=facts)
            over = (took["ours"] - took["softmax"]) / products
            yield Figure(name, what, "its products, beyond normalized softmax", over, must, True)
            yield Figure(
                "normalized_softmax", f"{name}, {what}", "the same products", took["softmax"] / products, None, True
            )
        few, many = (20, 40) if self.quick else (CLASSES[-1] // 2, CLASSES[-1])
        peaks = {classes: memory.peak_bytes(LANES[name](classes).ours) / 1e6 for classes in (few, many)}
        facts = {f"{classes}_classes_mb": peak for classes, peak in peaks.items()}
        yield Figure(
            name, f"peak memory, {many:,} classes", f"{few:,} classes", peaks[many] / peaks[few], 2.0, True, facts=facts
        )

    def refine(self) -> Iterator[Figure]:
        """Groups of reciprocal neighbours, and the messages in them, against one evaluation's ranking."""
        count = 200 if self.quick else 6_000
        rows = batch_of(count, 60)[0].detach()
        rows = (rows / rows.norm(dim=1, keepdim=True)).numpy()
        labels = np.arange(count) // 60
        network = MessagePassing(num_classes=100, dim=DIM)
        groups = reciprocal_groups(rows)
        lanes = {
            "ranking": timed(lambda: evaluate(rows, labels, metrics=("recall@1", "map@r"))),
            "groups": timed(lambda: reciprocal_groups(rows)),
            "messages": timed(lambda: refined_rows(network, rows, None, groups)),
        }
        taken = self._taken(lanes)
        took = {who: best(samples) for who, samples in taken.items()}
        facts = {f"{who}_ms": 1e3 * seconds for who, seconds in took.items()}
        for what, parts in (("groups", ("groups",)), ("groups and messages", ("groups", "messages"))):
            value = sum(took[part] for part in parts) / took["ranking"]
            yield Figure(
                "refine",
                f"reciprocal {what}, {count:,} rows",
                "ranking them once",
                value,
                TIMES_THE_RANKING,
                True,
                facts=facts,
            )

    def _taken(self, lanes: dict[str, Callable[[], Sample]]) -> dict[str, list[Sample]]:
        if self.quick:
            return take_turns(lanes, seconds=0.02, least=2, most=3)
        return take_turns(lanes, seconds=6.0, least=5, most=1000)


def timed(call: Callable[[], object]) -> Callable[[], Sample]:
    def once() -> Sample:
        before = clocks()
        call()
        return between(before, clocks())

    return once


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Measure, print, save."""
    parts = (*LANES, "refine")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small and few: whether it works, not how fast")
    parser.add_argument("--only", action="append", choices=parts, help="measure this one; may be repeated")
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: results/methods.json; --quick: none")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    benchmark, console, figures = Benchmark(chosen.quick), Console(), []
    out = chosen.out or (None if chosen.quick else HERE / "results" / "methods.json")
    for name in chosen.only or parts:
        for figure in benchmark.refine() if name == "refine" else benchmark.of_method(name):
            figures.append(figure)
            if out is not None:  # immediately: a long run may be interrupted
                save(out, [figure])
            console.print(f"{figure.part}: {figure.what}: {figure.shown[0]} {figure.verdict}", highlight=False)
    console.print(table(figures, "Speed of the methods"))
    asked = [figure for figure in figures if figure.target is not None]
    console.print(f"{sum(figure.reached for figure in asked)} of {len(asked)} targets reached.", highlight=False)
    return figures


if __name__ == "__main__":
    keep_freed_memory()
    main()
