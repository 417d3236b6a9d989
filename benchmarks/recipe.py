"""What pays in a few CPU minutes on photographs: the measurements behind the constants of tuning/recipe.py.

    python benchmarks/recipe.py CUB_200_2011/images --minutes 5 --head pca --dim 1280 --image 160

Trains on 30 photographs of each of the first 50 classes and judges on the next 50, all of CUB's training half: the
classes that papers test are not looked at. Prints recall@1 of the rows of the head and of the features below it, at
each size of test images, and adds it to benchmarks/results/recipe.json.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional

from levelfield import objectives
from levelfield.embedder.linear import whitened_components
from levelfield.embedder.networks.tf_efficientnet_lite0 import load_lite0
from levelfield.files.writing import write_json

import timm  # isort: skip

RESULTS = Path(__file__).parent / "results" / "recipe.json"
WIDTH, CLASSES, EACH, AREA = 1280, 50, 30, 0.35
Photos = list[tuple[Image.Image, int]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path)
    parser.add_argument("--minutes", type=float, default=5, help="CPU minutes of training.")
    parser.add_argument("--image", type=int, default=160, help="Side of the training images.")
    parser.add_argument("--test", type=int, nargs="+", default=[160, 224], help="Sides of the test images.")
    parser.add_argument("--freeze", type=int, default=3, help="Pieces that do not train: the entrance and stages.")
    parser.add_argument("--head", choices=("random", "pca", "none"), default="pca")
    parser.add_argument("--dim", type=int, default=WIDTH)
    parser.add_argument("--proxies", choices=("random", "means"), default="means")
    parser.add_argument("--loss", default="proxy_anchor")
    parser.add_argument("--lr", type=float, default=2e-4, help="Of the network; the head has 1e-3, proxies 1e-2.")
    parser.add_argument("--also", help="Another loss, which is added.")
    parser.add_argument("--first", type=int, default=0, help="Side of the training images in the first half.")
    parser.add_argument("--bf16", action="store_true", help="Compute the network in bfloat16.")
    parser.add_argument("--average", type=float, default=0.0, help="Decay of an average of the weights.")
    parser.add_argument("--seed", type=int, default=0)
    settings = parser.parse_args()
    described = {key: value for key, value in vars(settings).items() if key != "images"}
    result = measured(settings)
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []
    write_json(RESULTS, [*results, described | result])
    print(json.dumps(result))


def measured(settings: argparse.Namespace) -> dict[str, Any]:
    torch.set_num_threads(1)
    torch.manual_seed(settings.seed)
    random.seed(settings.seed)
    classes = sorted(path for path in settings.images.iterdir() if path.is_dir())
    train, judged = photos_of(classes[:CLASSES]), photos_of(classes[CLASSES : 2 * CLASSES])
    network = timm.create_model("tf_efficientnet_lite0")
    network.load_state_dict(load_lite0())
    network.reset_classifier(0)
    network = network.to(memory_format=torch.channels_last)
    frozen = [network.conv_stem, network.bn1, *network.blocks[: settings.freeze - 1]] if settings.freeze else []
    for piece in frozen:
        piece.requires_grad_(False)
    began = time.process_time()
    start = features(network, train, settings.image) if settings.head == "pca" or settings.proxies == "means" else None
    head: nn.Module = nn.Identity() if settings.head == "none" else nn.Linear(WIDTH, settings.dim)
    if settings.head == "pca" and start is not None:
        for parameter, value in zip(head.parameters(), whitened_components(start.numpy(), settings.dim), strict=True):
            parameter.data.copy_(torch.as_tensor(value))
    names = filter(None, (settings.loss, settings.also))
    loss = Sum([objectives.create(name, num_classes=CLASSES, dim=settings.dim) for name in names])
    if settings.proxies == "means" and start is not None:
        start_proxies(loss, head(start), torch.tensor([label for _, label in train]))
    steps, averaged = trained(settings, network, head, loss, train, began)
    scores: dict[str, Any] = {"steps": steps}
    for name, (part, top) in {"": (network, head), "average ": averaged}.items():
        for side in settings.test if part is not None else ():
            rows = features(part, judged, side)
            scores |= {f"{name}features@{side}": recall(rows, judged), f"{name}head@{side}": recall(top(rows), judged)}
    seen = features(network, train, max(settings.test))
    scores["whitened"] = recall(whitened(seen, features(network, judged, max(settings.test))), judged)
    return scores


class Sum(nn.ModuleList):
    """The sum of losses."""

    def forward(self, rows: Tensor, labels: Tensor, generator: torch.Generator) -> Tensor:
        return torch.stack([loss(rows, labels, generator=generator) for loss in self]).sum()


def whitened(seen: Tensor, rows: Tensor, dim: int = 256) -> Tensor:
    """Rows in the whitened principal components of the training features."""
    components = whitened_components(seen.numpy(), dim)
    head = nn.Linear(WIDTH, dim).requires_grad_(False)
    for parameter, value in zip(head.parameters(), components, strict=True):
        parameter.copy_(torch.as_tensor(value))
    return head(rows)


def photos_of(folders: list[Path], each: int = EACH) -> Photos:
    files = [(path, label) for label, folder in enumerate(folders) for path in sorted(folder.iterdir())[:each]]
    return [(Image.open(path).convert("RGB"), label) for path, label in files]


def to_tensor(image: Image.Image) -> Tensor:
    return torch.from_numpy(np.array(image, dtype=np.float32)).permute(2, 0, 1) / 127.5 - 1


def augmented(image: Image.Image, side: int) -> Tensor:
    """A random crop of at least 35 % of the area, and a flip."""
    area, ratio = image.width * image.height * random.uniform(AREA, 1), math.exp(random.uniform(-0.28, 0.28))
    width, height = min(image.width, math.sqrt(area * ratio)), min(image.height, math.sqrt(area / ratio))
    left, top = random.uniform(0, image.width - width), random.uniform(0, image.height - height)
    cropped = image.resize((side, side), Image.Resampling.BILINEAR, box=(left, top, left + width, top + height))
    return to_tensor(cropped.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if random.random() < 0.5 else cropped)


@torch.no_grad()
def features(network: nn.Module, photos: Photos, side: int) -> Tensor:
    network.eval()
    rows = []
    for first in range(0, len(photos), 64):
        squares = []
        for image, _ in photos[first : first + 64]:
            short = min(image.size)
            left, top = (image.width - short) // 2, (image.height - short) // 2
            box = (left, top, left + short, top + short)
            squares.append(to_tensor(image.resize((side, side), Image.Resampling.BICUBIC, box=box)))
        rows.append(network(torch.stack(squares).to(memory_format=torch.channels_last)))
    return torch.cat(rows)


@torch.no_grad()
def start_proxies(loss: nn.Module, rows: Tensor, labels: Tensor) -> None:
    """Class means in the place of proxies."""
    rows = functional.normalize(rows)
    means = torch.stack([rows[labels == label].mean(0) for label in range(CLASSES)])
    for parameter in loss.parameters():
        if parameter.shape == means.shape:
            parameter.copy_(functional.normalize(means))


def trained(
    settings: argparse.Namespace, network: nn.Module, head: nn.Module, loss: nn.Module, train: Photos, began: float
) -> tuple[int, tuple[Any, Any]]:
    """Train for the CPU minutes since `began`; returns the steps, and the averages of network and head."""
    how = {"lr": settings.lr, "seed": settings.seed, "bf16": settings.bf16}
    step = stepper(network, head, loss, train, side=settings.first or settings.image, **how)
    average = copy.deepcopy((network, head)) if settings.average else (None, None)
    steps = 0
    while (spent := (time.process_time() - began) / (60 * settings.minutes)) < 1:
        if settings.first and spent > 0.5:
            step, settings.first = stepper(network, head, loss, train, side=settings.image, **how), 0
        step(min(1, steps / 20) * 0.5 * (1 + math.cos(math.pi * spent)))
        steps += 1
        for mean, part in zip(average, (network, head), strict=True):
            for kept, now in zip(mean.parameters(), part.parameters(), strict=True) if mean is not None else ():
                kept.data.lerp_(now.data, max(1 - settings.average, 1 / steps))
    return steps, average


def stepper(
    network: nn.Module,
    head: nn.Module,
    loss: nn.Module,
    train: Photos,
    *,
    side: int,
    lr: float = 2e-4,
    seed: int = 0,
    bf16: bool = False,
) -> Callable[[float], None]:
    """A function that takes one training step with its learning rates times a factor."""
    groups = [(network, lr), (head, 1e-3), (loss, 1e-2)]
    trainable = [([p for p in part.parameters() if p.requires_grad], rate) for part, rate in groups]
    optimiser = torch.optim.AdamW([{"params": p, "lr": rate} for p, rate in trainable if p], weight_decay=1e-4)
    rates = [group["lr"] for group in optimiser.param_groups]
    classes = sorted({label for _, label in train})
    of_class = [[k for k, (_, label) in enumerate(train) if label == c] for c in classes]
    generator = torch.Generator().manual_seed(seed)

    def step(factor: float) -> None:
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = rate * factor
        chosen = [k for c in random.sample(classes, min(15, len(classes))) for k in random.choices(of_class[c], k=4)]
        batch = torch.stack([augmented(train[k][0], side) for k in chosen])
        network.train()
        for module in network.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eval()
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            rows = network(batch.to(memory_format=torch.channels_last))
        rows = head(rows.float())
        value = loss(rows, torch.tensor([train[k][1] for k in chosen]), generator=generator)
        optimiser.zero_grad()
        value.backward()
        optimiser.step()

    return step


def recall(rows: Tensor, photos: Photos) -> float:
    rows, labels = functional.normalize(rows), torch.tensor([label for _, label in photos])
    nearest = (rows @ rows.T).fill_diagonal_(-1).argmax(1)
    return round((labels[nearest] == labels).float().mean().item(), 4)


if __name__ == "__main__":
    main()
