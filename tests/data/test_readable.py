"""Each image is checked once, and again whenever its file changes."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from levelfield import data
from levelfield.data import catalog as catalogs
from levelfield.data.checks import readable
from levelfield.data.checks.readable import check_images, with_known_digests
from levelfield.errors import BadInput
from levelfield.progress import CallbackProgress, LoggedProgress


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Callable[[], set[str]]:
    """Tells which images were opened since the last call, as FOLDER/NAME."""
    paths: list[Path] = []
    for module, name in ((readable, "verify_image"), (readable, "file_digest"), (catalogs, "file_digest")):
        function = getattr(module, name)
        monkeypatch.setattr(module, name, lambda path, function=function: (paths.append(path), function(path))[1])

    def since() -> set[str]:
        names = {f"{path.parent.name}/{path.name}" for path in paths}
        paths.clear()
        return names

    return since


@pytest.fixture
def pets(pets: Path) -> Path:
    """As they lie there since yesterday."""
    for path in pets.glob("*/*"):
        age(path)
    return pets


def age(path: Path, seconds: float = 86_400) -> None:
    now = path.stat().st_mtime
    os.utime(path, (now - seconds, now - seconds))


def totals(folder: Path, cache: Path, **settings: bool) -> list[int]:
    """How many images were looked at."""
    told: list[tuple[int, int]] = []
    check_images(
        data.create(folder), cache=cache, progress=CallbackProgress(lambda _, *step: told.append(step)), **settings
    )
    return [total for done, total in told if done == 0]


def test_the_second_time_no_image_is_opened(pets: Path, tmp_path: Path, opened: Callable[[], set[str]]) -> None:
    first = check_images(data.create(pets), cache=tmp_path / "cache")
    assert len(opened()) == 11
    assert first.digests == data.create(pets).digests
    opened()
    told: list[int] = []
    second = check_images(
        data.create(pets), cache=tmp_path / "cache", progress=CallbackProgress(lambda _, done, total: told.append(done))
    )
    third = with_known_digests(data.create(pets), cache=tmp_path / "cache")
    assert first.digest == second.digest == third.digest
    assert opened() == set()
    assert told == []


def test_the_log_says_when_a_stage_begins_and_is_complete(pets: Path, tmp_path: Path, caplog: Any) -> None:
    with caplog.at_level(logging.INFO, "levelfield"):
        check_images(data.create(pets), cache=tmp_path, progress=LoggedProgress())
    assert [message.partition(": ")[2] for message in caplog.messages] == ["0 of 11", "11 of 11"]


@pytest.mark.parametrize("what", ["content", "time"])
def test_a_changed_file_is_looked_at_again_and_no_other(pets, tmp_path, opened, what):
    check_images(data.create(pets), cache=tmp_path / "cache")
    changed = pets / "dog" / "1.png"
    if what == "content":  # of another size; the time is put back
        before = changed.stat()
        shutil.copyfile(pets / "cat" / "0.png", changed)
        assert changed.stat().st_size != before.st_size
        os.utime(changed, ns=(before.st_atime_ns, before.st_mtime_ns))
    else:
        age(changed, -3)
    opened()
    catalog = check_images(data.create(pets), cache=tmp_path / "cache")
    assert opened() == {"dog/1.png"}
    assert catalog.digests == data.create(pets).digests
    assert totals(pets, tmp_path / "cache") == []


def test_a_file_changed_a_moment_ago_is_not_trusted(pets: Path, tmp_path: Path) -> None:
    age(pets / "eel" / "0.png", -86_400)  # now: it could be written again before the clock of the disk ticks
    assert totals(pets, tmp_path) == [11]
    assert totals(pets, tmp_path) == [1]


def test_unreadable_images_are_told_each_time_and_the_others_are_known(pets: Path, tmp_path: Path) -> None:
    (pets / "fox" / "2.png").write_bytes(b"no image")
    age(pets / "fox" / "2.png")
    for _ in range(2):
        with pytest.raises(BadInput, match=r"1 of 11 images of 'pets' cannot be read(.|\n)*fox/2.png"):
            check_images(data.create(pets), cache=tmp_path)
    assert totals(pets, tmp_path, skip_unreadable=True) == [1]


def test_an_image_too_long_for_any_view_counts_as_unreadable(pets: Path, tmp_path: Path) -> None:
    Image.new("RGB", (2_000, 8)).save(pets / "fox" / "2.png")
    with pytest.raises(BadInput, match=r"1 of 11 images(.|\n)*fox/2.png: it has 2,000 x 8 pixels; .*at most 100 times"):
        check_images(data.create(pets), cache=tmp_path)
    assert len(check_images(data.create(pets), cache=tmp_path, skip_unreadable=True)) == 10


def test_a_missing_file_is_named(pets: Path, tmp_path: Path) -> None:
    catalog = data.create(pets)
    check_images(catalog, cache=tmp_path)
    catalog.paths[2].unlink()
    with pytest.raises(BadInput, match=r"cat/2.png: the file does not exist"):
        check_images(catalog, cache=tmp_path)
    with pytest.raises(BadInput, match=r"cat/2.png"):
        _ = with_known_digests(catalog, cache=tmp_path).digests


def test_what_was_not_seen_is_recognised_by_reading_it(pets: Path, tmp_path: Path) -> None:
    plain = data.create(pets).digests
    assert with_known_digests(data.create(pets), cache=tmp_path).digests == plain
    check_images(data.create(pets).subset(range(5)), cache=tmp_path)
    assert with_known_digests(data.create(pets), cache=tmp_path).digests == plain


@pytest.mark.parametrize("damage", ["empty", "short", "flipped", "foreign"])
def test_a_damaged_file_is_thrown_away_silently(pets, tmp_path, caplog, damage):
    assert totals(pets, tmp_path) == [11]
    [file] = [path for path in (tmp_path / "seen").iterdir() if not path.name.startswith(".")]
    sound = file.read_bytes()
    flipped = bytearray(sound)
    flipped[-1] ^= 1  # of a digest: nothing but the checksum can tell
    bad = {"empty": b"", "short": sound[:-32], "flipped": bytes(flipped), "foreign": b"x" * len(sound)}
    file.write_bytes(bad[damage])
    with caplog.at_level(logging.DEBUG, "levelfield"):
        assert totals(pets, tmp_path) == [11]
    assert not caplog.records
    assert file.read_bytes() == sound


def test_two_at_once_keep_what_both_found(pets: Path, tmp_path: Path) -> None:
    whole = data.create(pets)
    other = lambda: check_images(whole.subset([0, *range(5, 11)]), cache=tmp_path)  # noqa: E731
    check_images(
        whole.subset([*range(5), 10]),
        cache=tmp_path,
        progress=CallbackProgress(lambda _, done, total: other() if done == 2 else 0),
    )
    assert totals(pets, tmp_path) == []


def test_what_an_interrupted_look_found_is_not_lost(pets: Path, tmp_path: Path) -> None:
    def stop(text: str, done: int, total: int) -> None:
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check_images(data.create(pets), cache=tmp_path, progress=CallbackProgress(stop))
    assert totals(pets, tmp_path) == [7]


def test_what_a_killed_look_found_is_saved_now_and_then(pets, tmp_path, monkeypatch):
    monkeypatch.setattr(readable, "PAUSE", 0.0)
    inside: list[list[int]] = []

    def ask(text: str, done: int, total: int) -> None:
        if done == 3:  # as another process would see it at this moment
            inside.append(totals(pets, tmp_path))

    check_images(data.create(pets), cache=tmp_path, progress=CallbackProgress(ask))
    assert inside == [[8]]


def test_a_cache_that_cannot_be_written_to_stops_nothing(pets, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    assert len(check_images(data.create(pets), cache=tmp_path / "file")) == 11
    assert "will be checked again next time" in caplog.text
