"""The index of names: which file registers each part, and which file defines each public name of a package.

`make tables` writes `index.json` from the registries and packages (`written_index`), and a test compares the two. It is
read without importing torch or any room.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("index.json")


@cache
def registered(kind: str) -> Mapping[str, str]:
    """The module that registers each name of a kind; empty if files were added to or removed from its package since.

    >>> registered("objective")["margin"]
    'levelfield.objectives.margin'
    """
    modules: dict[str, list[str]] = _content()["registered"].get(kind, {})
    homes = {module.rpartition(".")[0] for module in modules}
    if set(modules) != {module for home in homes for module in modules_of(home)}:
        return {}
    return {name: module for module, names in modules.items() for name in names}


def modules_of(package: str) -> list[str]:
    """The public modules of a package of levelfield, which is not imported.

    >>> modules_of("levelfield.data.corruptions")
    ['levelfield.data.corruptions.lim2022']
    """
    files = FILE.parent.joinpath(*package.split(".")[1:]).glob("*.py")
    return sorted(f"{package}.{file.stem}" for file in files if not file.name.startswith("_"))


def lazy(package: str) -> tuple[list[str], Callable[[str], Any]]:
    """`__all__` and `__getattr__` of a package whose public names are imported on first use.

    >>> names, get = lazy("levelfield.studies")
    >>> "Study" in names, get("Study").__module__
    (True, 'levelfield.studies.specification.study')
    """
    exported: dict[str, str] = _content()["exported"][package]

    def get(name: str) -> Any:
        if name not in exported:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        module, _, attribute = exported[name].partition(":")
        imported = importlib.import_module(module)
        return getattr(imported, attribute) if attribute else imported

    return list(exported), get


@cache
def _content() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return content
