"""Draw a picture of every objective into pictures/: `python tools/draw.py [NAME ...]`.

Without a name, draw missing and outdated pictures; `make docs` does the same.

Three classes of four samples are on the unit circle, with class vectors (stars) in their middle. One sample of the
first class is moved around. Left: the direction in which the loss pushes it (minus the gradient) from every point of
the plane, darker where the loss is larger. Right: the loss as it moves around the circle. Random choices are averaged.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image, PngImagePlugin
from torch import Tensor

from levelfield import objectives
from levelfield.objectives import Objective
from levelfield.randomness import stream

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
ANGLES = ((65.0, 90.0, 120.0), (185.0, 205.0, 220.0, 240.0), (300.0, 320.0, 335.0, 350.0))  # degrees, by class
MIDDLES = (90.0, 212.0, 327.0)
# The plane lies in space so that the coordinates of every point sum to 0: variances are squared lengths there and
# correlations are cosines. To all other objectives it makes no difference.
PLANE = torch.tensor([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]], dtype=torch.float64)
PLANE = PLANE / PLANE.norm(dim=1, keepdim=True)
COLOURS = ("#d1495b", "#00798c", "#6a4c93")
DRAWS = 40
DIVIDED = {"message_passing": {"heads": 1}}  # its two heads cannot share three dimensions
CHECKED = range(0, 360, 60)  # angles whose loss is written into the file, so that a stale picture is found out


def scene() -> tuple[Tensor, Tensor]:
    """The samples that stay (11, 2) and their labels; the moving one is the fourth of class 0."""
    rows = on_circle([angle for group in ANGLES for angle in group])
    labels = torch.tensor([label for label, group in enumerate(ANGLES) for _ in group])
    return rows, labels


def on_circle(degrees: Sequence[float]) -> Tensor:
    angle = torch.deg2rad(torch.tensor(degrees, dtype=torch.float64))
    return torch.stack((angle.cos(), angle.sin()), dim=1)


def actor(name: str) -> Objective:
    """The objective with its defaults; vectors of classes point to the middle of their class."""
    sizes = {"num_classes": len(ANGLES), "dim": 3, **DIVIDED.get(name, {})}
    made = objectives.create(name, **sizes, generator=stream(0, "pictures")).double()
    for parameter in _of_classes(made):
        several = len(parameter) // len(ANGLES)
        spread = torch.linspace(-25, 25, several) if several > 1 else torch.zeros(1)
        parameter.data = on_circle([middle + float(more) for middle in MIDDLES for more in spread]) @ PLANE
    return made


def _of_classes(objective: Objective) -> list[torch.nn.Parameter]:
    """Points among the rows or, where there are none, a classifier's `weight`: other matrices belong to networks."""
    found = objective.class_vectors
    found = getattr(objective, "weight", getattr(objective, "aux_weight", None)) if found is None else found
    return [] if found is None else [found]


def responses(objective: Objective, places: Tensor, draws: int = DRAWS) -> tuple[np.ndarray, np.ndarray]:
    """Loss (k,) and its gradient (k, 2) with the moving sample at each of `places`, in the mean of several draws."""
    draws = draws if _random(objective) else 1
    losses, slopes = np.zeros(len(places)), np.zeros((len(places), 2))
    for where, place in enumerate(places):
        for number in range(draws):
            moving = place.clone().requires_grad_()
            loss = _loss(objective, moving, number)
            (slope,) = torch.autograd.grad(loss, moving)
            losses[where] += loss.item() / draws
            slopes[where] += slope.numpy() / draws
    return losses, slopes


def _loss(objective: Objective, moving: Tensor, number: int) -> Tensor:
    rows, labels = scene()
    batch, labels = torch.cat((moving[None], rows)), torch.cat((labels[:1], labels))
    return objective(batch @ PLANE, labels, generator=stream(number, "pictures"))


def _random(objective: Objective) -> bool:
    """Whether the generator matters."""
    (place,) = on_circle([250.0])
    return len({_loss(objective, place, number).item() for number in range(8)}) > 1


