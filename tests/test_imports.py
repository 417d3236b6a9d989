"""A loss in somebody's loop must not bring half of the scientific world with it."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("timm", "torchvision", "PIL", "matplotlib", "sklearn", "numba")


def test_objectives_miners_and_geometry_import_nothing_heavy() -> None:
    rooms = "levelfield.objectives, levelfield.miners, levelfield.geometry"
    script = f"import sys, {rooms}; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
