"""Writes into each room that finds its files by itself the imports that type checkers and editors read: `make docs`.

At run time a room offers every class of its public files. A type checker runs nothing, so it reads a block that
begins with `if TYPE_CHECKING:  # written by make docs`; what the block imports is replaced.
"""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"(?<=\nif TYPE_CHECKING:  # written by make docs\n)(?: +.*\n)*")


def rooms() -> dict[Path, str]:
    """Every `__init__.py` with such a block, as it should be."""
    found = {}
    for path in sorted((ROOT / "src" / "levelfield").rglob("__init__.py")):
        text = path.read_text(encoding="utf-8")
        if _BLOCK.search(text):
            room = importlib.import_module(".".join(path.parent.relative_to(ROOT / "src").parts))
            found[path] = _BLOCK.sub("".join(_imports(room, text)), text)
    return found


def _imports(room: ModuleType, text: str) -> list[str]:
    """`    from ROOM.FILE import Name as Name`: all public names of the room that its text does not list."""
    listed = _literal_all(text)
    homes = {name: getattr(room, name).__module__ for name in room.__all__ if name not in listed}
    return [f"    from {homes[name]} import {name} as {name}\n" for name in sorted(homes, key=lambda n: (homes[n], n))]


def _literal_all(text: str) -> set[str]:
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


if __name__ == "__main__":
    for path, text in rooms().items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
