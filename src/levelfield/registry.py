"""Registries of parts, and the ways to name a part: by its name, `file.py:Name` or `pml:Name`."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from levelfield.errors import BadInput, LevelfieldError, import_extra, unknown
from levelfield.index import modules_of, registered
from levelfield.trust import permitted

T = TypeVar("T")
Entry = TypeVar("Entry", bound=Callable[..., Any])
_OF_FILES = "levelfield_user_"
_ASKED = re.compile(r"(@\d+)?(\[[^\[\]]*\])?$")  # suffix of a metric's name: @K and [form]


class Registry(Generic[T]):
    """Mapping from names to parts, read by tests, docs and `levelfield list`.

    home: the package whose public files register the parts of this kind; new files are found automatically. A part
    that the index knows is looked up by importing its file alone.

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

    def __init__(self, kind: str, plural: str, *, home: str | None = None) -> None:
        self.kind = kind
        self.plural = plural
        self.home = home
        self._entries: dict[str, Callable[..., T]] = {}
        self._facts: dict[str, Any] = {}
        self._imported = home is None

    def register(self, name: str, facts: Any = None) -> Callable[[Entry], Entry]:
        """Decorator: register a class or function under `name` with its `facts`."""

        def enter(entry: Entry) -> Entry:
            known = self._entries.get(name, entry)
            if known is not entry and not _is_of_a_file(known):  # an edited file registers again
                raise LevelfieldError(f"The {self.kind} '{name}' is registered twice.")
            self._entries[name] = entry
            self._facts[name] = facts
            return entry

        return enter

    def names(self) -> list[str]:
        """All names, sorted."""
        self.import_home()
        load_plugins()
        return sorted(self._entries)

    def get(self, name: str) -> Callable[..., T]:
        """The part registered as `name`, or loaded from the user's file with `my_parts.py:Name`."""
        entry = self._entries.get(name)
        if entry is None and is_file_reference(name):
            entry = load_from_file(name)
        if entry is None and name not in self:
            raise unknown(self.kind, name, self._entries, see=f"levelfield list {self.plural}")
        return self._entries[name] if entry is None else entry

    def facts(self, name: str) -> Any:
        """The facts registered with `name`; None for an unregistered part of a user's file."""
        if name in self._facts:
            return self._facts[name]
        entry = self.get(name)
        return next((self._facts[known] for known, other in self._entries.items() if other is entry), None)

    def is_plugin(self, name: str) -> bool:
        """Whether a package other than levelfield registered `name`."""
        return name in self and not (self._entries[name].__module__ or "").startswith("levelfield.")

    def __contains__(self, name: object) -> bool:
        """Whether `name` is registered; plugins are loaded only if levelfield itself does not have it."""
        if name not in self._entries and (module := registered(self.kind).get(str(name))) is not None:
            importlib.import_module(module)
        for search in (self.import_home, load_plugins):
            if name not in self._entries:
                search()
        return name in self._entries

    def import_home(self) -> None:
        """Import the files of the home package, which register their parts."""
        if self.home is not None and not self._imported:
            for module in modules_of(self.home):
                importlib.import_module(module)
            self._imported = True


@cache
def load_plugins() -> None:
    """Import the entry points of the group `levelfield` from installed packages, which register their parts.

    Packages in the working directory do not count as installed, even if that directory is on Python's path.
    """
    here = os.path.realpath(os.curdir)
    installed = [folder for folder in sys.path if folder and os.path.realpath(folder) != here]
    for package in distributions(path=installed):
        for point in package.entry_points.select(group="levelfield"):
            try:
                point.load()
            except Exception as error:  # third-party code can raise anything
                named = f"The installed package '{package.name}' registers '{point.value}' with levelfield"
                raise BadInput(f"{named}, which cannot be loaded: {type(error).__name__}: {error}") from error


def is_file_reference(name: str) -> bool:
    """Whether `name` refers to a Python file, such as `my_losses.py:MyLoss`.

    >>> is_file_reference("my_losses.py:MyLoss"), is_file_reference("margin")
    (True, False)
    """
    return ".py:" in name


