"""Generated pictures, and the emoji decoded once for all tests."""

import numpy as np
import pytest
from PIL import Image

from levelfield import data


@pytest.fixture
def picture():
    """Makes smooth colourful RGB images, different for each seed."""

    def make(seed=0, size=(40, 30)):
        small = Image.fromarray(np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8))
        return small.resize(size, Image.Resampling.BICUBIC)

    return make


@pytest.fixture
def make_folder(tmp_path, picture):
    """Makes a folder below tmp_path with so many images in each sub-folder."""

    def make(name, sizes):
        root = tmp_path / name
        root.mkdir(exist_ok=True)
        for number, (place, count) in enumerate(sizes.items()):
            (root / place).mkdir(parents=True, exist_ok=True)
            for i in range(count):
                picture(100 * number + i).save(root / place / f"{i}.png")
        return root

    return make


@pytest.fixture
def pets(make_folder):
    return make_folder("pets", {"cat": 3, "dog": 2, "eel": 2, "fox": 4})


@pytest.fixture(scope="session")
def emoji_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def emoji(emoji_cache):
    return data.create("emoji", cache=emoji_cache)
