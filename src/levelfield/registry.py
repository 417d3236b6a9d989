"""One registry for objectives, miners, batchings, datasets, metrics, backbones and methods."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import distributions
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from levelfield.errors import BadInput, LevelfieldError, MissingExtra, unknown
from levelfield.trust import permitted

T = TypeVar("T")
Entry = TypeVar("Entry", bound=Callable[..., Any])


class Registry(Generic[T]):
    """Names and what they stand for. Tests, docs and `levelfield list` read it.

    >>> colours = Registry[int]("colour", "colours")
    >>> @colours.register("red")
    ... def red() -> int:
    ...     "The first colour."
    ...     return 1
    >>> colours.get("red")()
    1
    >>> colours.get("rad")
    Traceback (most recent call last):
    ...
    levelfield.errors.UnknownName: Unknown colour 'rad'. Did you mean 'red'? See `levelfield list colours`.
    """

    def __init__(self, kind: str, plural: str) -> None:
        self.kind = kind
        self.plural = plural
        self._entries: dict[str, Callable[..., T]] = {}
        self._facts: dict[str, Any] = {}
        self._plugins_loaded = False

    def register(self, name: str, facts: Any = None) -> Callable[[Entry], Entry]:
        """Decorator: enter a class or function under `name`, with `facts` as data beside it."""

        def enter(entry: Entry) -> Entry:
            if name in self._entries and self._entries[name] is not entry:
                raise LevelfieldError(f"The {self.kind} '{name}' is registered twice.")
            self._entries[name] = entry
            self._facts[name] = facts
            return entry

        return enter

    def names(self) -> list[str]:
        self._load_plugins()
        return sorted(self._entries)

    def get(self, name: str) -> Callable[..., T]:
        self._load_plugins()
        if name not in self._entries:
            raise unknown(self.kind, name, self._entries, see=f"levelfield list {self.plural}")
        return self._entries[name]

    def facts(self, name: str) -> Any:
        self.get(name)
        return self._facts[name]

    def is_plugin(self, name: str) -> bool:
        """Whether `name` is known and another package than levelfield entered it."""
        return name in self and not (self._entries[name].__module__ or "").startswith("levelfield.")

    def __contains__(self, name: object) -> bool:
        self._load_plugins()
        return name in self._entries

    def _load_plugins(self) -> None:
        """Import what installed packages offer under the entry point group `levelfield`; they register themselves.

        What lies in the working directory is not installed, even where Python looks for modules there.
        """
        if not self._plugins_loaded:
            self._plugins_loaded = True
            here = os.path.realpath(os.curdir)
            installed = [place for place in sys.path if place and os.path.realpath(place) != here]
            for package in distributions(path=installed):
                for point in package.entry_points.select(group="levelfield"):
                    point.load()


def is_file_reference(name: str) -> bool:
    """Whether `name` points into a Python file, as in `my_losses.py:MyLoss`.

    >>> is_file_reference("my_losses.py:MyLoss"), is_file_reference("margin")
    (True, False)
    """
    return ".py:" in name


def references_in(content: Any) -> Iterator[str]:
    """Every `file.py:Name` in plain data, such as a study's, wherever it is.

    >>> list(references_in({"methods": ["margin", {"drml": {"objective": "my_losses.py:MyLoss"}}]}))
    ['my_losses.py:MyLoss']
    """
    if isinstance(content, str) and is_file_reference(content):
        yield content
    elif isinstance(content, Mapping):
        for item in content.items():
            yield from references_in(list(item))
    elif isinstance(content, list | tuple):
        for item in content:
            yield from references_in(item)


def load_from_file(reference: str) -> Any:
    """The object that `path/to/file.py:Name` names. The file is run, once, so the user must have named it."""
    path, own_only = permitted(reference)
    path_text, _, name = reference.rpartition(":")
    if not path.is_file():
        raise BadInput(f"'{reference}' names the file {path_text}, which does not exist.")
    module = _module(path, path_text)
    if not hasattr(module, name):
        raise unknown(f"name in {path_text}", name, [n for n in vars(module) if not n.startswith("_")])
    found = getattr(module, name)
    if not callable(found):
        raise BadInput(f"'{reference}' is {found!r}; a class or a function is needed.")
    if own_only and getattr(found, "__module__", None) != module.__name__:
        raise BadInput(f"'{reference}' is not written in {path_text}, only imported there: it is not used.")
    return found


def _module(path: Path, path_text: str) -> ModuleType:
    """The file as a module, run once for each content. Its folder is not searched for further modules."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadInput(f"Cannot read {path_text}: {error.strerror or error}.") from error
    digest = hashlib.blake2b(os.fsencode(path) + b"\0" + content, digest_size=6).hexdigest()
    module_name = f"levelfield_user_{path.stem}_{digest}"
    if module_name in sys.modules:
        return sys.modules[module_name]
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise BadInput(f"{path_text} cannot be read as a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # somebody's own code may raise anything
        del sys.modules[module_name]
        told = f"{type(error).__name__}: {error}"
        raise BadInput(f"{path_text} cannot be run: {told} (levelfield -v shows where).") from error
    return module


def is_pml_reference(name: str) -> bool:
    """Whether `name` means a part of pytorch-metric-learning, as in `pml:CircleLoss`.

    >>> is_pml_reference("pml:CircleLoss"), is_pml_reference("margin")
    (True, False)
    """
    return name.startswith("pml:")


def load_from_pml(reference: str, room: str) -> Any:
    """The class that `pml:Name` names in `room` ("losses", "miners", ...) of pytorch-metric-learning."""
    try:
        found = importlib.import_module(f"pytorch_metric_learning.{room}")
    except ImportError as error:
        message = f"'{reference}' needs pytorch-metric-learning: pip install \"levelfield[pml]\""
        raise MissingExtra(message) from error
    names = [name for name, value in vars(found).items() if isinstance(value, type) and not name.startswith("_")]
    name = reference.removeprefix("pml:")
    if name not in names:
        raise unknown(f"name in pytorch_metric_learning.{room}", name, names)
    return getattr(found, name)
