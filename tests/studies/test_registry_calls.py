"""One run looks up few parts: names are resolved once, not string by string."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

from small_world import carry_out, make_photos, small_study

from levelfield.registry import Registry

LOOKUPS = {value.__code__ for value in vars(Registry).values() if hasattr(value, "__code__")}


def test_one_run_makes_fewer_than_100_calls_of_registries(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos")
    carry_out(small_study(photos, ["triplet"]), tmp_path / "first")  # imports
    calls = []

    def count(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code in LOOKUPS:
            calls.append(frame.f_code.co_name)

    sys.setprofile(count)
    try:
        carry_out(small_study(photos, ["contrastive"]), tmp_path / "second")
    finally:
        sys.setprofile(None)
    assert 0 < len(calls) < 100
