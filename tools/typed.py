"""Writes the index of names (`src/levelfield/index.json`) and the imports that type checkers read: `make tables`.

Packages import their public names on first use. A type checker runs nothing, so it reads the imports below `if
TYPE_CHECKING:`. In a package whose files register parts, they have a block of their own, marked `# written by make
tables`.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

SRC = Path(__file__).parents[1] / "src"
INDEX = SRC / "levelfield" / "index.json"
_BLOCK = re.compile(r"(?<=\nif TYPE_CHECKING:  # written by make tables\n)(?: +.*\n)*")
_LAZY = "lazy(__name__)"
ROOMS = (  # the modules that have registries
    "levelfield.objectives._contract",
    "levelfield.miners._contract",
    "levelfield.batching._registry",
    "levelfield.methods._contract",
    "levelfield.evaluation.metrics.registry",
    "levelfield.data._registry",
    "levelfield.data.protocols._registry",
    "levelfield.data.corruptions._registry",
    "levelfield.embedder.networks._registry",
    "levelfield.reports.figures._registry",
)


def written() -> dict[Path, str]:
    """Every generated file, as it should be: the packages with a generated block, and the index."""
    packages = {path: _BLOCK.sub(_class_imports(_name(path)), text) for path, text in lazy_packages().items()}
    registered = {kind: _registered(registry) for kind, registry in registries().items()}
    return {**packages, INDEX: index(packages, registered)}


@cache
def registries() -> dict[str, Any]:
    """All registries by the kind of their parts. Imports every room."""
    from levelfield.registry import Registry

    values = [value for room in ROOMS for value in vars(importlib.import_module(room)).values()]
    return {value.kind: value for value in values if isinstance(value, Registry)}


def lazy_packages() -> dict[Path, str]:
    """The packages that import their public names on first use, and their text."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted((SRC / "levelfield").rglob("__init__.py"))}
    return {path: text for path, text in texts.items() if _LAZY in text}


def index(packages: dict[Path, str], registered: dict[str, Any]) -> str:
    """The index, with one line for each file and each public name."""
    exported = {_name(path): _exported(text) for path, text in packages.items()}
    text = json.dumps({"registered": registered, "exported": exported}, indent=1)
    return re.sub(r"\[[^\]]*\]", lambda names: json.dumps(json.loads(names[0])), text) + "\n"


def _registered(registry: Any) -> dict[str, list[str]]:
    """The names that each file of the registry's home package registers."""
    from levelfield.index import modules_of

    modules: dict[str, list[str]] = {module: [] for module in modules_of(registry.home or "")}
    for name in registry.names():
        modules.get(registry.get(name).__module__, []).append(name)
    return modules


def _name(path: Path) -> str:
    return ".".join(path.parent.relative_to(SRC).parts)


def _class_imports(package: str) -> str:
    """`    from PACKAGE.FILE import Name as Name` for every registered class of a package."""
    registry = next((one for one in registries().values() if one.home == package), None)
    registered = {} if registry is None else _registered(registry)
    parts = [registry.get(name) for names in registered.values() for name in names]
    classes = sorted({(part.__module__, part.__name__) for part in parts if isinstance(part, type)})
    return "".join(f"    from {module} import {name} as {name}\n" for module, name in classes)


def _exported(text: str) -> dict[str, str]:
    """`module:name`, or a module, of each name that a package imports for type checkers."""
    exported = {"__version__": "levelfield:__version__"} if "__version__" in text else {}
    blocks = [node.body for node in ast.parse(text).body if isinstance(node, ast.If) and _is_for_checkers(node)]
    for node in chain.from_iterable(blocks):
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            below = SRC.joinpath(*str(node.module).split("."), alias.name)
            is_module = below.is_dir() or below.with_suffix(".py").exists()
            exported[alias.name] = f"{node.module}.{alias.name}" if is_module else f"{node.module}:{alias.name}"
    return dict(sorted(exported.items()))


def _is_for_checkers(node: ast.If) -> bool:
    return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


if __name__ == "__main__":
    INDEX.write_text(index(lazy_packages(), {}), encoding="utf-8")  # no package can be imported without one
    for path, text in written().items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(SRC.parent)}")
