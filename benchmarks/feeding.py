"""Images per second into a network that costs nothing, beside a plain torch DataLoader with torchvision's transforms.

    python benchmarks/feeding.py [--quick]

Crops of 224 pixels from JPEGs of 500 x 400 pixels that it draws itself: training view and test view, with 0, 1 and 2
worker processes. Prints a table and writes results/feeding.json next to this file. Ratios are of CPU time, workers and
their start included, from slices that take turns: other work on the machine disturbs both sides alike. The facts of
each figure are images per second of wall time, which it does disturb.
"""

from __future__ import annotations

from harness import one_thread  # noqa: F401  isort: skip  (before torch and numpy)
import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from harness.figures import Figure, save, table
from harness.interleaved import Sample, between, interleave, ratio, typical
from PIL import Image
from rich.console import Console
from torch.utils.data import DataLoader, Dataset

import levelfield._torchvision  # noqa: F401  (has to come before torchvision)
from levelfield.data import decoders
from levelfield.data.loader import Loader
from levelfield.data.views.basic import TestView, View
from levelfield.data.views.named import train_view

# isort: split
from torchvision import transforms

HERE = Path(__file__).parent
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIDE, CROP, AREA, BATCH = 224, 0.875, (0.16, 1.0), 64
WORKERS = (0, 1, 2)
VIEWS: dict[str, View] = {
    "training view": train_view("standard", image=SIDE, mean=MEAN, std=STD),
    "test view": TestView(image=SIDE, crop=CROP, mean=MEAN, std=STD),
}
_CUBIC: dict[str, Any] = {"interpolation": transforms.InterpolationMode.BICUBIC}
_NUMBERS = [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
TRANSFORMS = {
    "training view": transforms.Compose(
        [transforms.RandomResizedCrop(SIDE, AREA, **_CUBIC), transforms.RandomHorizontalFlip(), *_NUMBERS]
    ),
    "test view": transforms.Compose(
        [transforms.Resize(round(SIDE / CROP), **_CUBIC), transforms.CenterCrop(SIDE), *_NUMBERS]
    ),
}
PLAIN = "plain DataLoader"


class Files(Dataset[torch.Tensor]):
    """Images as torchvision's own datasets read them."""

    def __init__(self, paths: Sequence[Path], transform: Callable[[Image.Image], torch.Tensor]) -> None:
        self.paths, self.transform = paths, transform

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        with open(self.paths[index], "rb") as file:
            return self.transform(Image.open(file).convert("RGB"))


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few and short slices: whether it works, not how fast")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "feeding.json", metavar="FILE")
    chosen = parser.parse_args(arguments)
    images, rounds = (16, 1) if chosen.quick else (6 * BATCH, 15)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(decoders, "TINY", 0):  # a slice is short
        paths = draw(Path(folder) / "small", images, (500, 400))
        large = draw(Path(folder) / "large", images // 8, (2000, 1600))
        figures = [*against_plain(paths, rounds), *reduced(large, rounds), *decoded(paths, rounds)]
    Console().print(table(figures, "Feeding a network that costs nothing (ratios of CPU time, higher is better)"))
    for one in figures:
        facts = one.facts
        speeds = f"{facts['images_per_second']:.0f} against {facts['peer_images_per_second']:.0f} images/s of wall time"
        Console().print(f"{one.what}, {one.peer}: {speeds}", highlight=False, soft_wrap=True)
    save(chosen.out, figures)
    return figures


def against_plain(paths: Sequence[Path], rounds: int) -> Iterator[Figure]:
    """Both loaders with as many workers, and our test view against our training view."""
    lanes = {}
    for view, workers in product(VIEWS, WORKERS):
        lanes[f"ours, {view}, {workers}"] = lane(lambda v=view, w=workers: ours(paths, v, w), len(paths))
        lanes[f"plain, {view}, {workers}"] = lane(lambda v=view, w=workers: plain(paths, v, w), len(paths))
    samples = interleave(lanes, rounds)
    for view, workers in product(VIEWS, WORKERS):
        mine, theirs = (samples[f"{side}, {view}, {workers}"] for side in ("ours", "plain"))
        yield figure(f"{view}, workers: {workers}", f"{PLAIN}, workers: {workers}", mine, theirs)
    for workers in WORKERS:
        test, training = (samples[f"ours, {view}, {workers}"] for view in ("test view", "training view"))
        yield figure(f"test view, workers: {workers}", f"training view, workers: {workers}", test, training)


def reduced(paths: Sequence[Path], rounds: int) -> Iterator[Figure]:
    """The test view of large photos: our loader decodes them at reduced size."""
    lanes = {
        "ours": lane(lambda: ours(paths, "test view", 0), len(paths)),
        "plain": lane(lambda: plain(paths, "test view", 0), len(paths)),
    }
    samples = interleave(lanes, rounds)
    yield figure("test view of 2000 x 1600, workers: 0", f"{PLAIN}, workers: 0", samples["ours"], samples["plain"])


def decoded(paths: Sequence[Path], rounds: int) -> Iterator[Figure]:
    """What keeping decoded images in memory (600 kB each) could gain at most; no target: levelfield does not do it."""
    images = [Image.open(path).convert("RGB") for path in paths[:BATCH]]
    lanes = {
        f"{view}, {kind}": lane(lambda v=view, p=pictures: ours(p, v, 0), len(images))
        for view in VIEWS
        for kind, pictures in (("decoded", images), ("files", paths[:BATCH]))
    }
    samples = interleave(lanes, rounds)
    for view in VIEWS:
        kept, read = (samples[f"{view}, {kind}"] for kind in ("decoded", "files"))
        measured = figure(f"{view} of decoded images, workers: 0", f"{view}, workers: 0", kept, read)
        yield replace(measured, target=None)


def figure(what: str, peer: str, mine: list[Sample], theirs: list[Sample]) -> Figure:
    facts = {
        "images_per_second": 1 / typical(mine),
        "peer_images_per_second": 1 / typical(theirs),
        "cpu_ms_per_image": 1000 * typical(mine, clock="cpu"),
        "peer_cpu_ms_per_image": 1000 * typical(theirs, clock="cpu"),
        "wall_ratio": ratio(theirs, mine),
    }
    return Figure("feeding", what, peer, ratio(theirs, mine, clock="cpu"), 1.0, at_most=False, facts=facts)


def ours(paths: Sequence[Path | Image.Image], view: str, workers: int) -> Iterable[object]:
    with decoders.decoding(workers):
        loader = Loader(paths, VIEWS[view])
        if not VIEWS[view].random:
            yield from loader
            return
        keys = [(k, (0, "view", 0, k, 0)) for k in range(len(paths))]
        yield from loader.batches(keys[start : start + BATCH] for start in range(0, len(keys), BATCH))


def plain(paths: Sequence[Path], view: str, workers: int) -> Iterable[object]:
    files = Files(paths, TRANSFORMS[view])
    return DataLoader(files, batch_size=BATCH, shuffle=VIEWS[view].random, num_workers=workers)


def lane(batches: Callable[[], Iterable[object]], images: int) -> Callable[[], Sample]:
    """One pass over all images; the time of one image."""

    def measure() -> Sample:
        before = clocks()
        for batch in batches():
            del batch  # the network that costs nothing
        return between(before, clocks(), images)

    return measure


def clocks() -> tuple[float, float]:
    """Wall time, and CPU time of this process and of all processes that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return time.perf_counter(), sum(one.ru_utime + one.ru_stime for one in used)


def draw(folder: Path, count: int, size: tuple[int, int]) -> list[Path]:
    """JPEGs with smooth colours and some noise, about as large as photographs."""
    folder.mkdir()
    paths = [folder / f"{number}.jpg" for number in range(count)]
    for number, path in enumerate(paths):
        random = np.random.default_rng(number)
        smooth = Image.fromarray(random.integers(0, 256, (20, 25, 3), dtype=np.uint8)).resize(size, Image.BICUBIC)
        noise = 8 * random.standard_normal((size[1], size[0], 3), dtype=np.float32)
        Image.fromarray((np.asarray(smooth) + noise).clip(0, 255).astype(np.uint8)).save(path, quality=90)
    return paths


if __name__ == "__main__":
    main()
