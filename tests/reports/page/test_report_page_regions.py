"""The cosine of two embeddings is the sum over the cells of either image: for any head, and for stored models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from looked_at import draw
from torch import Tensor, nn
from torch.nn import functional

from levelfield.embedder import Embedder, Head, Trunk, backbones, load, save_model
from levelfield.embedder.trunk.pooling import pool
from levelfield.reports.page.image_set import ImageSet
from levelfield.reports.page.neighbour_lists import EmbeddedRow, SearchResult, search
from levelfield.reports.page.regions import QUERIES, Linear, cells_of, enlarged, explain_pairs
from levelfield.studies.runs.folder.files import write_training

LABELS = np.repeat(np.arange(5), 4)
VIEW = {"image": 32, "mean": (0.5,) * 3, "std": (0.5,) * 3}


def taps(seed: int) -> list[Tensor]:
    """Two taps of different resolution."""
    random = torch.Generator().manual_seed(seed)
    return [torch.randn(3, 4, 4, generator=random), torch.randn(5, 2, 2, generator=random)]


def row(maps: list[Tensor], how: Linear) -> np.ndarray:
    """The embedding as the network computes it."""
    taps = [pool(tap[None].double(), how.pooling) for tap in maps]
    taps = [functional.normalize(tap, dim=1) for tap in taps] if how.normalize_taps else taps
    features = torch.cat(taps, dim=1)
    found: np.ndarray = how.head(features)[0].detach().numpy()
    return found


def head(pooling: str, **settings: object) -> Head:
    made = Head(8 if pooling != "grid" else 3 * 16 + 5 * 4, 6, **settings).double()  # type: ignore[arg-type]
    with torch.no_grad():
        made.linear.bias.normal_(generator=torch.Generator().manual_seed(1))
        if settings.get("layer_norm") == "affine":
            made.norm.weight.normal_(generator=torch.Generator().manual_seed(2))
            made.norm.bias.normal_(generator=torch.Generator().manual_seed(3))
    return made


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("pooling", ["average", "grid", "max", "average+max"])
@pytest.mark.parametrize(
    "settings", [None, {}, {"layer_norm": "plain"}, {"layer_norm": "affine"}, {"output_norm": True}]
)
def test_cells_sum_to_the_cosine(pooling: str, normalize: bool, settings: dict[str, object] | None) -> None:
    how = Linear(pooling, normalize, nn.Identity() if settings is None else head(pooling, **settings))
    first, second = row(taps(0), how), row(taps(1), how)
    cosine = first @ second / np.linalg.norm(first) / np.linalg.norm(second)
    cells = cells_of(taps(0), how, second)
    assert cells.shape == (4, 4)
    assert cells.sum() == pytest.approx(cosine, rel=1e-9)
    assert cells_of(taps(1), how, first).sum() == pytest.approx(cosine, rel=1e-9)
    assert (not how.caveats) == (pooling in ("average", "grid") and not settings)


def test_a_cell_of_average_pooling_is_the_embedding_of_that_cell_alone() -> None:
    how = Linear("average", False, head("average"))
    maps, toward = taps(0), row(taps(1), how)
    own = row(maps, how)
    nothing = [torch.zeros_like(tap) for tap in maps]
    blank = [torch.zeros_like(tap) for tap in maps]
    blank[0][:, 1, 2] = maps[0][:, 1, 2]
    alone = row(blank, how) - row(nothing, how)
    shared = alone @ toward / np.linalg.norm(own) / np.linalg.norm(toward)
    without_first = [nothing[0], maps[1]]
    rest = cells_of(without_first, how, toward) * np.linalg.norm(row(without_first, how))
    assert cells_of(maps, how, toward)[1, 2] == pytest.approx(shared + rest[1, 2] / np.linalg.norm(own), rel=1e-6)


def test_enlarging_keeps_the_sum_even_if_sizes_do_not_divide() -> None:
    made = enlarged(np.arange(9.0).reshape(3, 3), 7, 5)
    assert made.shape == (7, 5)
    assert made.sum() == pytest.approx(36.0)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> ImageSet:
    paths = draw(tmp_path_factory.mktemp("photos"), LABELS)
    return ImageSet(paths, [f"class {number}" for number in range(5)], LABELS)


def method(
    folder: Path, images: ImageSet, *, refined: str = "", pooling: str = "grid", codes: str = "float32", **settings: Any
) -> tuple[EmbeddedRow, SearchResult]:
    """A method whose run has a model with random weights, and what it finds."""
    plain = settings.pop("plain", False)
    trunk = Trunk(backbones.create("test_resnet", weights="random"), cut="frozen", pooling=pooling, image=32)
    head = nn.Identity() if plain else Head(trunk.width, 4, **settings)
    save_model(folder, Embedder(trunk, head, codes=codes), VIEW)
    summary = {"step": 5, "seconds": 2.5, "collapsed": False, "idle_batches": 0}
    write_training(folder, {"summary": summary, "deviations": [], "measured": {"dim": 4, "refined": refined}})
    model = load(folder)
    rows = model.embed(images.paths)
    found = search(rows, images)
    return EmbeddedRow(0, folder.name, rows, not plain, folder), found


def test_the_cells_of_a_stored_model_sum_to_the_cosine_that_the_search_found(tmp_path: Path, images: ImageSet) -> None:
    methods = [
        method(tmp_path / "grid", images),
        method(tmp_path / "average", images, pooling="average"),
        method(tmp_path / "features", images, plain=True),
    ]
    made = explain_pairs(methods, images, lost=[])
    assert len(made["queries"]) == QUERIES
    assert len(made["maps"]) == 3 * QUERIES
    for one in made["maps"]:
        found = methods[one["method"]][1]
        assert one["exact"]
        assert found.neighbours[one["image"], 0] == one["neighbour"]
        assert one["cosine"] == pytest.approx(found.similarity[one["image"], 0], abs=1e-4)
        assert one["query_map"].sum() == pytest.approx(one["cosine"], abs=1e-4)
        assert one["neighbour_map"].sum() == pytest.approx(one["cosine"], abs=1e-4)
        assert 0 <= one["activation"].min() <= one["activation"].max() <= 1
    lost = list(range(0, 20, 2))
    made = explain_pairs(methods[:1], images, lost)
    assert not {image for one in made["maps"] for image in (one["image"], one["neighbour"])} & set(lost)
    assert explain_pairs(methods[:1], images, list(range(20))) is None


def test_approximations_and_what_cannot_be_explained_are_named(tmp_path: Path, images: ImageSet) -> None:
    methods = [
        method(tmp_path / "normed", images, layer_norm="plain"),
        method(tmp_path / "refined", images, refined="reciprocal"),
        method(tmp_path / "bits", images, codes="binary"),
    ]
    made = explain_pairs(methods, images, lost=[])
    assert not any(one["exact"] for one in made["maps"])
    texts = {one["method"]: one["text"] for one in made["maps"]}
    assert texts[0] == "An approximation: the head's layer norm is treated as a constant."
    assert "refinement at test time (reciprocal)" in texts[1]
    assert made["notes"] == ["bits: its embeddings are bits, which are no sum over cells."]
