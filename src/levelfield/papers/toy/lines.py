"""The data: every class is a line in the plane; the direction that separates the test classes is useless in
training."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

SPACED, KEPT = 100, 15  # roth2020 G: points per line, and the number kept at random


class Line(NamedTuple):
    """A class: a line from one point to another."""

    start: tuple[float, float]
    end: tuple[float, float]


class Form(NamedTuple):
    """Four training and four test classes."""

    train: tuple[Line, ...]
    test: tuple[Line, ...]


def _lines(*ends: tuple[float, float, float, float]) -> tuple[Line, ...]:
    return tuple(Line((x, y), (u, v)) for x, y, u, v in ends)


FORMS = {
    # roth2020 fig. 6: classes along the diagonal, test classes off it
    "diagonal": Form(
        _lines(*((a, a, b, b) for a, b in ((0.10, 0.30), (0.35, 0.55), (0.60, 0.80), (0.85, 1.05)))),
        _lines((0.2, 0.20, 0.2, 0.40), (0.2, 0.55, 0.2, 0.85), (0.40, 0.2, 0.60, 0.2), (0.70, 0.2, 0.90, 0.2)),
    ),
    # roth2020 fig. 12: training classes differ in x, test classes only in y; the coordinates are unpublished, these are
    # ours
    "vertical": Form(
        _lines(*((x, 0.1, x, 0.9) for x in (0.2, 0.4, 0.6, 0.8))),
        _lines(*((0.5, a, 0.5, b) for a, b in ((0.05, 0.20), (0.30, 0.45), (0.55, 0.70), (0.80, 0.95)))),
    ),
}


def draw(lines: tuple[Line, ...], generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Points (classes * 15, 2) and their classes.

    >>> points, labels = draw(FORMS["vertical"].train, torch.Generator().manual_seed(0))
    >>> points.shape, labels.bincount().tolist(), points[:15, 0].unique()
    (torch.Size([60, 2]), [15, 15, 15, 15], tensor([0.2000]))
    """
    points = []
    for start, end in lines:
        along = torch.linspace(0, 1, SPACED)[torch.randperm(SPACED, generator=generator)[:KEPT], None]
        points.append(torch.lerp(torch.tensor(start), torch.tensor(end), along))
    return torch.cat(points), torch.arange(len(lines)).repeat_interleave(KEPT)
