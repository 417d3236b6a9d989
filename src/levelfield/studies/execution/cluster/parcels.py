"""Run folders on their way between machines: the content of each file, with a checksum."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from levelfield.errors import Damaged
from levelfield.files.writing import write_whole
from levelfield.studies.runs.folder.files import FINISHED, TRAINED
from levelfield.training.checkpoint import CHECKPOINT

LAST = (CHECKPOINT, TRAINED, FINISHED)  # each of them says that what comes before it is there
_STAYS = ("lock", "lock.own")


@dataclass(frozen=True)
class Parcel:
    """Files by their path in the folder. whole: the folder has no others."""

    files: dict[str, bytes]
    checksums: dict[str, str]
    whole: bool

    @property
    def bytes(self) -> int:
        return sum(map(len, self.files.values()))


def pack(folder: Path) -> Parcel:
    """All files of a folder.

    >>> import tempfile
    >>> first, second = Path(tempfile.mkdtemp()), Path(tempfile.mkdtemp())
    >>> _ = (first / "log.jsonl").write_text("{}")
    >>> unpack(pack(first), second)
    >>> (second / "log.jsonl").read_text()
    '{}'
    """
    return _parcel(folder, _names(folder), whole=True)


def unpack(parcel: Parcel, folder: Path) -> None:
    """Write the files, each of them atomically and the last of a stage last; those of a whole folder replace others.

    Nothing is written if a checksum differs or a path leaves the folder.
    """
    for name, content in parcel.files.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise Damaged(f"A parcel for {folder} names a file outside of it: {name!r}.")
        if parcel.checksums.get(name) != _checksum(content):
            raise Damaged(f"{folder / name} was damaged on its way: its checksum differs.")
    for name in sorted(parcel.files, key=lambda name: (LAST.index(name) + 1 if name in LAST else 0, name)):
        content = parcel.files[name]
        write_whole(folder / name, lambda file, content=content: file.write(content))  # type: ignore[misc]
    if parcel.whole:
        for name in set(_names(folder)) - set(parcel.files):
            (folder / name).unlink(missing_ok=True)


class Changes:
    """Notices what is new in the folder of a run that trains: at each checkpoint, and when training is complete."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._seen = self._stamps()

    def new(self) -> Parcel | None:
        """The files that changed since the last parcel, if a checkpoint or the end of training is among them."""
        now = self._stamps()
        changed = [name for name, stamp in now.items() if self._seen.get(name) != stamp]
        if not {CHECKPOINT, TRAINED} & set(changed):
            return None
        self._seen = now
        # the checkpoint first: a log that is longer than its checkpoint is shortened on resume
        return _parcel(self.folder, sorted(changed, key=lambda name: name != CHECKPOINT), whole=False)

    def _stamps(self) -> dict[str, tuple[int, int]]:
        stamps = {}
        for name in _names(self.folder):
            try:
                status = (self.folder / name).stat()
            except FileNotFoundError:  # a checkpoint is removed at the end
                continue
            stamps[name] = (status.st_mtime_ns, status.st_size)
        return stamps


def _names(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and str(name) not in _STAYS and not any(part.startswith(".") for part in name.parts):
            yield name.as_posix()


def _parcel(folder: Path, names: Iterable[str], *, whole: bool) -> Parcel:
    files = {}
    for name in names:
        try:
            files[name] = (folder / name).read_bytes()
        except FileNotFoundError:
            continue
    return Parcel(files, {name: _checksum(content) for name, content in files.items()}, whole)


def _checksum(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
