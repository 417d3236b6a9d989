"""Importing a loss must not import heavy scientific packages."""

from __future__ import annotations

import subprocess
import sys

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
