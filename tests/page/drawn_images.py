"""Drawn shapes on sheets of thumbnails: images that a test or a picture of the documentation may show."""

from __future__ import annotations

import colorsys
import math

import numpy as np
from PIL import Image, ImageDraw

SIZE = 64
SHAPES = ("circle", "square", "triangle", "star", "ring", "cross", "hexagon", "moon", "drop", "arrow", "petals", "bars")
HUES = ("red", "orange", "yellow", "lime", "green", "teal", "cyan", "blue", "indigo", "purple", "pink", "rose")


def names(classes: int) -> list[str]:
    """Names such as 'teal star': the shape changes first."""
    return [f"{HUES[(number // len(SHAPES) * 5 + number) % len(HUES)]} {_shape(number)}" for number in range(classes)]


def _shape(number: int) -> str:
    return SHAPES[number % len(SHAPES)]


def drawing(number: int, stream: np.random.Generator) -> Image.Image:
    """One image of class `number`, with its own angle, size, place and background."""
    big = SIZE * 2
    light = stream.uniform(0.9, 0.98)
    tint = colorsys.hsv_to_rgb(stream.uniform(), 0.05, light)
    image = Image.new("RGB", (big, big), tuple(int(255 * one) for one in tint))
    hue = ((number // len(SHAPES) * 5 + number) % len(HUES) + stream.normal(0, 0.12)) / len(HUES)
    colour = tuple(int(255 * one) for one in colorsys.hsv_to_rgb(hue % 1, stream.uniform(0.6, 0.85), 0.8))
    paint(ImageDraw.Draw(image), _shape(number), colour, stream)
    return image.resize((SIZE, SIZE), Image.Resampling.LANCZOS)


def paint(draw: ImageDraw.ImageDraw, shape: str, colour: tuple[int, ...], stream: np.random.Generator) -> None:
    middle = SIZE + stream.uniform(-8, 8, 2)
    radius, turn = stream.uniform(34, 50), stream.uniform(-0.5, 0.5)

    def ring(count: int, sizes: tuple[float, ...], start: float = -math.pi / 2) -> list[tuple[float, float]]:
        angles = [start + turn + 2 * math.pi * step / count for step in range(count)]
        lengths = [radius * sizes[step % len(sizes)] for step in range(count)]
        corners = zip(angles, lengths, strict=True)
        return [(middle[0] + r * math.cos(a), middle[1] + r * math.sin(a)) for a, r in corners]

    def disc(scale: float, at: tuple[float, float] = (0, 0)) -> list[float]:
        x, y = middle[0] + at[0] * radius, middle[1] + at[1] * radius
        return [x - radius * scale, y - radius * scale, x + radius * scale, y + radius * scale]

    corners = {
        "square": ring(4, (1,)), "triangle": ring(3, (1.1,)), "star": ring(10, (1.1, 0.45)), "hexagon": ring(6, (1,)),
        "cross": ring(12, (1.0, 0.42, 1.0)), "arrow": ring(8, (1.2, 0.5, 0.55, 0.9)), "bars": ring(16, (1.1, 0.7)),
    }  # fmt: skip
    if shape in corners:
        draw.polygon(corners[shape], fill=colour)
    elif shape == "petals":
        for x, y in ring(5, (0.62,)):
            draw.ellipse([x - radius * 0.4, y - radius * 0.4, x + radius * 0.4, y + radius * 0.4], fill=colour)
    elif shape == "ring":
        draw.ellipse(disc(1.0), outline=colour, width=int(radius * 0.32))
    elif shape == "drop":
        draw.ellipse(disc(0.62, (0, 0.35)), fill=colour)
        draw.polygon([(middle[0] - radius * 0.56, middle[1] + radius * 0.14), (middle[0], middle[1] - radius),
                      (middle[0] + radius * 0.56, middle[1] + radius * 0.14)], fill=colour)  # fmt: skip
    else:
        draw.ellipse(disc(0.95), fill=colour)
        if shape == "moon":
            background = draw.im.getpixel((0, 0))
            draw.ellipse(disc(0.75, (0.5, -0.2 + turn)), fill=background)