def draw(name: str) -> Path:
    """Write the picture of the objective `name`."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.colors import LinearSegmentedColormap

    objective = actor(name)
    axis = np.linspace(-1.5, 1.5, 14)
    grid = torch.tensor([(x, y) for y in axis for x in axis])
    loss, gradient = responses(objective, grid)
    degrees = np.arange(0, 361, 4)
    walk, _ = responses(objective, on_circle(degrees.tolist()))

    figure, (plane, curve) = plt.subplots(1, 2, figsize=(7.2, 3.1), dpi=100, width_ratios=(1, 1.3))
    low, high = np.percentile(loss, (2, 98))
    shade = np.clip(loss, low, high).reshape(len(axis), -1)
    plane.contourf(axis, axis, shade, levels=12, cmap=LinearSegmentedColormap.from_list("", ["#ffffff", "#a6a6a6"]))
    plane.add_patch(plt.Circle((0, 0), 1, fill=False, color="#888888", linewidth=0.8))
    length = np.linalg.norm(gradient, axis=1)
    usual = np.percentile(length[length > 0], 90) if (length > 0).any() else 1.0
    arrows = -gradient / np.maximum(length, usual)[:, None]  # long ones are cut, short ones stay short
    seen = (np.linalg.norm(arrows, axis=1) > 0.02) & (grid.norm(dim=1).numpy() > 0.25)
    plane.quiver(*grid.numpy()[seen].T, *arrows[seen].T, color=COLOURS[0], scale=13, width=0.006, headwidth=4)
    rows, labels = scene()
    for label, colour in enumerate(COLOURS):
        plane.plot(*rows[labels == label].T, "o", color=colour, markersize=6, markeredgecolor="white")
    if _of_classes(objective):
        for label, middle in enumerate(MIDDLES):
            plane.plot(*on_circle([middle])[0], "*", color=COLOURS[label], markersize=12, markeredgecolor="black")
    plane.set(xlim=(-1.6, 1.6), ylim=(-1.6, 1.6), aspect="equal", xticks=[-1, 0, 1], yticks=[-1, 0, 1])

    curve.plot(degrees, walk, color="#222222", linewidth=1.6)
    bottom = walk.min() - 0.07 * max(np.ptp(walk), 1e-6)
    for group, colour in zip(ANGLES, COLOURS, strict=True):
        curve.plot(group, [bottom] * len(group), "o", color=colour, markersize=6, markeredgecolor="white")
    curve.set(xlabel="angle of the moving sample", ylabel="loss", xticks=range(0, 361, 90))
    curve.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()

    taken = io.BytesIO()
    figure.savefig(taken, format="png")
    plt.close(figure)
    info = PngImagePlugin.PngInfo()
    info.add_text("loss", json.dumps([round(value, 6) for value in _checked(objective)]))
    PICTURES.mkdir(exist_ok=True)
    path = PICTURES / f"{name}.png"
    Image.open(taken).convert("RGB").quantize(192, Image.Quantize.MAXCOVERAGE).save(path, optimize=True, pnginfo=info)
    return path


def fits(name: str) -> bool:
    """Whether there is a picture of `name` that shows the losses the objective gives now."""
    path = PICTURES / f"{name}.png"
    if not path.exists():
        return False
    with Image.open(path) as picture:
        shown = json.loads(picture.info.get("loss", "[]"))
    now = _checked(actor(name))
    return len(shown) == len(now) and bool(np.allclose(shown, now, rtol=1e-4, atol=1e-5))


def _checked(objective: Objective) -> list[float]:
    return [float(value) for value in responses(objective, on_circle(list(CHECKED)), draws=8)[0]]


def main(names: Sequence[str]) -> None:
    for name in names or [name for name in objectives.names() if not fits(name)]:
        print(f"wrote {draw(name).relative_to(PICTURES.parent.parent)}")


if __name__ == "__main__":
    main(sys.argv[1:])
