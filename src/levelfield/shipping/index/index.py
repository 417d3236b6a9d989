"""Make an index of photos, add photos to it, and search it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from levelfield.data.catalog import file_digest
from levelfield.data.checks.readable import check_names
from levelfield.data.images import images_below
from levelfield.embedder.devices import requested
from levelfield.errors import BadInput
from levelfield.progress import SILENT, Progress
from levelfield.shipping.gallery import remembered
from levelfield.shipping.index.approximate import check_library, forget_graph, graph_of, lost
from levelfield.shipping.index.exact import BINARY, FLOAT, Positions, Rows, Stored, nearest, ordered, packed
from levelfield.shipping.index.folder import (
    INDEX,
    Content,
    Item,
    changing,
    is_index,
    read_facts,
    read_folder,
    relative,
    write_folder,
)
from levelfield.shipping.onnx_model import OnnxModel, load

if TYPE_CHECKING:
    from levelfield.embedder import Ensemble, Model

_OF_RUNS = ("run.yaml", "runs.json", "model.yaml", "model.json")


@dataclass(frozen=True)
class Index:
    """An index that was opened with `Index.open`. Its `rows`, `paths` and `classes` also fill any vector database."""

    folder: Path
    content: Content

    @classmethod
    def open(cls, folder: Path | str) -> Index:
        """The index in `folder`. Files that were changed are refused. Neither torch nor the model is loaded."""
        return cls(Path(folder), read_folder(Path(folder)))

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
        return [homes[one.folder] / one.path for one in self.content.items]

    @property
    def classes(self) -> list[str]:
        """The class of each image: the name of its sub-folder, empty if it has none."""
        return [one.label for one in self.content.items]

    @property
    def threshold(self) -> float | None:
        """The least cosine of two images that count as the same class; None if it was not chosen."""
        chosen = self.content.facts["threshold"]
        return None if chosen is None else float(chosen["value"])

    def model(self, path: Path | str | None = None) -> Model | Ensemble | OnnxModel:
        """The model that made the index, from the path in index.json or from `path`; another model is refused."""
        facts = self.content.facts["model"]
        where = _shown(self.folder / facts["place"]) if path is None else Path(path)
        if path is None and not where.exists():
            raise BadInput(
                f"The model of the index {self.folder} is no longer at {where}. Give its new place: levelfield search "
                f"{self.folder} PHOTO --model RUN, or levelfield index RUN --add FOLDER --out {self.folder}"
            )
        model = load(where, device=requested())
        if model.checksum != facts["checksum"]:
            metadata = " ".join(str(facts[name]) for name in ("method", "data") if name in facts)
            named = f" ({metadata})" if metadata else ""
            raise BadInput(
                f"The index {self.folder} was made with another model{named} than {where}, and rows of two models "
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
    decision: Mapping[str, Any] | None = None,
    approximate: str | None = None,
    skip: Sequence[Path] = (),
    force: bool = False,
    progress: Progress = SILENT,
) -> Index:
    """Embed the photos below `folders` and write an index into the folder `out`: all files, or none if something fails.

    Args:
        run: folder of a run, or of a study (its best run), or an exported model.onnx, which needs no torch.
        folders: with photos; the sub-folder of a photo is its class.
        out: folder of the index.
        decision: `threshold` and `unknowns` of the model, see `levelfield.shipping.index.decision`.
        approximate: "usearch" or "faiss"; None searches exactly.
        skip: photos to leave out, for example unreadable ones.
        force: replace an index in `out`.
        progress: gets a stage whose steps are images.
    """
    out = Path(out)
    check_out(out, force=force)
    if approximate is not None:
        check_library(approximate)
    model = load(run, device=requested())
    metadata = {name: str(model.about[name]) for name in ("method", "data") if name in model.about}
    facts = {
        "dim": model.dim,
        "codes": _codes(model),
        "model": {"place": relative(Path(run), out), "checksum": model.checksum, **metadata},
        "folders": [],
        "threshold": None,
        "unknowns": None,
        **(decision or {}),
        "approximate": None if approximate is None else {"library": approximate},
    }
    empty = Content(
        facts, [], Stored(packed(np.zeros((0, model.dim), np.float32), facts["codes"]), model.dim, facts["codes"])
    )
    with changing(out):
        check_out(out, force=force)  # another process may have made an index meanwhile
        return _extended(out, empty, model, folders, skip, progress).index


def add_to_index(
    folder: Path | str,
    more: Sequence[Path | str],
    *,
    model: Path | str | None = None,
    skip: Sequence[Path] = (),
    progress: Progress = SILENT,
) -> Added:
    """Add the photos below the folders `more` to an index. Known ones are skipped, none is removed; the files of an
    exact index are then the same as if it had been made of all photos at once.

    Args:
        folder: of the index.
        more: folders with photos.
        model: where the model of the index is now, if it was moved; the index then refers to this path.
        skip: photos to leave out.
        progress: gets a stage whose steps are images.
    """
    read_facts(Path(folder))  # before a lock is created: it is an index
    with changing(Path(folder)):
        index = Index.open(folder)
        loaded, content = index.model(model), index.content
        if model is not None:
            location = {"place": relative(Path(model), index.folder)}
            content = replace(content, facts={**content.facts, "model": {**content.facts["model"], **location}})
        return _extended(index.folder, content, loaded, more, skip, progress)


def photos_of(folders: Sequence[Path | str]) -> list[Path]:
    """All images below folders. Each folder needs one."""
    paths: dict[Path, None] = {}
    for folder in map(Path, folders):
        if not folder.is_dir():
            what = "is a file, not a folder of photos" if folder.exists() else "does not exist"
            raise BadInput(f"{folder} {what}.")
        images = images_below(folder)
        if not images:
            raise BadInput(f"No images found under {folder}.")
        paths |= dict.fromkeys(images)
    check_names(list(paths))
    return list(paths)


def check_out(out: Path, *, force: bool) -> None:
    """Refuse a place where an index must not be written."""
    if out.exists() and not out.is_dir():
        raise BadInput(f"--out {out} is a file; give a folder.")
    if any((out / name).exists() for name in _OF_RUNS):
        raise BadInput(f"--out {out} is the folder of a run, study or model. Give another folder, such as index.")
    if is_index(out) and not force:
        raise BadInput(
            f"{out / INDEX} already exists. Add photos with --add, replace the index with --force, or choose another "
            "folder with --out."
        )


def _extended(
    out: Path,
    content: Content,
    model: Model | Ensemble | OnnxModel,
    more: Sequence[Path | str],
    skip: Sequence[Path],
    progress: Progress,
) -> Added:
    """Write `content` with the rows of further photos into `out`."""
    homes = [(out / name).resolve() for name in content.facts["folders"]]
    homes += [home for home in dict.fromkeys(Path(one).resolve() for one in more) if not _within(home, homes)]
    photos = _photos(more, homes, set(skip))
    kept = {(one.folder, one.path): (one, position) for position, one in enumerate(content.items)}
    new = {key: (path, one) for key, (path, one) in photos.items() if not _is_known(one, kept)}
    if not new and not kept:
        raise BadInput("No image is left to index.")
    rows = remembered(model, [path for path, _ in new.values()], progress=progress)
    items = [one for key, (one, _) in kept.items() if key not in new] + [one for _, one in new.values()]
    positions = [position for key, (_, position) in kept.items() if key not in new]
    values = np.concatenate([content.stored.values[positions], packed(rows, content.stored.codes)])
    order = sorted(range(len(items)), key=lambda k: items[k].sort_key)
    stored = replace(content.stored, values=values[order])
    facts = {
        **{key: value for key, value in content.facts.items() if key not in ("files", "format")},
        "images": len(items),
        "folders": [relative(home, out) for home in homes],
    }
    if facts["approximate"] is not None:
        library = facts["approximate"]["library"]
        facts["approximate"] = {"library": library, **lost(graph_of(library, stored), stored)}
    write_folder(out, Content(facts, [items[k] for k in order], stored))
    if facts["approximate"] is not None and new:
        forget_graph(library, content.stored)
    changed = len(new.keys() & kept.keys())
    return Added(Index.open(out), len(new) - changed, changed, len(photos) - len(new))


def _photos(more: Sequence[Path | str], homes: list[Path], skip: set[Path]) -> dict[tuple[int, str], tuple[Path, Item]]:
    """Each photo with its entry. Photos and sub-folders that are links keep their own names."""
    photos: dict[tuple[int, str], tuple[Path, Item]] = {}
    for folder in map(Path, more):
        real = folder.resolve()
        for path in photos_of([folder]):
            if path not in skip:
                one = _item(path, real / path.relative_to(folder), homes)
                photos[one.folder, one.path] = path, one
    return photos


def _item(path: Path, absolute: Path, homes: list[Path]) -> Item:
    """The entry of a photo with this absolute path: below the first folder of the index that contains it."""
    number = next(number for number, home in enumerate(homes) if absolute.is_relative_to(home))
    inside = absolute.relative_to(homes[number])
    return Item(inside.as_posix(), inside.parts[0] if len(inside.parts) > 1 else "", number, file_digest(path))


def _is_known(one: Item, kept: Mapping[tuple[int, str], tuple[Item, int]]) -> bool:
    known = kept.get((one.folder, one.path))
    return known is not None and known[0].digest == one.digest


def _within(path: Path, homes: list[Path]) -> bool:
    return any(path.is_relative_to(home) for home in homes)


def _codes(model: Model | Ensemble | OnnxModel) -> str:
    """`binary` if every number of a row is 1 or -1, before it is divided by the row's length."""
    codes = model.codes if isinstance(model, OnnxModel) else getattr(getattr(model, "embedder", None), "codes", FLOAT)
    return BINARY if codes == BINARY else FLOAT


def _shown(path: Path) -> Path:
    """A path for people: relative to the working directory if it is below it."""
    real = path.resolve()
    return Path(os.path.relpath(real)) if real.is_relative_to(Path.cwd().resolve()) else real
