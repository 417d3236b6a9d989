"""Run folders on their way between machines: the content of each file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from levelfield.files.writing import write_whole
from levelfield.studies.runs.folder.files import FINISHED, TRAINED
from levelfield.training.checkpoint import CHECKPOINT

LAST = (CHECKPOINT, TRAINED, FINISHED)  # each of them says that what comes before it is there
_LOCK = "lock"  # of the machine whose process does the run


@dataclass(frozen=True)
class Parcel:
    """Files by their path in the folder. whole: the folder has no others."""

    files: dict[str, bytes]
    whole: bool


def pack(folder: Path, names: Iterable[str] | None = None) -> Parcel:
    """All files of a folder, or those with some names as far as they exist.

    >>> import tempfile
    >>> first, second = Path(tempfile.mkdtemp()), Path(tempfile.mkdtemp())
    >>> _ = (first / "log.jsonl").write_text("{}")
    >>> unpack(pack(first), second)
    >>> (second / "log.jsonl").read_text()
    '{}'
    """
    files = {}
    for name in _names(folder) if names is None else names:
        with suppress(FileNotFoundError):  # a checkpoint is removed at the end
            files[name] = (folder / name).read_bytes()
    return Parcel(files, whole=names is None)


def unpack(parcel: Parcel, folder: Path) -> None:
    """Write the files, each of them atomically and the last of a stage last; those of a whole folder replace others."""
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
        return pack(self.folder, sorted(changed, key=lambda name: name != CHECKPOINT))

    def _stamps(self) -> dict[str, tuple[int, int]]:
        stamps = {}
        for name in _names(self.folder):
            with suppress(FileNotFoundError):
                status = (self.folder / name).stat()
                stamps[name] = (status.st_mtime_ns, status.st_size)
        return stamps


def _names(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and str(name) != _LOCK and not any(part.startswith(".") for part in name.parts):
            yield name.as_posix()
