"""Archives: unpacked within a size limit, inside their folder, or refused without remains; cleared with the cache."""

from __future__ import annotations

import io
import os
import shutil
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from levelfield import data
from levelfield.data import archives
from levelfield.data.archives import unpacked
from levelfield.data.cache_contents import cache_items
from levelfield.data.checks.readable import check_images
from levelfield.errors import BadInput, BadSpecification
from levelfield.files.writing import locked

ZEROS = bytes(3_000_000)


@pytest.fixture(autouse=True)
def _small_allowance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MIN_ALLOWED_BYTES", 2_000_000)
    monkeypatch.delenv("LEVELFIELD_UNPACK", raising=False)


def zipped(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def tarred(path: Path, *members: tarfile.TarInfo, content: bytes = b"", mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for member in members:
            member.size = len(content) if member.isfile() else 0
            archive.addfile(member, io.BytesIO(content))
    return path


def link(name: str, target: str, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def zip_of_a_link(path: Path) -> Path:
    info = zipfile.ZipInfo("a")
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(info, "/etc/passwd")
    return path


def encrypted(path: Path) -> Path:
    zipped(path, {"a.txt": b"x"})
    content = bytearray(path.read_bytes())
    for magic, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(magic) + place] |= 1
    path.write_bytes(content)
    return path


def lying(path: Path) -> Path:
    """A zip that says its file is small."""
    zipped(path, {"a.txt": ZEROS})
    content = bytearray(path.read_bytes())
    for magic, place in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        where = content.index(magic) + place
        content[where : where + 4] = struct.pack("<I", 100)
    path.write_bytes(content)
    return path


def nested(path: Path, depth: int) -> Path:
    content = b"deep"
    for level in range(depth):
        inner = zipped(path.with_name(f"level {level}.zip"), {"x.txt" if not level else f"l{level}.zip": content})
        content = inner.read_bytes()
        inner.unlink()
    path.write_bytes(content)
    return path


def sparse(path: Path) -> Path:
    """1 GB of holes, as GNU tar writes it."""
    member = tarfile.TarInfo("a.bin")
    header = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    header[156:157] = b"S"
    header[386:398] = b"%011o\0" % 0
    header[398:410] = b"%011o\0" % 0
    header[483:495] = b"%011o\0" % 10**9
    header[148:156] = b"        "
    header[148:156] = b"%06o\0 " % sum(header)
    path.write_bytes(bytes(header) + bytes(1024))
    return path


def bombs_inside(path: Path) -> Path:
    bomb = zipped(path.with_name("bomb.zip"), {"a.txt": ZEROS[:900_000]}).read_bytes()
    return zipped(path, {f"{k}.zip": bomb for k in range(3)})


BOMBS: dict[str, Callable[[Path], Path]] = {
    "zip bomb": lambda home: zipped(home / "a.zip", {"a.txt": ZEROS}),
    "tar bomb": lambda home: tarred(home / "a.tgz", tarfile.TarInfo("a.txt"), content=ZEROS),
    "hidden tar bomb": lambda home: tarred(home / "a.tar.xz", tarfile.TarInfo(".a"), content=ZEROS, mode="w:xz"),
    "bomb in parts": lambda home: zipped(home / "a.zip", {f"{k}.txt": ZEROS[:500_000] for k in range(6)}),
    "many empty files": lambda home: tarred(home / "a.tgz", *(tarfile.TarInfo(str(k)) for k in range(5000))),
    "bombs inside": lambda home: bombs_inside(home / "a.zip"),
    "sparse": lambda home: sparse(home / "a.tar"),
}
CRAFTED: dict[str, tuple[Callable[[Path], Path], str]] = {
    **{name: (make, "unpacks to more than") for name, make in BOMBS.items()},
    "lying sizes": (lambda home: lying(home / "a.zip"), "damaged"),
    "too deep": (lambda home: nested(home / "a.zip", 5), "more than 3 levels deep"),
    "encrypted": (lambda home: encrypted(home / "a.zip"), "is encrypted"),
    "parent": (lambda home: zipped(home / "a.zip", {"../../stolen.txt": b"x"}), "points outside"),
    "parent by backslashes": (lambda home: zipped(home / "a.zip", {"..\\..\\stolen.txt": b"x"}), "points outside"),
    "absolute": (lambda home: tarred(home / "a.tgz", tarfile.TarInfo("/tmp/stolen.txt")), "points outside"),
    "symbolic link": (lambda home: tarred(home / "a.tgz", link("a", "/etc", tarfile.SYMTYPE)), "is a link"),
    "hard link": (lambda home: tarred(home / "a.tgz", link("a", "/etc/passwd", tarfile.LNKTYPE)), "is a link"),
    "link in a zip": (lambda home: zip_of_a_link(home / "a.zip"), "is a link"),
    "device": (lambda home: tarred(home / "a.tgz", link("a", "", tarfile.CHRTYPE)), "is a device"),
    "pipe": (lambda home: tarred(home / "a.tgz", link("a", "", tarfile.FIFOTYPE)), "is a device"),
    "file and folder": (lambda home: zipped(home / "a.zip", {"a": b"x", "a/b": b"y"}), "twice"),
}


@pytest.mark.parametrize("name", CRAFTED)
def test_a_crafted_archive_is_refused_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    make, message = CRAFTED[name]
    (tmp_path / "given").mkdir()
    archive = make(tmp_path / "given")
    with pytest.raises(BadInput, match=message):
        unpacked(archive, cache=tmp_path / "cache")
    assert [path.name for path in (tmp_path / "cache" / "unpacked").iterdir() if not path.name.endswith(".lock")] == []
    assert not list(tmp_path.rglob("stolen.txt"))


def test_folders_divided_by_backslashes_are_folders(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "a.zip", {"photos\\": b"", "photos\\cat\\1.txt": b"x"})
    assert (unpacked(archive, cache=tmp_path / "cache") / "photos" / "cat" / "1.txt").read_bytes() == b"x"


@pytest.mark.parametrize("ending", ["tar", "tar.gz", "tgz", "tar.bz2", "tar.xz", "zip"])
def test_sound_archives_of_every_kind_are_unpacked(ending: str, tmp_path: Path) -> None:
    path, content = tmp_path / f"a.{ending}", bytes(range(256)) * 40
    if ending == "zip":
        zipped(path, {"b/c.txt": content, ".hidden": b"x"})
    else:
        mode = {"tar": "w", "tar.bz2": "w:bz2", "tar.xz": "w:xz"}.get(ending, "w:gz")
        tarred(path, tarfile.TarInfo("b/c.txt"), tarfile.TarInfo("._c"), content=content, mode=mode)
    folder = unpacked(path, cache=tmp_path / "cache")
    assert [str(found.relative_to(folder)) for found in folder.rglob("*") if found.is_file()] == ["b/c.txt"]
    assert (folder / "b" / "c.txt").read_bytes() == content


def test_the_allowance_can_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = zipped(tmp_path / "a.zip", {"a.txt": ZEROS})
    monkeypatch.setenv("LEVELFIELD_UNPACK", "much")
    with pytest.raises(BadSpecification, match="number of GB"):
        unpacked(archive, cache=tmp_path / "cache")
    monkeypatch.setenv("LEVELFIELD_UNPACK", "0.01")
    assert (unpacked(archive, cache=tmp_path / "cache") / "a.txt").stat().st_size == len(ZEROS)


def test_a_zip_that_announces_too_much_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = zipped(tmp_path / "a.zip", {"1.txt": bytes(1_500_000), "2.txt": bytes(1_500_000)})
    monkeypatch.setattr(archives.shutil, "copyfileobj", lambda *_: pytest.fail("a file was written"))
    with pytest.raises(BadInput, match=r"unpacks to more than 0\.002 GB"):
        unpacked(archive, cache=tmp_path / "cache")
    monkeypatch.setattr(archives, "MIN_ALLOWED_BYTES", 4_000_000)
    monkeypatch.setattr(archives.shutil, "disk_usage", lambda _: SimpleNamespace(free=2_000_000))
    with pytest.raises(BadInput, match=r"0\.0 GB needed, 0\.0 GB free"):
        unpacked(archive, cache=tmp_path / "cache")


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
