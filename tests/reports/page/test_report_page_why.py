"""Regions of real models: stored embeddings, explained cell by cell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from looked_at import draw
from torch import nn

from levelfield.embedder import Embedder, Head, Model, Trunk, backbones, load, save_model
from levelfield.reports.page.image_set import ImageSet
from levelfield.reports.page.sections.neighbour_lists import search
from levelfield.reports.page.sections.regions import QUERIES, Subject, why
from levelfield.studies.runs.folder.files import write_training

LABELS = np.repeat(np.arange(5), 4)
VIEW = {"image": 32, "mean": (0.5,) * 3, "std": (0.5,) * 3}


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> ImageSet:
    paths = draw(tmp_path_factory.mktemp("photos"), LABELS)
    return ImageSet(paths, [f"class {number}" for number in range(5)], LABELS)


def subject(folder: Path, images: ImageSet, number: int, *, refined: str = "", **settings: object) -> Subject:
    """A method whose run has a model with random weights, and what it finds."""
    pooling = str(settings.pop("pooling", "grid"))
    codes = str(settings.pop("codes", "float32"))
    plain = bool(settings.pop("plain", False))
    trunk = Trunk(backbones.create("test_resnet", weights="random"), cut="frozen", pooling=pooling, image=32)
    head = nn.Identity() if plain else Head(trunk.width, 4, **settings)  # type: ignore[arg-type]
    save_model(folder, Embedder(trunk, head, codes=codes), VIEW)
    summary = {"step": 5, "seconds": 2.5, "collapsed": False, "idle_batches": 0}
    write_training(folder, {"summary": summary, "deviations": [], "measured": {"dim": 4, "refined": refined}})
    model = load(folder)
    assert isinstance(model, Model)
    found = search(model.embed(images.paths), images)
    assert found is not None
    return Subject(number, f"method {number}", folder, not plain, found)


def test_the_cells_of_a_stored_model_sum_to_the_cosine_that_the_search_found(tmp_path: Path, images: ImageSet) -> None:
    methods = [
        subject(tmp_path / "grid", images, 0),
        subject(tmp_path / "average", images, 1, pooling="average"),
        subject(tmp_path / "features", images, 2, plain=True),
    ]
    made = why(methods, images, lost=[])
    assert made is not None
    assert len(made.queries) == QUERIES
    assert len(made.maps) == 3 * QUERIES
    for one in made.maps:
        found = methods[one.method].result
        assert one.exact
        assert found.neighbours[one.image, 0] == one.neighbour
        assert one.cosine == pytest.approx(found.similarity[one.image, 0], abs=1e-4)
        assert one.query_map.sum() == pytest.approx(one.cosine, abs=1e-4)
        assert one.neighbour_map.sum() == pytest.approx(one.cosine, abs=1e-4)
        assert 0 <= one.activation.min() <= one.activation.max() <= 1


def test_approximations_and_what_cannot_be_explained_are_named(tmp_path: Path, images: ImageSet) -> None:
    methods = [
        subject(tmp_path / "normed", images, 0, layer_norm="plain"),
        subject(tmp_path / "refined", images, 1, refined="reciprocal"),
        subject(tmp_path / "bits", images, 2, codes="binary"),
    ]
    made = why(methods, images, lost=[])
    assert made is not None
    assert not any(one.exact for one in made.maps)
    texts = {one.method: one.text for one in made.maps}
    assert texts[0] == "An approximation: the head's layer norm is treated as a constant."
    assert "refinement at test time (reciprocal)" in texts[1]
    assert made.notes == ["method 2: its embeddings are bits, which are no sum over cells."]


def test_lost_images_are_not_explained(tmp_path: Path, images: ImageSet) -> None:
    lost = list(range(0, 20, 2))
    made = why([subject(tmp_path / "run", images, 0)], images, lost)
    assert made is not None
    shown = {image for one in made.maps for image in (one.image, one.neighbour)}
    assert not shown & set(lost)
    assert why([subject(tmp_path / "run", images, 0)], images, list(range(20))) is None
