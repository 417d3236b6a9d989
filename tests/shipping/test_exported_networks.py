"""Every kind of network gives the same rows from its exported file, for any number of images."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from shipped import DIM, VIEW, joined_models, made_model, photos, shipped
from torch import nn

from levelfield.embedder import Ensemble, Model
from levelfield.errors import BadInput
from levelfield.progress import SILENT_STAGE
from levelfield.shipping.formats import FORMATS, PlainNetwork, noise, rounded_weight
from levelfield.shipping.measuring import check_batches, difference
from levelfield.shipping.onnx_model import embedded

KINDS: dict[str, Callable[[], Model | Ensemble]] = {
    "taps and grid": lambda: made_model(taps=["layer2", "layer3"], pooling="grid"),
    "depthwise, all trained": lambda: made_model("test_efficientnet", cut="tuned"),
    "relation head": lambda: made_model(head="relation"),
    "binary codes": lambda: made_model(codes="binary"),
    "vision transformer": lambda: made_model("test_vit"),
    "class token": lambda: made_model("test_vit", pooling="token", taps=["blocks.2", "final"]),
    "attention pooling": lambda: made_model("vit_base_patch16_siglip_224", pooling="token"),
    "rotary positions": lambda: made_model("vit_small_patch16_dinov3", pooling="token"),
    "shifted windows": lambda: made_model("swin_tiny_patch4_window7_224"),
    "shifted windows, version 2": lambda: made_model("swinv2_tiny_window8_256", cut="tuned"),
    "joined": joined_models,
}


@pytest.mark.parametrize("kind", KINDS)
def test_any_batch_of_any_format_gives_the_rows_of_the_model(kind: str, tmp_path: Path) -> None:
    model, paths = KINDS[kind](), photos(tmp_path / "photos", 3)
    network, images, rows = PlainNetwork(model), noise(VIEW, 17), model.embed(paths, normalize=False)
    with torch.no_grad():
        expected = network(images).numpy()
    for to in ("onnx", "torchscript"):
        rows_of = shipped(model, tmp_path / to, to)
        for count in (1, 2, 16, 17):
            np.testing.assert_allclose(rows_of(images[:count].numpy()), expected[:count], rtol=1e-5, atol=1e-5)
        ours = embedded(paths, VIEW, rows_of, model.dim, stage=SILENT_STAGE)
        np.testing.assert_allclose(ours, rows, rtol=1e-5, atol=1e-5)


def test_layers_that_members_share_are_stored_once(tmp_path: Path) -> None:
    one = PlainNetwork(made_model(seed=1))
    two = PlainNetwork(Ensemble((made_model(seed=1), made_model(seed=2)), {}))
    sizes = [sum(each.numel() for each in network.parameters()) for network in (one, two)]
    assert sizes[1] < 2 * sizes[0]


def test_weights_in_8_bits_take_a_quarter_and_change_little(tmp_path: Path) -> None:
    model, images = made_model(), noise(VIEW, 4).numpy()
    plain, small = shipped(model, tmp_path / "plain"), shipped(model, tmp_path / "small", int8=True)
    sizes = [(tmp_path / name / "model.onnx").stat().st_size for name in ("plain", "small")]
    assert sizes[1] < 0.35 * sizes[0]
    assert 0 < difference(small(images), plain(images), binary=False) < 0.05


def test_a_weight_is_rounded_by_at_most_half_a_level_of_its_own_channel() -> None:
    spread = np.array([9, 1, 0, 1, 2], np.float32)[:, None, None, None]
    weight = np.random.default_rng(0).normal(size=(5, 4, 3, 3)).astype(np.float32) * spread
    numbers, scale = rounded_weight(weight, 0)
    away = np.abs(numbers * scale[:, None, None, None] - weight)
    assert (away <= 0.501 * scale[:, None, None, None]).all()
    assert (np.abs(numbers).reshape(5, -1).max(axis=1) == [127, 127, 0, 127, 127]).all()


def test_a_network_that_keeps_the_batch_of_its_example_is_refused() -> None:
    network = PlainNetwork(made_model())
    with pytest.raises(BadInput, match="for a batch of 1 the exported model returns other rows"):
        check_batches(network, lambda _: np.zeros((2, DIM), np.float32), VIEW, weights="float32", binary=False)
    with pytest.raises(BadInput, match=r"differ by .* the limit is 0\.0001"):
        check_batches(
            network, lambda rows: np.ones((len(rows), DIM), np.float32), VIEW, weights="float32", binary=False
        )


class _Strange(nn.Module):
    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return torch.special.bessel_j0(rows)


def test_an_operator_that_onnx_does_not_have_is_one_sentence(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    network = PlainNetwork(made_model())
    network.embedders[0].head = _Strange()
    with pytest.raises(BadInput, match=r"This network cannot be written as ONNX: .*bessel_j0"):
        FORMATS["onnx"].write(tmp_path, network, VIEW, tmp_path, False)
    assert list(tmp_path.iterdir()) == []
    assert "graph" not in "".join(capfd.readouterr())


def test_members_with_different_views_are_refused() -> None:
    one, other = made_model(), made_model()
    object.__setattr__(other, "view", type(VIEW)(**{**VIEW.description, "crop": 1.0}))
    with pytest.raises(BadInput, match="different test views"):
        PlainNetwork(Ensemble((one, other), {}))
