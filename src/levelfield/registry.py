"""One registry for objectives, miners, batchings, datasets, metrics, backbones and methods."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar

from levelfield.errors import BadInput, LevelfieldError, MissingExtra, unknown

T = TypeVar("T")


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

    def register(self, name: str, facts: Any = None) -> Callable[[Callable[..., T]], Callable[..., T]]:
        """Decorator: enter a class or function under `name`, with `facts` as data beside it."""

        def enter(entry: Callable[..., T]) -> Callable[..., T]:
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

    def __contains__(self, name: object) -> bool:
        self._load_plugins()
        return name in self._entries

    def _load_plugins(self) -> None:
        """Import what installed packages offer under the entry point group `levelfield`; they register themselves."""
        if not self._plugins_loaded:
            self._plugins_loaded = True
            for point in entry_points(group="levelfield"):
                point.load()


def is_file_reference(name: str) -> bool:
    """Whether `name` points into a Python file, as in `my_losses.py:MyLoss`.

    >>> is_file_reference("my_losses.py:MyLoss"), is_file_reference("margin")
    (True, False)
    """
    return ".py:" in name


def load_from_file(reference: str) -> Any:
    """The object that `path/to/file.py:Name` names. The file is run, so the user must have named it."""
    path_text, _, name = reference.rpartition(":")
    path = Path(path_text).expanduser().resolve()
    if not path.is_file():
        raise BadInput(f"'{reference}' names the file {path_text}, which does not exist.")
    module_name = f"levelfield_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise BadInput(f"{path_text} cannot be read as a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # somebody's own code may raise anything
        told = f"{type(error).__name__}: {error}"
        raise BadInput(f"{path_text} cannot be run: {told} (levelfield -v shows where).") from error
    if not hasattr(module, name):
        raise unknown(f"name in {path_text}", name, [n for n in vars(module) if not n.startswith("_")])
    found = getattr(module, name)
    if not callable(found):
        raise BadInput(f"'{reference}' is {found!r}; a class or a function is needed.")
    return found


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
