"""Training on photographs: a stage on stored maps, and decoding while training, each against a bare PyTorch loop."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from harness.figures import Figure
from harness.interleaved import Sample, between, clocks, interleave, ratio, typical
from harness.lanes import Bare, Ours
from levelfield import library
from levelfield.data.images import read_image
from levelfield.studies import parse_study, plan

SIDE = 160
WORKERS = 2
DRAWN = 24, 12  # classes, and photographs of each
PRODUCT, PRODUCTS = 1024, 10  # rows and columns of the matrices whose product is the machine's own speed; how many


def draw_photographs(folder: Path) -> Path:
    """JPEG files with a shorter side of 160 pixels: blurred fields and noise."""
    random = np.random.default_rng(0)
    for label in range(DRAWN[0]):
        place = folder / f"class{label:02d}"
        place.mkdir(parents=True, exist_ok=True)
        own = random.integers(0, 256, size=(8, 10, 3))
        for number in range(DRAWN[1]):
            fields = np.clip(own + random.normal(0, 40, size=own.shape), 0, 255).astype(np.uint8)
            pixels = np.asarray(Image.fromarray(fields).resize((SIDE * 5 // 4, SIDE), Image.Resampling.BICUBIC))
            noisy = np.clip(pixels + random.normal(0, 12, size=pixels.shape), 0, 255).astype(np.uint8)
            Image.fromarray(noisy).save(place / f"{number:02d}.jpg", quality=90)
    return folder


class Decoding(Ours):
    """levelfield's loop without a cache: workers decode and augment photographs while it trains."""

    workers = WORKERS


class PhotographNetwork(nn.Module):
    """A whole network by hand: frozen pieces, trained pieces, the mean over the last map, one linear map."""

    def __init__(self, frozen: list[nn.Module], trained: list[nn.Module], linear: nn.Linear) -> None:
        super().__init__()
        self.frozen, self.stages, self.linear = nn.ModuleList(frozen), nn.ModuleList(trained), linear

    def forward(self, inputs: tuple[Tensor, ...]) -> Tensor:
        """inputs: images or, if nothing is frozen here, the maps below the trained pieces."""
        now = self.below(inputs)
        for piece in self.stages:
            now = piece(now)
        return self.linear(functional.normalize(now.mean(dim=(2, 3)), dim=1))

    @torch.no_grad()
    def below(self, inputs: tuple[Tensor, ...]) -> Tensor:
        """The maps on which the trained pieces begin."""
        now = inputs[0].contiguous(memory_format=torch.channels_last)
        for piece in self.frozen:
            now = piece(now)
        return now


class BareStage(Bare):
    """A bare loop over the stored maps of `ours`."""

    from_images = False

    def make_network(self, ours: Ours, trained: list[nn.Module], linear: nn.Linear) -> nn.Module:
        trunk = ours.embedder.trunk
        count = len(trunk._used) - len(trained)
        frozen = [trunk.pieces[name.replace(".", "_")] for name in trunk._used[:count]] if self.from_images else []
        return PhotographNetwork(copy.deepcopy(frozen), trained, linear)

    def operations(self) -> float:
        """Multiplications and additions of one step. What trains costs three forward passes: backward costs two.

        Counted forward only: torch counts the backward pass of depthwise convolutions as if they were dense.
        """
        inputs, _ = self.batch(self.order[0])
        with torch.no_grad(), FlopCounterMode(display=False) as whole:
            self.network(inputs)
        with FlopCounterMode(display=False) as below:
            self.network.below(inputs)
        return 3.0 * whole.get_total_flops() - 2.0 * below.get_total_flops()


class BareDecoded(BareStage):
    """A bare loop over photographs that are decoded and resized before the first step."""

    from_images = True

    def stored(self, ours: Ours) -> tuple[Tensor, ...]:
        view, catalog = ours.inputs.views[1], ours.inputs.catalog
        return (torch.stack([view(read_image(catalog.paths[i]), None) for i in ours.inputs.fold.train]),)


