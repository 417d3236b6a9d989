from __future__ import annotations

import pytest
import torch
from torch import Tensor

from levelfield.embedder import BLOCK, Embedder, Head, Trunk, in_blocks
from levelfield.randomness import stream


def test_every_call_gets_a_full_block_whatever_the_batches_of_a_loader() -> None:
    rows = torch.arange(11.0)
    seen: list[list[float]] = []

    def double(block: Tensor) -> Tensor:
        seen.append(block.tolist())
        return block * 2

    for given in (rows, iter([rows[:1], rows[1:8], rows[8:]])):
        assert torch.equal(in_blocks(double, given, size=4)[0], rows * 2)
    assert seen[:3] == seen[3:] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 10]]
    assert in_blocks(lambda rows: rows[:, :2], torch.empty(0, 5), size=4)[0].shape == (0, 2)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("tf_efficientnet_lite0", {"taps": ["blocks.3", "blocks.4", "blocks.5"], "pooling": "grid", "cut": "frozen"}),
        ("tf_efficientnet_lite0", {"taps": ["blocks.3", "blocks.5"], "pooling": "average", "cut": "last-2"}),
        ("tf_efficientnet_lite0", {"cut": "last-1"}),
        ("resnet18", {"cut": "last-1"}),
        ("convnext_atto", {"cut": "last-1"}),
        ("vit_tiny_patch16_224", {"cut": "last-1"}),
    ],
)
def test_a_rows_bits_depend_neither_on_its_place_nor_on_its_neighbours_nor_on_the_store(
    name, options, backbone, pictures
):
    trunk = Trunk(backbone(name), image=64, **options)  # type: ignore[arg-type]
    embedder = Embedder(trunk, Head(trunk.width, 32))
    images = pictures(BLOCK + 5)
    together = embedder.embed(images, from_images=True, normalize=True)
    order = torch.randperm(len(images), generator=stream(0, "order"))
    assert torch.equal(embedder.embed(images[order], from_images=True, normalize=True), together[order])
    for i in (0, BLOCK, BLOCK + 4):
        assert torch.equal(embedder.embed(images[i : i + 1], from_images=True, normalize=True)[0], together[i])
    stored = tuple(torch.from_numpy(part.contiguous().numpy().copy()) for part in embedder.stored(images))
    assert torch.equal(embedder.embed(stored, normalize=True), together)


def test_passes_count_the_rows_above_the_cut(backbone, pictures):
    trunk = Trunk(backbone("resnet18"), cut="frozen")
    embedder = Embedder(trunk, Head(trunk.width, 4))
    assert embedder.trunk.counter.rows == 0
    embedder(embedder.stored(pictures(3)))
    embedder(pictures(2))
    assert embedder.trunk.counter.rows == 5
    mixed = embedder(pictures(2), change=("features", lambda rows: rows.mean(0, keepdim=True)))
    assert mixed.shape == (1, 4)
