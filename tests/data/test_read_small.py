"""Small images for pages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from levelfield.data.files.images import read_small
from levelfield.errors import UnreadableImage


@pytest.mark.parametrize("suffix", ["jpg", "png"])
@pytest.mark.parametrize("size", [(900, 300), (30, 10), (64, 64)])
def test_the_longer_side_has_the_wanted_length(size: tuple[int, int], suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{suffix}"
    Image.new("RGB", size, (200, 40, 40)).save(path)
    small = read_small(path, 64)
    assert max(small.size) == 64
    assert small.width / small.height == pytest.approx(size[0] / size[1], rel=0.05)
    np.testing.assert_allclose(np.asarray(small).mean(axis=(0, 1)), (200, 40, 40), atol=4)


def test_a_damaged_image_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"no image")
    with pytest.raises(UnreadableImage, match="not a known image format"):
        read_small(tmp_path / "a.jpg", 64)