class Photographs:
    """The part `photos` of the training benchmark."""

    def __init__(self, images: Path, *, casts: int, rounds: int, steps: int, settings: list[str]) -> None:
        self.casts, self.rounds, self.steps = casts, rounds, steps
        content = library.content("photos/base") | {"data": str(images), "methods": ["contrastive"], "seeds": 1}
        content["conditions"] |= {"image": SIDE, "batch": "8x4", "cut": "last-1", "dim": 128, "schedule": "cosine"}
        self.content = parse_study(content, settings).model_dump(mode="json")

    def figures(self) -> Iterator[Figure]:
        """Waiting and speed on stored maps, then speed while photographs are decoded."""
        yield from self._on_maps()
        yield from self._while_decoding()

    def _on_maps(self) -> Iterator[Figure]:
        waiting: list[float] = []
        samples, bare = self._pooled(Ours, BareStage, {}, waiting)
        yield Figure(
            part="photos",
            what=f"waiting for stored maps, {self.shown}",
            peer="time of the loop",
            value=median(waiting),
            target=0.05,
            at_most=True,
            unit="%",
        )
        yield self._figure(f"step of the last stage, {self.shown}", "bare loop over the same maps", 1.1, samples, bare)

    def _while_decoding(self) -> Iterator[Figure]:
        waiting: list[float] = []
        changed = {"cache": False, "augment": "standard", "views": 0}
        samples, bare = self._pooled(Decoding, BareDecoded, changed, waiting)
        what = f"step without cache, {WORKERS} workers, {self.shown}"
        found = self._figure(what, "bare loop over decoded tensors", 1.25, samples, bare)
        found.facts["waiting"] = median(waiting)
        yield found

    @property
    def shown(self) -> str:
        return f"{self.content['conditions']['image']} px"

    def _pooled(
        self, ours: type[Ours], peer: type[BareStage], changed: dict[str, Any], waiting: list[float]
    ) -> tuple[dict[str, list[Sample]], BareStage]:
        """Slices of our loop, its peer and the machine's own product, interleaved; several casts."""
        pooled: dict[str, list[Sample]] = {}
        kept = []  # kept alive, so that the next cast has other addresses
        for _ in range(self.casts):
            conditions = self.content["conditions"] | changed
            cast = ours(plan(parse_study({**self.content, "conditions": conditions}))[0].spec)
            bare = peer(cast)
            check_same_rows(cast, bare)
            kept += [cast, bare]
            lanes: dict[str, Callable[[], Sample]] = {
                "ours": partial(cast.slice, self.steps),
                "bare": partial(bare.slice, self.steps),
                "product": product,
            }
            for name, samples in interleave(lanes, self.rounds).items():
                pooled.setdefault(name, []).extend(samples)
            waiting += cast.waiting[1:]  # the first slice warms up
        return pooled, bare

    def _figure(self, what: str, peer: str, target: float, samples: dict[str, list[Sample]], bare: BareStage) -> Figure:
        seconds, size = {name: typical(lane) for name, lane in samples.items()}, len(bare.order[0])
        operations = bare.operations()
        return Figure(
            part="photos",
            what=what,
            peer=peer,
            value=ratio(samples["ours"], samples["bare"]),
            target=target,
            at_most=True,
            facts={
                "ours_ms": round(1e3 * seconds["ours"], 3),
                "bare_ms": round(1e3 * seconds["bare"], 3),
                "images_per_second": size / seconds["ours"],
                "gflops_per_second": operations / seconds["ours"] / 1e9,
                "share_of_matrix_product": operations / (2 * PRODUCT**3) * ratio(samples["product"], samples["ours"]),
                "ratio_of_computing_time": ratio(samples["ours"], samples["bare"], clock="cpu"),
            },
        )


def product() -> Sample:
    """The machine's own speed: one product of two square matrices."""
    left = torch.ones(PRODUCT, PRODUCT)
    before = clocks()
    for _ in range(PRODUCTS):
        torch.mm(left, left)
    return between(before, clocks(), PRODUCTS)


def check_same_rows(ours: Ours, bare: BareStage) -> None:
    """Check that both networks give the same rows, so that the comparison is valid."""
    [inputs], _ = bare.batch(bare.order[0])
    with torch.no_grad():
        expected = ours.embedder(inputs if bare.from_images else (inputs,))
    torch.testing.assert_close(bare.first_rows, expected, rtol=1e-3, atol=1e-4)
