"""Make an index of photos, add photos to it, and search it."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelfield import embedder
from levelfield.data.catalog import file_digest
from levelfield.embedder.devices import requested
from levelfield.errors import BadInput
from levelfield.progress import SILENT, Progress
from levelfield.shipping.index import decision
from levelfield.shipping.index import folder as files
from levelfield.shipping.index.approximate import cached, check_library, graph_of, lost
from levelfield.shipping.index.exact import BINARY, FLOAT, Positions, Rows, Stored, nearest, ordered, packed
from levelfield.shipping.onnx_model import OnnxModel, load
from levelfield.shipping.searching import find_images, readable, remembered

_log = logging.getLogger(__name__)
_OF_RUNS = ("run.yaml", "runs.json", "model.yaml", "model.json")


@dataclass(frozen=True)
class Index:
    """An index that was opened with `Index.open`. Its `rows`, `paths` and `classes` also fill any vector database."""

    folder: Path
    content: files.Content

    @classmethod
    def open(cls, folder: Path | str) -> Index:
        """The index in `folder`. Files that were changed are refused. Neither torch nor the model is loaded."""
        return cls(Path(folder), files.read_folder(Path(folder)))

    def __len__(self) -> int:
        return len(self.content.items)

    @property
    def dim(self) -> int:
        return self.content.stored.dim

    @property
    def rows(self) -> Rows:
        """Unit rows, float32 (images, dim)."""
        return self.content.stored.part(slice(None))

    @cached_property
    def paths(self) -> list[Path]:
        """The image files, relative to the working directory where they are below it."""
        homes = [_shown(self.folder / name) for name in self.content.facts["folders"]]
        return [homes[item.folder] / item.path for item in self.content.items]

    @property
    def classes(self) -> list[str]:
        """The class of each image: the name of its sub-folder, empty if it has none."""
        return [item.label for item in self.content.items]

    @property
    def threshold(self) -> float | None:
        """The least cosine of two images that count as the same class; None if it was not chosen."""
        threshold = self.content.facts["threshold"]
        return None if threshold is None else float(threshold["value"])

    def model(self, path: Path | str | None = None) -> embedder.Model | embedder.Ensemble | OnnxModel:
        """The model that made the index, from the path in index.json or from `path`; another model is refused."""
        facts = self.content.facts["model"]
        location = _shown(self.folder / facts["place"]) if path is None else Path(path)
        if path is None and not location.exists():
            raise BadInput(
                f"The model of the index {self.folder} is no longer at {location}. Give its new place: levelfield "
                f"search {self.folder} PHOTO --model RUN, or levelfield index RUN --add FOLDER --out {self.folder}"
            )
        model = load(location, device=requested())
        if model.checksum != facts["checksum"]:
            metadata = " ".join(str(facts[name]) for name in ("method", "data") if name in facts)
            named = f" ({metadata})" if metadata else ""
            raise BadInput(
                f"The index {self.folder} was made with another model{named} than {location}, and rows of two models "
                "cannot be compared. Use its own model, or index the photos again."
            )
        return model

    def search(self, queries: Rows, k: int = 5) -> tuple[Positions, NDArray[np.float64]]:
        """Positions and cosines (queries, k) of the images nearest to unit rows, nearest first. An approximate search
        that finds fewer has positions of -1."""
        stored, k = self.content.stored, min(k, len(self))
        if self._graph is None:
            return nearest(stored, queries, k)
        return ordered(stored, queries, self._graph(queries, k))

    @cached_property
    def _graph(self) -> Any:
        approximate = self.content.facts["approximate"]
        return None if approximate is None else graph_of(approximate["library"], self.content.stored)


@dataclass(frozen=True)
class Added:
    """An index after photos were added: how many are new, have changed and were embedded again, or were known."""

    index: Index
    new: int
    changed: int
    known: int


def build_index(
    run: Path | str,
    folders: Sequence[Path | str],
    out: Path | str,
    *,
    choose_on: str | None = None,
    approximate: str | None = None,
    skip_unreadable: bool = False,
    force: bool = False,
    progress: Progress = SILENT,
) -> Index:
    """Embed the photos below `folders` and write an index into the folder `out`: all files, or none if something fails.

    Args:
        run: folder of a run, or of a study (its best run), or an exported model.onnx, which needs no torch.
        folders: with photos; the sub-folder of a photo is its class.
        out: folder of the index.
        choose_on: classes of the run that choose the threshold for "same class": "validation" or "training"; None: the
            index has no threshold. A warning names the reason if none can be chosen.
        approximate: "usearch" or "faiss"; None searches exactly.
        skip_unreadable: leave out photos that cannot be read.
        force: replace an index in `out`.
        progress: gets stages, the last of which has one step per photo.
    """
    run, out = Path(run), Path(out)
    _check_out(out, force=force)
    if approximate is not None:
        check_library(approximate)
    photos = _photos_of(folders, skip_unreadable, progress)
    model = load(run, device=requested())
    chosen, remark = ({}, "") if choose_on is None else decision.choose(run, model, choose_on, progress=progress)
    metadata = {name: str(model.about[name]) for name in ("method", "data") if name in model.about}
    # `binary` if every number of a row is 1 or -1, before it is divided by the row's length
    codes = getattr(getattr(model, "embedder", model), "codes", FLOAT)
    facts = {
        "dim": model.dim,
        "codes": BINARY if codes == BINARY else FLOAT,
        "model": {"place": files.relative(run, out), "checksum": model.checksum, **metadata},
        "folders": [],
        "threshold": None,
        "unknowns": None,
        **chosen,
        "approximate": None if approximate is None else {"library": approximate},
    }
    rows = packed(np.zeros((0, model.dim), np.float32), facts["codes"])
    with files.changing(out):
        _check_out(out, force=force)  # another process may have made an index meanwhile
        empty = files.Content(facts, [], Stored(rows, model.dim, facts["codes"]))
        index = _extended(out, empty, model, photos, progress).index
    if remark:
        _log.warning(remark)
    return index


def add_to_index(
    folder: Path | str,
    more: Sequence[Path | str],
    *,
    model: Path | str | None = None,
    skip_unreadable: bool = False,
    progress: Progress = SILENT,
) -> Added:
    """Add the photos below the folders `more` to an index. Known ones are skipped, none is removed; the files of an
    exact index are then the same as if it had been made of all photos at once.

    Args:
        folder: of the index.
        more: folders with photos.
        model: where the model of the index is now, if it was moved; the index then refers to this path.
        skip_unreadable: leave out photos that cannot be read.
        progress: gets a stage whose steps are photos.
    """
    folder = Path(folder)
    files.read_facts(folder)  # before a lock is created: it is an index
    photos = _photos_of(more, skip_unreadable, progress)
    with files.changing(folder):
        index = Index.open(folder)
        loaded, content = index.model(model), index.content
        if model is not None:
            facts = {**content.facts["model"], "place": files.relative(Path(model), folder)}
            content = replace(content, facts={**content.facts, "model": facts})
        return _extended(folder, content, loaded, photos, progress)


def _photos_of(folders: Sequence[Path | str], skip_unreadable: bool, progress: Progress) -> dict[Path, list[Path]]:
    """The images below each folder, which needs one."""
    photos: dict[Path, list[Path]] = {}
    for folder in map(Path, folders):
        if folder.is_file():
            raise BadInput(f"{folder} is a file, not a folder of photos.")
        photos[folder] = find_images([folder])
    if skip_unreadable:
        kept = set(readable([path for paths in photos.values() for path in paths], progress=progress))
        photos = {folder: [path for path in paths if path in kept] for folder, paths in photos.items()}
    return photos


def _check_out(out: Path, *, force: bool) -> None:
    """Refuse a folder in which an index must not be written."""
    if out.exists() and not out.is_dir():
        raise BadInput(f"--out {out} is a file; give a folder.")
    if any((out / name).exists() for name in _OF_RUNS):
        raise BadInput(f"--out {out} is the folder of a run, study or model. Give another folder, such as index.")
    if files.is_index(out) and not force:
        raise BadInput(
            f"{out / files.INDEX} already exists. Add photos with --add, replace the index with --force, or choose "
            "another folder with --out."
        )


def _extended(
    out: Path,
    content: files.Content,
    model: embedder.Model | embedder.Ensemble | OnnxModel,
    photos: dict[Path, list[Path]],
    progress: Progress,
) -> Added:
    """Write `content` with the rows of further photos into `out`."""
    homes = [(out / name).resolve() for name in content.facts["folders"]]
    for folder in map(Path.resolve, photos):
        if not any(folder.is_relative_to(home) for home in homes):
            homes.append(folder)
    items = _items_of(photos, homes)
    earlier = {item.key: position for position, item in enumerate(content.items)}
    new = {
        item: path
        for item, path in items.items()
        if item.key not in earlier or content.items[earlier[item.key]].digest != item.digest
    }
    changed = {item.key for item in new} & earlier.keys()
    kept = [position for key, position in earlier.items() if key not in changed]
    rows = remembered(model, list(new.values()), progress=progress)
    together = [*(content.items[position] for position in kept), *new]
    order = sorted(range(len(together)), key=lambda k: (together[k].folder, together[k].path.split("/")))
    values = np.concatenate([content.stored.values[kept], packed(rows, content.stored.codes)])
    stored = replace(content.stored, values=values[order])
    facts = {
        **{key: value for key, value in content.facts.items() if key not in ("files", "format")},
        "images": len(together),
        "folders": [files.relative(home, out) for home in homes],
    }
    if facts["approximate"] is not None:
        library = facts["approximate"]["library"]
        facts["approximate"] = {"library": library, **lost(graph_of(library, stored), stored)}
    files.write_folder(out, files.Content(facts, [together[k] for k in order], stored))
    if facts["approximate"] is not None and new:  # nobody needs the earlier graph
        cached(library, content.stored).unlink(missing_ok=True)
    return Added(Index.open(out), len(new) - len(changed), len(changed), len(items) - len(new))


def _items_of(photos: dict[Path, list[Path]], homes: list[Path]) -> dict[files.Item, Path]:
    """The entry of each photo: below the first folder of the index that contains it. Links keep their own names."""
    items: dict[tuple[int, str], tuple[files.Item, Path]] = {}
    for folder, paths in photos.items():
        real = folder.resolve()
        for path in paths:
            absolute = real / path.relative_to(folder)
            number = next(number for number, home in enumerate(homes) if absolute.is_relative_to(home))
            inside = absolute.relative_to(homes[number])
            label = inside.parts[0] if len(inside.parts) > 1 else ""
            item = files.Item(inside.as_posix(), label, number, file_digest(path))
            items[item.key] = item, path
    return dict(items.values())


def _shown(path: Path) -> Path:
    """A path for people: relative to the working directory if it is below it."""
    real = path.resolve()
    return Path(os.path.relpath(real)) if real.is_relative_to(Path.cwd().resolve()) else real
