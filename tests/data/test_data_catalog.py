"""Catalogs: identity, parts, and the check of every image."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from levelfield import data
from levelfield.data import Catalog
from levelfield.errors import BadInput, MissingExtra


def test_digest_depends_on_content_not_on_place(pets, tmp_path):
    first = data.create(pets)
    shutil.copytree(pets, tmp_path / "moved")
    second = data.create(tmp_path / "moved")
    assert first.digests == second.digests
    assert first.digest == second.digest
    (tmp_path / "moved" / "cat" / "0.png").write_bytes((pets / "dog" / "0.png").read_bytes())
    third = data.create(tmp_path / "moved")
    assert third.digests[0] == first.digests[3]
    assert third.digest != first.digest


def test_a_copy_with_other_paths_has_the_digests_of_its_files(pets):
    catalog = data.create(pets)
    digests = catalog.digests
    assert replace(catalog, paths=catalog.paths[::-1]).digests == digests[::-1]


def test_digest_depends_on_names_labels_groups_and_roles(pets):
    catalog = data.create(pets)
    others = [
        replace(catalog, class_names=("cat", "dog", "eel", "fax")),
        replace(catalog, labels=catalog.labels[::-1]),
        replace(catalog, groups=np.zeros(4)),
        replace(catalog, roles=("query",) * 11),
    ]
    assert len({other.digest for other in [catalog, *others]}) == 5


def test_subset_keeps_order_and_dense_labels(pets):
    split = ("train", *["test"] * 10)
    catalog = replace(data.create(pets), groups=np.array([4, 5, 5, 6]), roles=tuple("abcdefghijk"), split=split)
    catalog = replace(catalog, class_ids=(5, 7, 8, 9))
    assert catalog.parts.tolist() == list(split)
    part = catalog.subset([10, 3, 4])
    assert part.class_names == ("dog", "fox")
    assert part.labels.tolist() == [1, 0, 0]
    assert part.paths == tuple(catalog.paths[i] for i in (10, 3, 4))
    assert part.groups.tolist() == [5, 6]
    assert (part.roles, part.split, part.class_ids) == (("k", "d", "e"), ("test",) * 3, (7, 9))
    digests = catalog.digests
    shutil.rmtree(pets)  # files are not read again
    assert catalog.subset([2, 0]).digests == (digests[2], digests[0])


@pytest.mark.parametrize(
    "change",
    [
        {"labels": np.array([0])},
        {"labels": np.array([0, 2])},
        {"labels": np.array([0, 0])},
        {"groups": np.array([1])},
        {"roles": ("query",)},
        {"split": ("tset", "train")},
        {"class_ids": (1, 2, 3)},
    ],
)
def test_contradictory_catalog_is_refused(change):
    with pytest.raises(BadInput, match="'x'"):
        replace(Catalog("x", (Path("a"), Path("b")), np.array([0, 1]), ("a", "b")), **change)


def test_unreadable_images_are_skipped_on_request_with_notes(pets):
    for path in [*pets.glob("dog/*"), pets / "eel" / "0.png"]:
        path.write_bytes(b"no image")
    part = data.check_images(data.create(pets), skip_unreadable=True)
    assert part.class_names == ("cat", "eel", "fox")
    assert part.class_sizes.tolist() == [3, 1, 4]
    notes = " ".join(part.notes)
    assert "Skipped 3 images that cannot be read: " in notes
    assert "dog" in notes
    assert "Left out 1 class without a readable image: dog." in notes
    assert "cannot be a query: eel" in notes
    for path in pets.glob("*/*"):
        path.write_bytes(b"")
    with pytest.raises(BadInput, match="11 of 11"):
        data.check_images(data.create(pets), skip_unreadable=True)


def test_only_heic_missing_its_extra_says_what_to_install(pets, monkeypatch):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    (pets / "cat" / "a.heic").write_bytes(b"\x00\x00\x00\x18ftypheic")
    catalog = data.create(pets)
    with pytest.raises(MissingExtra, match=r"levelfield\[heic\]"):
        data.check_images(catalog)
    assert len(data.check_images(catalog, skip_unreadable=True)) == 11


def test_default_cache_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("LEVELFIELD_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data.default_cache_folder() == tmp_path / "levelfield"
    monkeypatch.setenv("LEVELFIELD_CACHE", str(tmp_path / "mine"))
    assert data.default_cache_folder() == tmp_path / "mine"
    monkeypatch.delenv("LEVELFIELD_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert data.default_cache_folder() == Path.home() / ".cache" / "levelfield"
