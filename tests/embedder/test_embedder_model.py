from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import levelfield
import levelfield.embedder
from levelfield.data.images import read_image
from levelfield.data.views.basic import TestView as make_view
from levelfield.embedder import Backbone, Embedder, Head, Trunk, load, save_model
from levelfield.embedder.ensemble import Ensemble
from levelfield.errors import BadInput, BadSpecification
from levelfield.progress import CallbackProgress

VIEW = {"image": 64, "mean": (0.5,) * 3, "std": (0.5,) * 3}


@pytest.fixture
def embedder(backbone: Callable[[str], Backbone]) -> Embedder:
    lite0 = backbone("tf_efficientnet_lite0")
    trunk = Trunk(lite0, cut="last-1", taps=["blocks.2", "blocks.4"], pooling="grid", image=64)
    made = Embedder(trunk, Head(trunk.width, 16, layer_norm="affine"))
    with torch.no_grad():
        for _, parameter in made.trunk.trainable():
            parameter.mul_(1.01)  # as after training
    return made


def test_a_loaded_model_gives_the_bits_its_run_stored(embedder: Embedder, photos: list[Path], tmp_path: Path) -> None:
    view = make_view(**VIEW)
    images = torch.stack([view(read_image(path), None) for path in photos])
    stored = embedder.stored(images)
    of_the_run = embedder.embed(stored).numpy()
    save_model(tmp_path / "run", embedder, {**VIEW, "method": "margin"})
    model = levelfield.load(tmp_path / "run")
    assert np.array_equal(model.embed(photos, normalize=False), of_the_run)
    assert np.array_equal(model.embed(photos[7], normalize=False)[0], of_the_run[7])
    assert model.about == {"method": "margin"}
    assert model.dim == 16
    assert model.embedder.trunk.key == embedder.trunk.key


def test_a_last_layer_norm_is_saved_and_loaded(embedder: Embedder, photos: list[Path], tmp_path: Path) -> None:
    plain, normed = tmp_path / "plain", tmp_path / "normed"
    save_model(plain, embedder, VIEW)
    embedder.head.output_norm = True
    save_model(normed, embedder, VIEW)
    rows = levelfield.load(normed).embed(photos[:2], normalize=False)
    np.testing.assert_allclose(rows.mean(axis=1), 0, atol=1e-6)
    raw = levelfield.load(plain).embed(photos[:2], normalize=False)
    normed_raw = torch.nn.functional.layer_norm(torch.from_numpy(raw), (16,)).numpy()
    np.testing.assert_allclose(rows, normed_raw, atol=1e-6)
    assert abs(raw.mean(axis=1)).max() > 1e-3


def test_paths_images_and_arrays_of_one_picture_give_one_embedding(embedder, photos, tmp_path):
    save_model(tmp_path / "run", embedder, VIEW)
    model = load(tmp_path / "run")
    image = Image.open(photos[0])
    one = model.embed(str(photos[0]))
    assert one.shape == (1, 16)
    assert one.dtype == np.float32
    assert np.linalg.norm(one) == pytest.approx(1, abs=1e-6)
    array = np.asarray(image)
    for same in (photos[0], [image], array, np.stack([array]), [array], image.convert("RGBA")):
        assert np.array_equal(model.embed(same), one)
    told: list[tuple[str, int, int]] = []
    progress = CallbackProgress(lambda *now: told.append(now))
    assert model.embed([array[:, :, 0], array[:, :, :1]], progress=progress).shape == (2, 16)
    assert told == [("embedding", 0, 2), ("embedding", 2, 2)]
    assert model.embed([]).shape == (0, 16)
    with pytest.raises(BadInput, match="uint8"):
        model.embed(array.astype(np.float32))


def test_a_few_images_are_computed_alone_only_if_bits_do_not_matter(embedder, photos, tmp_path, monkeypatch):
    save_model(tmp_path / "model", embedder, VIEW)
    model = load(tmp_path / "model")
    sizes: list[int] = []
    below = type(model.embedder.trunk).below
    monkeypatch.setattr(
        type(model.embedder.trunk), "below", lambda trunk, images: sizes.append(len(images)) or below(trunk, images)
    )
    exact, quick = model.embed(photos), model.embed(photos, exact=False)
    alone = model.embed(photos[0], exact=False)
    full = -(-len(photos) // 16)
    assert sizes == [16] * full + [16] * (full - 1) + [(len(photos) - 1) % 16 + 1, 1]
    np.testing.assert_allclose(quick, exact, atol=1e-6)
    np.testing.assert_allclose(alone[0], exact[0], atol=1e-6)
    np.testing.assert_array_equal(model.embed([], exact=False), model.embed([]))


def test_a_folder_without_a_whole_model_is_refused(embedder: Embedder, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no trained model"):
        load(tmp_path / "nowhere")
    with pytest.raises(BadSpecification, match="lacks mean, std"):
        save_model(tmp_path, embedder, {"image": 64})
    save_model(tmp_path, embedder, VIEW)
    (tmp_path / "model.yaml").write_text("format: 99\n")
    with pytest.raises(BadInput, match="format 99"):
        load(tmp_path)


def test_a_model_is_shown_in_one_line_and_as_a_small_table(embedder: Embedder, tmp_path: Path) -> None:
    save_model(tmp_path, embedder, {**VIEW, "method": "<margin>", "data": "photos"})
    model = load(tmp_path)
    backbone = embedder.trunk.settings["backbone"]
    assert repr(model) == (
        f"Model(method='<margin>', data='photos', backbone='{backbone}', dim={model.dim}, image={VIEW['image']}, "
        "device='cpu')"
    )
    html = model._repr_html_()
    assert "<td>method</td><td>&lt;margin&gt;</td>" in html
    assert html.count("<tr>") == 6
    joined = Ensemble((model, model), {"method": "both"})
    assert repr(joined) == f"Ensemble(method='both', members=2, dim={2 * model.dim}, device='cpu')"
    assert joined._repr_html_().count("&lt;margin&gt;") == 2
