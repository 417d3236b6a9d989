"""BN-Inception: sizes, names of the public weights file, its input format, and its use as a trunk."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from levelfield.data.views.basic import TestView as make_view
from levelfield.embedder import Backbone, Embedder, Head, Trunk, load, save_model
from levelfield.embedder.networks.bninception import BNInception
from levelfield.embedder.trunk import backbones
from levelfield.errors import BadSpecification

BLOCKS = ("3a", "3b", "3c", "4a", "4b", "4c", "4d", "4e", "5a", "5b")
# Keys of the public file with their shapes, some of every kind.
PUBLIC = {
    "conv1_7x7_s2.weight": (64, 3, 7, 7),
    "conv2_3x3_reduce_bn.running_var": (64,),
    "conv2_3x3.weight": (192, 64, 3, 3),
    "inception_3a_1x1.weight": (64, 192, 1, 1),
    "inception_3c_double_3x3_2.weight": (96, 96, 3, 3),
    "inception_4a_double_3x3_1.bias": (128,),
    "inception_4e_3x3.weight": (192, 128, 3, 3),
    "inception_5a_3x3_reduce.weight": (192, 1056, 1, 1),
    "inception_5b_pool_proj.weight": (128, 1024, 1, 1),
    "last_linear.weight": (1000, 1024),
}


def public_file(seed: int = 0) -> dict[str, Tensor]:
    """Weights under the names of the public file, which has a classifier and no counters of batches."""
    torch.manual_seed(seed)
    tensors = {"last_linear.weight": torch.rand(1000, 1024), "last_linear.bias": torch.rand(1000)}
    for name, tensor in BNInception().state_dict().items():
        if name.endswith("num_batches_tracked"):
            continue
        flat = re.sub(r"^(inception_..)\.", r"\1_", name.removeprefix("entrance."))
        noise = torch.rand(tensor.shape) * 0.2
        tensors[flat] = 1 + noise if flat.endswith(("_bn.weight", "running_var")) else tensor + noise - 0.1
    return tensors


def flat_features(tensors: dict[str, Tensor], bgr: Tensor) -> Tensor:
    """The network once more, straight from the public names and the figure of the paper."""

    def conv(maps: Tensor, name: str, stride: int = 1) -> Tensor:
        weight = tensors[f"{name}.weight"]
        maps = functional.conv2d(maps, weight, tensors[f"{name}.bias"], stride, padding=weight.shape[-1] // 2)
        statistics = [tensors[f"{name}_bn.{part}"] for part in ("running_mean", "running_var", "weight", "bias")]
        return functional.batch_norm(maps, *statistics, eps=1e-5).relu()

    def halved(maps: Tensor) -> Tensor:
        return functional.max_pool2d(maps, 3, 2, ceil_mode=True)

    maps = halved(conv(bgr, "conv1_7x7_s2", 2))
    maps = halved(conv(conv(maps, "conv2_3x3_reduce"), "conv2_3x3"))
    for block in BLOCKS:
        at, stride = f"inception_{block}", 2 if block in ("3c", "4e") else 1
        three = conv(conv(maps, f"{at}_3x3_reduce"), f"{at}_3x3", stride)
        double = conv(conv(maps, f"{at}_double_3x3_reduce"), f"{at}_double_3x3_1")
        double = conv(double, f"{at}_double_3x3_2", stride)
        if stride == 2:
            maps = torch.cat([three, double, halved(maps)], 1)
            continue
        pooled = functional.max_pool2d(maps, 3, 1, 1) if block == "5b" else functional.avg_pool2d(maps, 3, 1, 1)
        maps = torch.cat([conv(maps, f"{at}_1x1"), three, double, conv(pooled, f"{at}_pool_proj")], 1)
    return maps


def test_the_names_of_the_public_file_are_known() -> None:
    tensors = public_file()
    assert {name: tuple(tensors[name].shape) for name in PUBLIC} == PUBLIC


@pytest.mark.parametrize("release", ["bn_inception-52deb4733.pth", "bn_inception-239d2248.pth", "own.safetensors"])
def test_the_public_file_gives_the_features_of_the_figure(release: str, tmp_path: Path) -> None:
    """As it was published: without counters of batches, and in the first release with batch norms of (1, channels)."""
    tensors, file = public_file(), tmp_path / release
    stored = {name: one[None] if "_bn." in name and "239d" in release else one for name, one in tensors.items()}
    if file.suffix == ".pth":
        torch.save(stored, file, _use_new_zipfile_serialization="239d" not in release)
    else:
        safetensors.torch.save_file(stored, file)
    network = backbones.create("bninception", weights=file).network
    rgb = torch.rand(2, 3, 67, 67) * 200 - 100
    with torch.no_grad():
        ours, plain = network.forward_features(rgb), flat_features(tensors, rgb[:, [2, 1, 0]])
    assert torch.allclose(ours, plain, rtol=1e-4, atol=1e-4 * float(plain.abs().max()))


def test_a_red_image_reaches_the_first_convolution_as_blue_green_red_of_0_to_255() -> None:
    facts = backbones.describe("bninception")
    view = make_view(image=32, mean=facts.mean, std=facts.std, interpolation=facts.interpolation)
    network = backbones.create("bninception", weights="random").network
    seen: list[Tensor] = []
    first = network.get_submodule("entrance.conv1_7x7_s2")
    first.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    network.forward_features(view(Image.new("RGB", (40, 40), (255, 0, 0))).unsqueeze(0))
    assert torch.allclose(seen[0][0, :, 5, 7], torch.tensor([0.0 - 104, 0.0 - 117, 255.0 - 128]), atol=1e-3)


def test_a_size_that_cannot_be_halved_is_refused(backbone: Callable[[str], Backbone]) -> None:
    """75 -> 38 -> 19 -> 9, of which the convolutions make 5 and the pooling 4. The papers' sizes fit."""
    for side in (224, 227, 256):
        assert Trunk(backbone("bninception"), cut="frozen", image=side).width == 1024
    with pytest.raises(BadSpecification, match="9 x 9, which its block 3c cannot halve: use a multiple of 32"):
        Trunk(backbone("bninception"), cut="frozen", image=75).width  # noqa: B018


def test_cut_and_taps_are_its_blocks(backbone, pictures, tmp_path):
    made = backbone("bninception")
    assert made.stages == tuple(f"inception_{name}" for name in BLOCKS)
    trunk = Trunk(made, cut="last-2", taps=["inception_4e", "final"], image=64)
    assert trunk.width == 1056 + 1024
    assert [tuple(part.shape) for part in trunk.below(pictures(1))] == [(1, 1056, 2, 2)]
    embedder = Embedder(trunk, Head(trunk.width, 8))
    save_model(tmp_path / "run", embedder, {"image": 64, "mean": made.mean, "std": made.std})
    photo = Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))
    image = make_view(image=64, mean=made.mean, std=made.std)(photo)
    expected = embedder.embed(image.unsqueeze(0), from_images=True).numpy()
    assert np.array_equal(load(tmp_path / "run").embed(photo, normalize=False), expected)
