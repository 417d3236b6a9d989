"""The cache besides features: only our own files inside it are listed and cleared."""

from __future__ import annotations

import os
import shutil

import pytest

from levelfield import data
from levelfield.data.archives import unpacked
from levelfield.data.cache_contents import cache_items
from levelfield.data.checks.readable import check_images
from levelfield.files.writing import locked


@pytest.fixture
def cache(pets, tmp_path):
    """With an unpacked archive and the digests of a folder."""
    place = tmp_path / "cache"
    for photo in pets.rglob("*.png"):
        os.utime(photo, (1e9, 1e9))
    shutil.make_archive(str(tmp_path / "packed"), "zip", pets)
    unpacked(tmp_path / "packed.zip", cache=place)
    check_images(data.create(pets), cache=place)
    return place


def test_what_is_being_unpacked_stays(cache, tmp_path):
    [one] = [one for one in cache_items(cache) if "unpacked" in one.what]
    folder = unpacked(tmp_path / "packed.zip", cache=cache)
    with locked(folder.with_name(f".{folder.name}.lock")):
        assert not one.remove()
    assert list(folder.rglob("*.png"))
    assert one.remove()
    assert not folder.exists()


def test_the_rest_of_a_killed_process_goes_too(cache, pets, tmp_path):
    folder = unpacked(tmp_path / "packed.zip", cache=cache)
    (folder / "link").symlink_to(pets)
    folder.rename(folder.with_name(f".{folder.name}.tmp"))
    assert all(one.remove() for one in cache_items(cache))
    assert not list(cache.rglob("*.png"))
    assert list(pets.rglob("*.png"))  # a link inside is not followed


def test_what_others_keep_under_such_names_is_left_alone(tmp_path):
    """`--cache .` in a folder of one's own."""
    for name in ("seen", "unpacked/mine-0123", "emoji"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "notes.txt").write_text("mine")
    (tmp_path / "emoji" / "smile.json").write_text("{}")
    assert cache_items(tmp_path) == []


def test_a_folder_linked_into_the_cache_is_outside(cache, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    (cache / "unpacked").rename(elsewhere)
    (cache / "unpacked").symlink_to(elsewhere)
    for one in cache_items(cache):
        assert one.remove()
    assert list(elsewhere.rglob("*.png"))
