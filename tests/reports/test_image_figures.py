"""Figures with images: which queries, neighbours and regions they show, on images that the test draws."""

from __future__ import annotations

from pathlib import Path

import matplotlib.figure
import numpy as np
import pytest
from made_runs import CLASSES, EACH, LABELS, Figures, class_means, embed, gathered, planned, trained_board, write_run
from matplotlib.colors import to_rgba
from matplotlib.patches import Rectangle
from PIL import Image

from levelfield.data import corruptions
from levelfield.errors import BadInput
from levelfield.reports.figures import draw_figures
from levelfield.reports.figures._images import Pictured, pictured, square
from levelfield.reports.figures._rows import Drawn, drawn
from levelfield.reports.figures.corrupted_images import draw_corrupted
from levelfield.reports.figures.image_map import _regions, chosen_sets, draw_class_map, draw_map, placed
from levelfield.reports.figures.retrieved import RIGHT, WRONG, chosen_queries, draw_gallery
from levelfield.reports.page.image_set import ImageSet

NAMES = ["<b>$x$</b>", "שלום", "🙂", "a very long name of a class " * 10, *(f"class {k}" for k in range(CLASSES))]


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A plain square in the colour of each class."""
    folder = tmp_path_factory.mktemp("images")
    paths = [folder / f"{number}.png" for number in range(len(LABELS))]
    for number, path in enumerate(paths):
        colour = (5 * int(LABELS[number]), 200 - 3 * int(LABELS[number]), 10 * (number % EACH))
        Image.new("RGB", (24, 16 + number % 3), colour).save(path)
    return [str(path) for path in paths]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory, images: list[str]) -> list[Drawn]:
    """Two trained rows and two that train nothing; the embeddings of better rows have less noise."""
    runs, folder = planned(["margin", "triplet", "untrained", "lda"], seeds=1), tmp_path_factory.mktemp("study")
    for number, run in enumerate(runs):
        place = write_run(run, folder, class_means(0.9 - 0.1 * number))
        centres = np.random.default_rng(0).normal(size=(CLASSES, 8))[LABELS]
        noise = np.random.default_rng(1).normal(size=centres.shape)
        embed(place, centres + (0.2 + 0.25 * number) * noise, [NAMES[k] for k in LABELS], images)
    return drawn(gathered(runs, folder), runs, folder)


def made(right: dict[str, np.ndarray], codes: np.ndarray) -> Pictured:
    """Rows for which the nearest image of a query is of its class, or not, as given."""
    embeddings = {}
    for label, good in right.items():
        away = np.eye(12)[(codes + 6) % 12] + 0.1 * np.eye(12)[codes]  # near to another class
        embeddings[label] = np.where(good[:, None], np.eye(12)[codes], away)
    return Pictured(ImageSet([Path("gone.png")] * len(codes), NAMES, codes), embeddings, "cosine")


def frames(figure: matplotlib.figure.Figure, colour: str) -> int:
    patches = [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]
    return sum(patch.get_edgecolor() == to_rgba(colour) for patch in patches)


def test_half_of_the_queries_are_those_where_rows_disagree() -> None:
    codes = np.repeat(np.arange(12), 3)
    one = np.ones(36, bool)
    other = one.copy()
    other[[4, 16, 29]] = False  # single images that the second row moves away from their class
    chosen = chosen_queries(made({"a": one, "b": other}, codes))
    assert sorted(chosen[:3]) == [4, 16, 29]
    assert len(set(codes[chosen])) == 6
    assert np.array_equal(chosen, chosen_queries(made({"a": one, "b": other}, codes)))


def test_a_gallery_with_fewer_images_or_classes_shows_what_there_is() -> None:
    codes = np.array([0, 0, 1, 1, 2])
    shown = made({"a": np.ones(5, bool)}, codes)
    assert sorted(chosen_queries(shown)) == [0, 1, 2, 3]  # the only image of class 2 has nothing to find
    assert shown.nearest("a", np.array([0, 3]), 8).shape == (2, 4)
    with pytest.raises(BadInput, match="another image of its class"):
        chosen_queries(made({"a": np.ones(2, bool)}, np.array([0, 1])))


def test_queries_search_the_gallery_only() -> None:
    codes = np.array([0, 0, 0, 1, 1, 1])
    asked = np.array([True, False, False, True, False, False])
    shown = made({"a": np.ones(6, bool)}, codes)
    shown = Pictured(ImageSet(shown.images.paths, NAMES, codes, asked), shown.embeddings, "cosine")
    assert shown.answerable().tolist() == [0, 3]
    assert sorted(shown.nearest("a", np.array([0]), 4)[0]) == [1, 2, 4, 5]


def test_the_gallery_has_a_marked_frame_for_every_neighbour(rows: list[Drawn], tmp_path: Path, shown: Figures) -> None:
    draw_gallery(rows, "recall@1", tmp_path / "gallery.png")
    (figure,) = shown
    right, wrong = frames(figure, RIGHT), frames(figure, WRONG)
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert right + wrong == 6 * 4 * 4  # queries, rows, neighbours
    assert (texts.count("✓"), texts.count("✗")) == (right, wrong)
    assert min(right, wrong) > 0
    dashed = [
        patch for patch in figure.axes[0].patches if patch.get_linestyle() != "-" and isinstance(patch, Rectangle)
    ]
    assert len(dashed) >= wrong


def test_the_best_rows_and_the_best_untrained_row_are_shown(tmp_path: Path) -> None:
    runs = planned(["margin", "triplet", "contrastive", "multi_similarity", "untrained", "lda"], seeds=1)
    board = trained_board(list(reversed(runs)), tmp_path, untrained=("lda", "untrained"))
    rows = pictured(drawn(board, runs, tmp_path), "recall@1", "map").embeddings
    assert list(rows) == ["margin", "triplet", "contrastive", "untrained"]


def test_image_figures_are_written_for_print_also_if_all_images_are_gone(tmp_path: Path) -> None:
    runs = planned(["margin", "lda"], seeds=1)
    board = trained_board(runs, tmp_path)
    for name, start in (("gallery.svg", b"<?xml"), ("map.pdf", b"%PDF")):
        (path,) = draw_figures([name], board, runs, tmp_path)
        assert path == tmp_path / name
        assert path.read_bytes().startswith(start)
    (path,) = draw_figures(["gallery"], board, runs, tmp_path)
    with Image.open(path) as image:
        assert image.mode == "P"  # few colours, on white
        assert image.convert("RGB").getpixel((0, 0)) == (255, 255, 255)
        assert image.info["dpi"] == pytest.approx((200, 200), abs=0.1)


def test_the_map_shows_images_and_two_regions(rows: list[Drawn], tmp_path: Path, shown: Figures) -> None:
    draw_map(rows, "recall@1", tmp_path / "map.png")
    (figure,) = shown
    titles = [axis.get_title() for axis in figure.axes]
    assert titles[::3] == ["margin", "triplet", "untrained", "lda"]
    assert all(title.startswith("most images: ") for title in titles[1::3])
    for axis in figure.axes[::3]:
        assert len(axis.collections[0].get_offsets()) == len(LABELS)  # a dot for every image
        assert (np.asarray(axis.images[0].get_array())[..., 3] == 255).any()


def test_a_class_map_colours_three_sets_of_ten_classes(rows: list[Drawn], tmp_path: Path, shown: Figures) -> None:
    sets = chosen_sets(CLASSES)
    assert len(set(np.concatenate(sets).tolist())) == 30
    draw_class_map(rows, "recall@1", tmp_path / "class-map.png")
    panels = [axis for axis in shown[0].axes if axis.collections]
    assert len(panels) == 4 * 3  # rows, sets
    names = sorted(set(NAMES[:CLASSES]))  # in the order of their codes
    for axis, classes in zip(panels[:3], sets, strict=True):
        grey, *coloured = axis.collections
        assert len(grey.get_offsets()) == len(LABELS)
        assert [len(one.get_offsets()) for one in coloured] == [EACH] * 10
        first = np.flatnonzero(np.array([NAMES[k] for k in LABELS]) == names[classes[0]])
        assert np.array_equal(coloured[0].get_offsets(), grey.get_offsets()[first])


def test_a_sheet_shows_a_test_image_under_every_corruption(rows: list[Drawn], tmp_path: Path, shown: Figures) -> None:
    draw_corrupted(rows, "recall@1", tmp_path / "corruptions.png")
    titles = [axis.get_title() for axis in shown[0].axes if axis.images]
    assert titles == ["image", *(name.replace("_", " ") for name in corruptions.names())]


def test_a_missing_image_is_a_grey_square(images: list[str], tmp_path: Path) -> None:
    there, gone = square(Path(images[0]), 32), square(tmp_path / "gone.png", 32)
    (tmp_path / "text.png").write_text("no image")
    assert there.shape == gone.shape == (32, 32, 3)
    assert (gone[0, 0] == 214).all()
    assert np.array_equal(gone, square(tmp_path / "text.png", 32))
    assert (there[0] == 255).all()  # white above a wide image
    assert (there[16] == (0, 200, 0)).all()  # enlarged to the whole width


def test_runs_without_embeddings_have_no_image_figure(tmp_path: Path) -> None:
    runs = planned(["margin"], seeds=1)
    write_run(runs[0], tmp_path, class_means(0.5))
    board = gathered(runs, tmp_path)
    for name in ("gallery", "map"):
        with pytest.raises(BadInput, match=f"'{name}' needs a finished run with test embeddings. .* has no test"):
            draw_figures([name], board, runs, tmp_path)


def test_placed_images_do_not_overlap_and_are_near_their_points() -> None:
    points = np.random.default_rng(0).uniform(0, 8, size=(300, 2))
    kept, centres = placed(points, 8)
    apart = np.abs(centres[:, None] - centres).max(axis=2)
    np.fill_diagonal(apart, np.inf)
    assert apart.min() >= 1
    assert centres.min() >= 0.5
    assert centres.max() <= 7.5
    assert np.abs(points[kept] - centres).max() <= 1.2
    assert len(kept) > 25


def test_regions_are_where_most_images_and_most_mistakes_are() -> None:
    stream = np.random.default_rng(0)
    crowd, errors = stream.normal((0.3, 0.3), 0.02, (80, 2)), stream.normal((0.7, 0.8), 0.02, (40, 2))
    dense, wrong = _regions(np.concatenate((crowd, errors)), np.arange(120) >= 80)
    assert dense.holds(crowd).mean() > 0.9
    assert wrong.holds(errors).mean() > 0.9
    assert (dense.text, wrong.text.partition(":")[0]) == (f"most images: {dense.holds(crowd).sum()}", "most mistakes")
    assert len(_regions(crowd, np.zeros(80, bool))) == 1  # no mistakes