def short_name(name: str) -> str:
    """Name of a part in file names and columns; for `my_parts.py:Name` the last part.

    >>> short_name("folder/my_figures.py:spread"), short_name("cost")
    ('spread', 'cost')
    """
    if not is_file_reference(name):
        return name
    short = name.rpartition(":")[2]
    if not short.isidentifier():
        raise BadInput(f"'{name}' is not a Python name; use the form FILE.py:Name.")
    return short


def code_of(part: Any) -> str:
    """Digest of the user's file that defines a part; empty for parts of levelfield and plugins."""
    return part.__module__.rpartition("_")[2] if _is_of_a_file(part) else ""


def _is_of_a_file(part: Any) -> bool:
    return (getattr(part, "__module__", None) or "").startswith(_OF_FILES)


def references_in(content: Any) -> Iterator[str]:
    """Every `file.py:Name` in nested plain data, such as a study.

    >>> list(references_in({"methods": ["margin", {"drml": {"objective": "my_losses.py:MyLoss"}}]}))
    ['my_losses.py:MyLoss']
    >>> list(references_in(["recall@1", "my_metrics.py:hits@10"]))
    ['my_metrics.py:hits']
    """
    if isinstance(content, str):
        if is_file_reference(content):
            yield _ASKED.sub("", content)
    elif isinstance(content, Mapping):
        for item in content.items():
            yield from references_in(item)
    elif isinstance(content, list | tuple):
        for item in content:
            yield from references_in(item)


def load_from_file(reference: str) -> Any:
    """Load the object `path/to/file.py:Name`. This runs the file (once), so it must be trusted."""
    path, own_only = permitted(reference)
    path_text, _, name = reference.rpartition(":")
    if not path.is_file():
        raise BadInput(f"The file {path_text} of '{reference}' does not exist.")
    module = _module(path, path_text)
    if not hasattr(module, name):
        raise unknown(f"name in {path_text}", name, [n for n in vars(module) if not n.startswith("_")])
    component = getattr(module, name)
    if not callable(component):
        raise BadInput(f"'{reference}' is {component!r}; expected a class or a function.")
    if own_only and getattr(component, "__module__", None) != module.__name__:
        raise BadInput(f"'{reference}' is imported into {path_text}, not defined there; name the file that defines it.")
    return component


def _module(path: Path, path_text: str) -> ModuleType:
    """Run a file as a module, once per content. Its folder is not added to the module path."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadInput(f"Cannot read {path_text}: {error.strerror or error}.") from error
    digest = hashlib.blake2b(os.fsencode(path) + b"\0" + content, digest_size=6).hexdigest()
    module_name = f"{_OF_FILES}{path.stem}_{digest}"
    if module_name in sys.modules:
        return sys.modules[module_name]
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise BadInput(f"{path_text} cannot be read as a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # third-party code can raise anything
        del sys.modules[module_name]
        message = f"{type(error).__name__}: {error}"
        raise BadInput(f"{path_text} cannot be run: {message} (for the traceback: levelfield -v).") from error
    return module


def is_pml_reference(name: str) -> bool:
    """Whether `name` refers to pytorch-metric-learning, such as `pml:CircleLoss`.

    >>> is_pml_reference("pml:CircleLoss"), is_pml_reference("margin")
    (True, False)
    """
    return name.startswith("pml:")


def load_from_pml(reference: str, room: str) -> Any:
    """The class `pml:Name` in the module `room` ("losses", "miners", ...) of pytorch-metric-learning."""
    module = import_extra(f"pytorch_metric_learning.{room}", "pml", f"'{reference}' needs pytorch-metric-learning")
    names = [name for name, value in vars(module).items() if isinstance(value, type) and not name.startswith("_")]
    name = reference.removeprefix("pml:")
    if name not in names:
        raise unknown(f"name in pytorch_metric_learning.{room}", name, names)
    return getattr(module, name)
