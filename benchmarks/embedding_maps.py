"""Maps of embeddings as ratios: CPU time and trustworthiness against scikit-learn's t-SNE and, if installed, openTSNE.

    python benchmarks/embedding_maps.py [--quick] [--peers]

Rows are synthetic: as many classes, images and dimensions as the demo's test set. Trustworthiness is of the 10 nearest
rows by cosine. `--peers` also runs openTSNE (pip install openTSNE). Prints a table, writes results/embedding_maps.json.
"""

from __future__ import annotations

from harness import one_thread  # noqa: F401  isort: skip  (before torch and numpy)
import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np
from harness.figures import Figure, save, table
from harness.interleaved import between, clocks
from rich.console import Console
from sklearn.manifold import TSNE, trustworthiness

from levelfield.evaluation.inputs import Array
from levelfield.evaluation.search.distances import unit_rows
from levelfield.randomness import numpy_stream
from levelfield.reports.embedding_map import embedding_maps

HERE = Path(__file__).parent
DEMO, LARGE, DIM, METHODS = 5_202, (20_000, 100_000), 128, 4
FASTER = (10.0, 15.0)  # than scikit-learn, must and good
EQUAL_TRUST = 0.99
T = TypeVar("T")


def made(count: int, seed: int) -> Array:
    """Unit rows around one centre for each 7 images, centres around a tenth as many; the methods' rows differ a bit."""
    stream, noise = numpy_stream(0, "maps"), numpy_stream(seed, "maps", "noise")
    groups = stream.normal(size=(count // 70 + 1, DIM))
    centres = groups[np.arange(count // 7 + 1) % len(groups)] + 0.7 * stream.normal(size=(count // 7 + 1, DIM))
    rows = centres[np.arange(count) % len(centres)] + 0.5 * noise.normal(size=(count, DIM))
    return unit_rows(rows.astype(np.float32))


def figures(*, quick: bool, peers: bool) -> Iterator[Figure]:
    count = 1_000 if quick else DEMO
    rows_of = {f"method {seed}": made(count, seed) for seed in range(METHODS)}
    first = rows_of["method 0"]
    embedding_maps({"warm-up": first[:60]})
    embedding_maps({"warm-up": made(1_200, 0)})
    (ours,), one = timed(lambda: list(embedding_maps({"method 0": first}).values()))
    maps, all_of_them = timed(lambda: embedding_maps(rows_of))
    facts = {"seconds": one, "seconds_of_a_later_map": (all_of_them - one) / (METHODS - 1)}
    others: dict[str, Callable[[], Array]] = {"scikit-learn": lambda: TSNE(random_state=0).fit_transform(first)}
    if peers:
        others["openTSNE"] = lambda: _open_tsne(first)
    trust = trusted(first, ours)
    last = list(rows_of)[-1]
    facts["trust"], facts["trust_of_a_later_map"] = trust, trusted(rows_of[last], maps[last])
    for peer, run in others.items():
        theirs, seconds = timed(run)
        known = trusted(first, theirs)
        must, good = FASTER if peer == "scikit-learn" and not quick else (None, None)
        told = {**facts, "peer_seconds": seconds, "peer_trust": known}
        yield Figure(f"{count:,} images", "a map", peer, seconds / one, must, False, good, facts=told)
        yield Figure(f"{count:,} images", "trustworthiness", peer, trust / known, EQUAL_TRUST, False)
    for many in () if quick else LARGE:
        _, seconds = timed(lambda many=many: embedding_maps({"a": made(many, 0)}))  # type: ignore[misc]
        yield Figure(f"{many:,} images", "a map", "the demo's", seconds / one, None, True, facts={"seconds": seconds})


def trusted(rows: Array, places: Array) -> float:
    return float(trustworthiness(rows, places, n_neighbors=10, metric="cosine"))


def timed(run: Callable[[], T]) -> tuple[T, float]:
    """The result, and its CPU seconds."""
    before = clocks()
    found = run()
    return found, between(before, clocks()).cpu


def _open_tsne(rows: Array) -> Array:
    from openTSNE import TSNE as OpenTSNE

    return np.asarray(OpenTSNE(random_state=0, negative_gradient_method="fft").fit(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a fifth of the images")
    parser.add_argument("--peers", action="store_true", help="also openTSNE")
    chosen = parser.parse_args()
    found = list(figures(quick=chosen.quick, peers=chosen.peers))
    Console(width=120).print(table(found, "Maps of embeddings"))
    if not chosen.quick:
        save(HERE / "results" / "embedding_maps.json", found)


if __name__ == "__main__":
    main()
