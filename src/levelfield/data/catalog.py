"""Catalog: the images of a dataset and their classes. Nothing is decoded."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np

from levelfield.errors import BadInput

PARTS = ("train", "validation", "test")
_OF_ROLE = {"train": "train", "query": "test", "gallery": "test"}
# Four readers hide the latency of slow disks; more would only compete for them.
_READERS = 4
_AT_ONCE = 100  # files that a reader takes: a task for each of a million files would need a gigabyte


@dataclass(frozen=True, eq=False)
class Catalog:
    """Images, their classes, and facts for protocols.

    Args:
        name: name of the dataset.
        paths: (images,) files.
        labels: (images,) int64, dense 0..C-1 in the order of `class_names`.
        class_names: (classes,).
        groups: (classes,) int64 or None. A protocol never divides a group between train and test.
        roles: (images,) `query`, `gallery`, `train` or empty; None if the data has no roles.
        notes: sentences about omitted or unusual data.
        class_ids: (classes,) official number or name of each class; None if there is none.
        split: (images,) official split `train`, `validation` or `test`; None if a protocol is free to divide.
        known_digests: content hash by path, of files that have been read.

    >>> catalog = Catalog("pets", (Path("a.png"), Path("b.png"), Path("c.png")), np.array([0, 1, 1]), ("cat", "dog"))
    >>> len(catalog), catalog.num_classes, catalog.class_sizes.tolist()
    (3, 2, [1, 2])
    >>> catalog.subset([2, 1]).class_names
    ('dog',)
    """

    name: str
    paths: tuple[Path, ...]
    labels: np.ndarray
    class_names: tuple[str, ...]
    groups: np.ndarray | None = None
    roles: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    class_ids: tuple[int | str, ...] | None = None
    split: tuple[str, ...] | None = None
    known_digests: Mapping[Path, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        labels = np.array(self.labels, dtype=np.int64)
        images, classes = len(self.paths), len(self.class_names)
        for what, values, expected, things in (
            ("labels", labels, images, "images"),
            ("roles", self.roles, images, "images"),
            ("entries of its split", self.split, images, "images"),
            ("class ids", self.class_ids, classes, "classes"),
            ("groups", self.groups, classes, "classes"),
        ):
            if values is not None and len(values) != expected:
                raise BadInput(
                    f"The dataset '{self.name}' has {expected} {things} but {len(values)} {what}; each needs one."
                )
        if not np.array_equal(np.unique(labels), np.arange(classes)):
            raise BadInput(
                f"The labels of '{self.name}' must be 0..{classes - 1}, one for each of its {classes} classes, and "
                "every class needs an image."
            )
        if unknown := set(self.split or ()) - set(PARTS):
            raise BadInput(
                f"The split of '{self.name}' must be one of {', '.join(PARTS)} for every image, not '{min(unknown)}'."
            )
        object.__setattr__(self, "labels", labels)
        if self.groups is not None:
            object.__setattr__(self, "groups", np.array(self.groups, dtype=np.int64))
        for array in (self.labels, self.groups):
            if array is not None:
                array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    @property
    def class_sizes(self) -> np.ndarray:
        """(classes,) int64: number of images of each class."""
        return np.bincount(self.labels, minlength=self.num_classes)

    @cached_property
    def parts(self) -> np.ndarray | None:
        """(images,) `train`, `validation` or `test`: the official split; None if there is none.

        Roles are a split if every image has one: `query` and `gallery` test.
        """
        if self.split is not None:
            return np.array(self.split)
        if self.roles is None or not set(self.roles) <= set(_OF_ROLE):
            return None
        return np.array([_OF_ROLE[role] for role in self.roles])

    @cached_property
    def digests(self) -> tuple[str, ...]:
        """Content hash of each file: equal files have equal digests, wherever they are. Files are read once."""
        unread = [path for path in self.paths if path not in self.known_digests]
        parts = [unread[k : k + _AT_ONCE] for k in range(0, len(unread), _AT_ONCE)]
        with ThreadPoolExecutor(_READERS) as readers:
            digests = chain.from_iterable(readers.map(lambda paths: [*map(file_digest, paths)], parts))
            known = {**self.known_digests, **dict(zip(unread, digests, strict=True))}
        object.__setattr__(self, "known_digests", known)  # also for copies and subsets
        return tuple(known[path] for path in self.paths)

    @cached_property
    def digest(self) -> str:
        """Identity of the catalog: classes, labels, groups, roles, split and file contents, but not file locations."""
        groups = None if self.groups is None else self.groups.tolist()
        content = (self.class_names, self.labels.tolist(), groups, self.roles, self.digests)
        text = repr(content if self.split is None else (*content, self.split))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def subset(self, indices: Sequence[int] | np.ndarray) -> Catalog:
        """The images at `indices`, in that order. Classes without an image are dropped; the others keep their order."""
        chosen = np.asarray(indices, dtype=np.int64)
        classes, labels = np.unique(self.labels[chosen], return_inverse=True)
        return replace(
            self,
            paths=tuple(self.paths[i] for i in chosen),
            labels=labels,
            class_names=tuple(self.class_names[c] for c in classes),
            groups=None if self.groups is None else self.groups[classes],
            roles=None if self.roles is None else tuple(self.roles[i] for i in chosen),
            class_ids=None if self.class_ids is None else tuple(self.class_ids[c] for c in classes),
            split=None if self.split is None else tuple(self.split[i] for i in chosen),
        )

    def with_notes(self, *notes: str) -> Catalog:
        """The same catalog with more notes."""
        return replace(self, notes=(*self.notes, *notes))


def file_digest(path: Path) -> str:
    """Hash of a file's content, 32 hexadecimal digits."""
    try:
        with open(path, "rb", buffering=0) as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError as error:
        raise BadInput(f"Cannot read {path}: {error.strerror or error}.") from error
