"""Importing a loss imports no heavy scientific package, and no file uses a private part of a dependency."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import levelfield

HEAVY = ("timm", "torchvision", "PIL", "matplotlib", "sklearn", "numba")


def test_objectives_miners_and_geometry_import_nothing_heavy() -> None:
    rooms = "levelfield.objectives, levelfield.miners, levelfield.geometry"
    script = f"import sys, {rooms}; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_dir_shows_what_there_is_and_everything_it_shows_is_there() -> None:
    script = (
        "import sys, levelfield; names = dir(levelfield); heavy = 'torch' in sys.modules; "
        "print(heavy, *names); [getattr(levelfield, name) for name in names]; "
        "levelfield.miners.create('semihard'); levelfield.objectives.Margin"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    heavy, *names = done.stdout.split()
    assert heavy == "False"
    assert {"compare", "evaluate", "load", "miners", "objectives", "batching", "geometry", "testing"} <= set(names)
    assert not [name for name in names if name.startswith("_") and name != "__version__"]


def modules_of_others(tree: ast.Module) -> set[str]:
    """The names that a file gives to modules outside of levelfield."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname or alias.name for alias in node.names if not alias.name.startswith("levelfield")}
    return names


def private_parts(code: str) -> list[str]:
    """Private modules, names and attributes of other packages that a file imports or reads."""
    tree = ast.parse(code)
    modules = modules_of_others(tree)
    used = []
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.ImportFrom)
            and node.module
            and not node.module.startswith(("levelfield", "__future__"))
        ):
            used += [
                name for name in (*node.module.split("."), *(alias.name for alias in node.names)) if name[0] == "_"
            ]
        elif isinstance(node, ast.Attribute) and node.attr[0] == "_" and not node.attr.endswith("__"):
            owner = ast.unparse(node.value)
            if any(owner == name or owner.startswith(f"{name}.") for name in modules):
                used.append(f"{owner}.{node.attr}")
    return [name for name in used if name != "os._exit"]  # documented in spite of its name


def test_the_search_for_private_parts_sees_them() -> None:
    code = "import torch, os\nfrom torch._dynamo import config\ntorch._assert_async\nos._exit(1)\nself._own"
    assert private_parts(code) == ["_dynamo", "torch._assert_async"]


def test_no_private_part_of_a_dependency_is_used() -> None:
    source = Path(levelfield.__file__).parent
    files = {str(path.relative_to(source)): private_parts(path.read_text()) for path in source.rglob("*.py")}
    assert {name: parts for name, parts in files.items() if parts} == {}
