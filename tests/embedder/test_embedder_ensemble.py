"""Several models in one self-contained folder: the same rows, with shared layers computed once."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import levelfield
from levelfield.data import images as image_files
from levelfield.data import images as reading
from levelfield.embedder import Backbone, Embedder, Ensemble, Head, Model, Trunk, load, save_ensemble, save_model
from levelfield.embedder.head import start_random
from levelfield.errors import BadInput
from levelfield.evaluation import joined
from levelfield.files.writing import write_text
from levelfield.progress import CallbackProgress
from levelfield.randomness import stream

VIEW = {"image": 32, "mean": (0.5,) * 3, "std": (0.5,) * 3}


@pytest.fixture
def make(backbone: Callable[[str], Backbone], tmp_path: Path) -> Callable[..., Path]:
    """A saved model with a head of its own, and the trained part of its trunk changed a little."""

    def made(name: str, dim: int, *, cut: str = "last-1", image: int = 32, codes: str = "float32") -> Path:
        trunk = Trunk(backbone("test_resnet"), cut=cut)
        embedder = Embedder(trunk, Head(trunk.width, dim), codes=codes)
        start_random(embedder.head, stream(0, name))
        with torch.no_grad():
            for _, parameter in embedder.trunk.trainable():
                parameter.mul_(1 + dim / 1000)
        save_model(tmp_path / name, embedder, {**VIEW, "image": image, "method": name})
        return tmp_path / name

    return made


def test_rows_are_those_of_the_members_joined_to_the_bit(make, photos: list[Path], tmp_path: Path) -> None:
    folders = [make("a", 3), make("b", 5), make("c", 4, cut="frozen"), make("d", 2, image=48)]
    stored = joined([load(folder).embed(photos, normalize=False) for folder in folders])
    save_ensemble(tmp_path / "all", folders, {"method": "several"})
    together = levelfield.load(tmp_path / "all")
    assert isinstance(together, Ensemble)
    assert (together.dim, together.about, together.device.type) == (14, {"method": "several"}, "cpu")
    np.testing.assert_array_equal(together.embed(photos, normalize=False), stored)
    np.testing.assert_array_equal(together.embed(photos[7], normalize=False)[0], stored[7])
    told: list[tuple[str, int, int]] = []
    unit = together.embed(photos, progress=CallbackProgress(lambda *now: told.append(now)))
    assert told[-1] == ("embedding", len(photos), len(photos))
    assert unit.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(unit, stored / 2, rtol=1e-5, atol=1e-6)  # four parts of length 1
    assert together.embed([]).shape == (0, 14)


def test_members_with_binary_codes_are_joined_as_codes(make, photos: list[Path], tmp_path: Path) -> None:
    folders = [make("bits", 8, codes="binary"), make("numbers", 4)]
    save_ensemble(tmp_path / "mixed", folders, {})
    bits, numbers = load(tmp_path / "mixed").embed_apart(photos[:3])
    assert set(np.unique(bits)) == {-1.0, 1.0}
    np.testing.assert_array_equal(bits, load(folders[0]).embed(photos[:3], normalize=False))
    assert len(np.unique(numbers)) > 2


def test_an_ensemble_may_be_a_member(make, photos: list[Path], tmp_path: Path) -> None:
    a, b, c = make("a", 3), make("b", 5), make("c", 4)
    save_ensemble(tmp_path / "ab", [a, b], {})
    save_ensemble(tmp_path / "abc", [tmp_path / "ab", c], {})
    shutil.rmtree(tmp_path / "ab")
    inner = joined([load(folder).embed(photos, normalize=False) for folder in (a, b)])
    expected = joined([inner, load(c).embed(photos, normalize=False)])
    nested = load(tmp_path / "abc")
    np.testing.assert_array_equal(nested.embed(photos, normalize=False), expected)
    assert [type(member) for member in nested.members] == [Ensemble, Model]


def test_the_folder_needs_no_member_and_no_member_can_change_it(make, photos: list[Path], tmp_path: Path) -> None:
    a, b = make("a", 3), make("b", 5)
    save_ensemble(tmp_path / "ab", [a, b], {})
    before = load(tmp_path / "ab").embed(photos)
    make("a", 7)  # trained again in the same folder
    write_text(b / "model.yaml", "format: 99\n")
    np.testing.assert_array_equal(load(tmp_path / "ab").embed(photos), before)
    shutil.rmtree(a)
    shutil.rmtree(b)
    shutil.move(tmp_path / "ab", tmp_path / "elsewhere")
    np.testing.assert_array_equal(load(tmp_path / "elsewhere").embed(photos), before)


def test_weights_are_links_and_copies_where_links_are_impossible(make, tmp_path: Path, monkeypatch) -> None:
    a, b = make("a", 3), make("b", 5)
    for _ in range(2):  # again, as after an interruption
        save_ensemble(tmp_path / "linked", [a, b], {})
    assert (tmp_path / "linked" / "members" / "0" / "model.safetensors").samefile(a / "model.safetensors")
    assert not list(tmp_path.rglob("*.tmp"))

    def refuse(*paths: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr("os.link", refuse)
    save_ensemble(tmp_path / "ab", [a, b], {})
    copied = tmp_path / "ab" / "members" / "1" / "model.safetensors"
    assert not copied.samefile(b / "model.safetensors")
    assert copied.read_bytes() == (b / "model.safetensors").read_bytes()


def test_images_are_opened_once_and_what_is_shared_below_the_cut_is_computed_once(make, photos, tmp_path, monkeypatch):
    save_ensemble(tmp_path / "all", [make("a", 3), make("b", 5), make("c", 4, cut="frozen"), make("d", 2)], {})
    together = load(tmp_path / "all")
    opened: list[Path] = []
    below: list[str] = []
    read, compute = reading.read_image, Trunk.below
    monkeypatch.setattr(image_files, "read_image", lambda path, **how: (opened.append(path), read(path, **how))[1])
    monkeypatch.setattr(Trunk, "below", lambda self, images: (below.append(self.cut), compute(self, images))[1])
    together.embed(photos[:3])
    assert opened == photos[:3]
    assert below == ["last-1", "frozen"]  # a, b and d share theirs


def test_nothing_is_shared_if_the_weights_below_the_cut_differ(make, photos: list[Path], tmp_path: Path) -> None:
    save_ensemble(tmp_path / "ab", [make("a", 3), make("b", 5)], {})
    together = load(tmp_path / "ab")
    first, second = together.models
    changed = copy.deepcopy(second)
    name = next(n for n, _ in changed.embedder.trunk.named_parameters() if n.startswith("pieces.entrance"))
    with torch.no_grad():
        changed.embedder.trunk.get_parameter(name).mul_(1.5)
    rows = Ensemble((first, changed), {}).embed(photos, normalize=False)
    parts = [one.embed(photos, normalize=False) for one in (first, changed)]
    np.testing.assert_array_equal(rows, joined(parts))


def test_the_view_is_asked_of_the_members_where_they_differ(make, tmp_path: Path) -> None:
    a, b = make("a", 3), make("b", 5, image=48)
    save_ensemble(tmp_path / "a", [a, make("c", 2)], {})
    assert load(tmp_path / "a").view == load(a).view
    save_ensemble(tmp_path / "ab", [a, b], {})
    with pytest.raises(BadInput, match="2 different test views"):
        _ = load(tmp_path / "ab").view


def test_a_folder_that_is_not_whole_is_no_model(make, tmp_path: Path) -> None:
    a, b = make("a", 3), make("b", 5)
    with pytest.raises(BadInput, match=r"nowhere contains no trained model: model\.yaml"):
        save_ensemble(tmp_path / "half", [a, tmp_path / "nowhere"], {})
    with pytest.raises(BadInput, match="half contains no trained model"):
        load(tmp_path / "half")
    save_ensemble(tmp_path / "ab", [a, b], {})
    (tmp_path / "ab" / "members" / "1" / "model.safetensors").unlink()
    with pytest.raises(BadInput, match=r"1 contains no trained model: model\.safetensors"):
        load(tmp_path / "ab")
