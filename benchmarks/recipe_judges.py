"""Do few validation classes tell whether training pays? The measurements behind the rule of tuning/recipe.py.

    python benchmarks/recipe_judges.py CUB_200_2011/images --classes 20 --each 20 --draws 10

Each draw takes classes of CUB's training half: half of them train, but for those that judge, and half test. A network
is trained as in the recipe, and what judges and test classes say of it is added to results/recipe_judges.json: recall@1
and map@r of the untrained features, and after some numbers of steps with a share of the start weights left in.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import random
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parent))
import recipe

from levelfield import evaluate, objectives
from levelfield.embedder.linear import whitened_components
from levelfield.embedder.networks.tf_efficientnet_lite0 import load_lite0
from levelfield.files.writing import write_json

import timm  # isort: skip

RESULTS = Path(__file__).parent / "results" / "recipe_judges.json"
TRAINED, TESTED = 160, 224


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path)
    parser.add_argument("--classes", type=int, default=20)
    parser.add_argument("--each", type=int, default=20)
    parser.add_argument("--judges", type=int, default=3)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="Number of the first draw.")
    parser.add_argument("--steps", type=int, nargs="+", default=[50, 100])
    parser.add_argument("--schedule", choices=("constant", "cosine"), default="constant")
    settings = parser.parse_args()
    for draw in range(settings.first, settings.first + settings.draws):
        facts = {"classes": settings.classes, "each": settings.each, "judges": settings.judges, "draw": draw}
        facts["schedule"] = settings.schedule
        entry = facts | measured(settings, draw)
        results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []
        write_json(RESULTS, [*results, entry])
        print(json.dumps(entry), flush=True)


def measured(settings: argparse.Namespace, draw: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    torch.manual_seed(draw)
    random.seed(draw)
    folders = sorted(path for path in settings.images.iterdir() if path.is_dir())[:100]
    folders = random.sample(folders, settings.classes)
    half = settings.classes // 2
    parts = {
        "train": recipe.photos_of(folders[settings.judges : half], settings.each),
        "judges": recipe.photos_of(folders[: settings.judges], settings.each),
        "test": recipe.photos_of(folders[half:], settings.each),
    }
    network = timm.create_model("tf_efficientnet_lite0")
    network.load_state_dict(load_lite0())
    network.reset_classifier(0)
    network = network.to(memory_format=torch.channels_last)
    for piece in (network.conv_stem, network.bn1, *network.blocks[:2]):
        piece.requires_grad_(False)
    start = copy.deepcopy(network)
    head = nn.Linear(recipe.WIDTH, recipe.WIDTH)
    components = whitened_components(recipe.features(network, parts["train"], TRAINED).numpy(), recipe.WIDTH)
    for parameter, value in zip(head.parameters(), components, strict=True):
        parameter.data.copy_(torch.as_tensor(value))
    loss = objectives.create("proxy_anchor", num_classes=half - settings.judges, dim=recipe.WIDTH)
    scores = {"untrained": scored(network, parts)}
    step = recipe.stepper(network, head, loss, parts["train"], side=TRAINED, seed=draw)
    for number in range(settings.steps[-1]):
        falling = 0.5 * (1 + math.cos(math.pi * number / settings.steps[-1]))
        step(min(1, number / 10) * (falling if settings.schedule == "cosine" else 1))
        if number + 1 in settings.steps:
            for share in (0, 0.25, 0.5):
                mixed = mixture(start, network, share)
                scores[f"{number + 1} steps, {share:g} of the start"] = scored(mixed, parts)
    return {"scores": scores}


def mixture(start: nn.Module, trained: nn.Module, share: float) -> nn.Module:
    """A network whose weights are a weighted mean of those before and after training."""
    mixed = copy.deepcopy(trained)
    for value, first in zip(mixed.parameters(), start.parameters(), strict=True):
        value.data.lerp_(first.data, share)
    return mixed


def scored(network: nn.Module, parts: dict[str, recipe.Photos]) -> dict[str, dict[str, float]]:
    scores = {}
    for part in ("judges", "test"):
        rows: Tensor = recipe.features(network, parts[part], TESTED)
        labels = torch.tensor([label for _, label in parts[part]])
        values = evaluate(rows, labels, metrics=["recall@1", "map@r"])
        scores[part] = {name: round(value, 4) for name, value in values.items()}
    return scores


if __name__ == "__main__":
    main()
