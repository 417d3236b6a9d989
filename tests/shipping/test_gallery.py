"""The rows of a gallery are computed once for each model and each image content."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from shipped import DIM, made_model, photos

from levelfield.embedder import Model
from levelfield.errors import BadInput
from levelfield.shipping import remembered
from levelfield.shipping.searching import find_images, search_folder


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of images of each call."""
    counts: list[int] = []
    embed = Model.embed
    monkeypatch.setattr(
        Model, "embed", lambda model, images, **how: counts.append(len(images)) or embed(model, images, **how)
    )
    return counts


def test_only_new_images_are_embedded(tmp_path: Path, embedded: list[int]) -> None:
    model, paths, cache = made_model(), photos(tmp_path / "photos", 7), tmp_path / "cache"
    first = remembered(model, paths[:6], cache=cache)
    np.testing.assert_array_equal(first, model.embed(paths[:6]))
    embedded.clear()
    moved = shutil.copy(paths[2], tmp_path / "moved.png")
    again = remembered(model, [*reversed(paths[:6]), Path(moved)], cache=cache)
    np.testing.assert_array_equal(again, first[[5, 4, 3, 2, 1, 0, 2]])
    assert embedded == []
    shutil.copy(paths[6], paths[0])  # a changed file
    changed = remembered(model, paths, cache=cache)
    np.testing.assert_array_equal(changed[1:6], first[1:])
    np.testing.assert_array_equal(changed[0], changed[6])
    assert embedded == [1]


def test_another_model_has_rows_of_its_own(tmp_path: Path, embedded: list[int]) -> None:
    paths, cache = photos(tmp_path / "photos", 3), tmp_path / "cache"
    one, other = (remembered(made_model(seed=seed), paths, cache=cache) for seed in (0, 1))
    assert embedded == [3, 3]
    assert np.abs(one - other).max() > 0.01


def test_without_a_checksum_or_a_cache_nothing_is_stored(
    tmp_path: Path, embedded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, cache = photos(tmp_path / "photos", 2), tmp_path / "cache"
    remembered(replace(made_model(), checksum=""), paths, cache=cache)
    monkeypatch.setattr("levelfield.shipping.searching.os.access", lambda *_: False)
    remembered(made_model(), paths, cache=cache)
    assert embedded == [2, 2]
    assert not cache.exists()


def test_no_image_gives_no_row(tmp_path: Path) -> None:
    assert remembered(made_model(), [], cache=tmp_path / "cache").shape == (0, DIM)


def test_an_image_is_not_its_own_neighbour_whatever_links_call_it(tmp_path: Path) -> None:
    paths, query = photos(tmp_path / "photos", 4), tmp_path / "query.png"
    query.symlink_to(paths[0])
    for name in ("again.png", "more.png"):
        (tmp_path / "photos" / name).symlink_to(paths[0])
    (tmp_path / "photos" / "gone.png").symlink_to(tmp_path / "nowhere.png")
    near = search_folder(made_model(), tmp_path / "photos", [query, paths[1]], k=3)
    assert {each["path"] for each in near[str(query)]} == {str(path) for path in paths[1:]}
    assert len(near[str(paths[1])]) == 3


def test_an_unreadable_sub_folder_is_named_and_hidden_ones_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "photos"
    paths = photos(folder, 3)
    for name in ("lost+found", ".thumbnails"):
        photos(folder / name, 2)
    locked, scandir = folder / "lost+found", os.scandir

    def refuse(path: str) -> Iterator[os.DirEntry[str]]:
        if Path(path) == locked:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    near = search_folder(made_model(), folder, [paths[0]])
    assert {each["path"] for each in near[str(paths[0])]} == set(map(str, paths[1:]))
    assert find_images([folder]) == paths  # as an index and `embed`
    assert caplog.text.count(f"Skipped the folder {locked}: Permission denied.") == 2
    with pytest.raises(BadInput, match=r"Cannot read the folder .*Permission denied"):
        search_folder(made_model(), locked, [paths[0]])
