"""Small models in the exported formats, without a study."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image

from levelfield.data.views.basic import TestView
from levelfield.embedder import Embedder, Ensemble, Head, Model, Trunk, backbones
from levelfield.embedder.relation import RelationHead
from levelfield.randomness import numpy_stream, stream
from levelfield.shipping.description import describe, write_description
from levelfield.shipping.formats import FORMATS, PlainNetwork, RowsOf, common_view
from small_transformers import SMALL, small_backbone

SIDE, DIM = 32, 8
VIEW = TestView(image=SIDE, crop=0.875, mean=(0.4, 0.5, 0.6), std=(0.2, 0.25, 0.3))


def made_model(
    name: str = "test_resnet", *, head: str = "linear", codes: str = "float32", seed: int = 0, **trunk: object
) -> Model:
    """A model with random weights: a different head for each seed."""
    settings = {"cut": "last-1", "image": SIDE, **trunk}
    body = Trunk(small_backbone(name) if name in SMALL else backbones.create(name, weights="random"), **settings)
    top = RelationHead(body.width, DIM) if head == "relation" else Head(body.width, DIM, layer_norm="plain")
    with torch.no_grad():
        for parameter in top.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=stream(seed, "head")) * 0.1)
    body._width = None  # as after loading: known only when asked
    return Model(Embedder(body, top, codes=codes).eval(), VIEW, {"method": "made"}, f"checksum {name} {seed}")


def joined_models() -> Ensemble:
    """Two models that share the network below the cut, one of them with binary codes, in an ensemble with a third."""
    inner = Ensemble((made_model(seed=1), made_model(seed=2, codes="binary")), {})
    return Ensemble((inner, made_model(seed=3, cut="frozen", pooling="grid")), {})


def shipped(model: Model | Ensemble, folder: Path, to: str = "onnx", *, int8: bool = False) -> RowsOf:
    """The model written into a folder with its description, and read again."""
    folder.mkdir(exist_ok=True)
    view, chosen = common_view(model), FORMATS[to]
    chosen.write(folder, PlainNetwork(model), view, folder, int8)
    settings = {"weights": "int8" if int8 else "float32", "codes": "float32", "dim": model.dim}
    write_description(folder, describe(chosen.file, **settings, view=view.description, about=model.about))
    return chosen.read(folder)[0]


def photos(folder: Path, count: int) -> list[Path]:
    """Images of different sizes and shapes."""
    draw = numpy_stream(0, "photos")
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{number}.png" for number in range(count)]
    for number, path in enumerate(paths):
        pixels = draw.integers(0, 256, size=(33 + number, 70 - 3 * number % 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path)
    return paths
