"""The page of `levelfield view` in a browser: full-size images, any query, and search with a dropped photo."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browsers import Opener
from drawn_images import drawing
from made_page import made
from playwright.sync_api import Page as Tab
from playwright.sync_api import Route, expect

import levelfield
from drawn_photos import make_photos
from levelfield.reports.page.content import Data
from levelfield.reports.page.image_set import ImageSet
from levelfield.reports.page.write import page_html, policy
from levelfield.reports.view.site import Searched, Site, read_site
from levelfield.studies.runs.finished import stored_test
from served import made_run, serving

DROP = """([bytes, name]) => {
  const data = new DataTransfer();
  data.items.add(new File([new Uint8Array(bytes)], name, {type: 'image/png'}));
  for (const kind of ['dragover', 'drop'])
    document.querySelector('.photo').dispatchEvent(
      new DragEvent(kind, {dataTransfer: data, bubbles: true, cancelable: true}));
}"""


def photo() -> bytes:
    content = io.BytesIO()
    drawing(1, np.random.default_rng(0)).save(content, "PNG")
    return content.getvalue()


@contextmanager
def served(page: Data, folder: Path) -> Iterator[str]:
    """The page of a run without a model; the address."""
    [test] = page["tests"]
    run = made_run(folder / "run", np.random.default_rng(0).normal(size=(test["count"], 8)).astype(np.float32))
    images = ImageSet([run / f"{k}.png" for k in range(test["count"])], test["classes"], test["class_of"])

    def site(token: str) -> Site:
        live = dict(page, live={"token": token, "runs": [0, 1]})
        methods = [Searched(run, threshold=0.5) for _ in test["methods"]]
        return Site(page_html(live).encode(), policy(live=True), [(images, methods)])

    with serving(site) as client:
        yield client.server.address


@contextmanager
def visited(opened: Opener, address: str, at: str = "") -> Iterator[Tab]:
    """The page of the server at `address`. It is closed before the server ends, which would reset its requests."""
    opened.own = address
    tab = opened.visit(f"{address}{at}")
    yield tab
    tab.close()


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a study of drawn images with one model, which is not trained."""
    monkeypatch.setenv("LEVELFIELD_CACHE", str(tmp_path / "cache"))
    make_photos(tmp_path / "drawn", classes=4, each=6)
    small = {"backbone": "test_resnet", "weights": "random", "image": 32}
    content = {"data": str(tmp_path / "drawn"), "conditions": small, "methods": ["untrained"], "seeds": 1}
    levelfield.compare({"name": "drawn", **content}, out=tmp_path / "runs", page=False)
    return tmp_path / "runs" / "drawn"


def test_a_dropped_file_is_searched_by_the_model_of_a_study(opened: Opener, study: Path) -> None:
    _, items = stored_test(next(study.glob("*/seed0-*")))
    with serving(lambda token: read_site(study, token)) as client, visited(opened, client.server.address) as tab:
        tab.evaluate(DROP, [list(Path(items.paths[2]).read_bytes()), "mine.png"])
        strip = tab.locator(".photo .strip")
        expect(strip.locator("li")).to_have_count(len(items.paths))
        expect(strip.locator(".note").first).to_have_text("1.000 same")
        strip.locator(".picture").first.click()  # itself
        expect(tab.locator("#search .results .query").last).to_contain_text(f"image 3 of {len(items.paths)}")


@pytest.fixture
def sparse() -> Data:
    """Neighbours of every second image only."""
    page = made(40, 4, 2)
    asked, test = np.arange(0, 40, 2, dtype=np.uint32), page["tests"][0]
    right = np.where(np.arange(40) % 2, 3, 1).astype(np.uint8)
    methods = [
        dict(one, queries=asked, right=right, neighbours=one["neighbours"][asked], similarity=one["similarity"][asked])
        for one in test["methods"]
    ]
    return dict(page, tests=[dict(test, methods=methods, lost=[])])


def test_any_query_and_full_images_come_from_the_server(opened: Opener, sparse: Data, tmp_path: Path) -> None:
    with served(sparse, tmp_path) as address, visited(opened, address, "#search?q=21&m=0&k=5") as tab:
        expect(tab.locator("#search .ranking li")).to_have_count(5)
        full = tab.locator("#search .query img:not(.own)")
        expect(full).to_have_js_property("complete", True)
        assert full.evaluate("(one) => one.naturalWidth") == 40


def test_a_photo_that_no_model_can_embed_gets_the_sentence_of_the_server(
    opened: Opener, sparse: Data, tmp_path: Path
) -> None:
    with served(sparse, tmp_path) as address, visited(opened, address) as tab:
        tab.evaluate(DROP, [list(photo()), "mine.png"])
        expect(tab.locator(".photo .empty")).to_contain_text("model")
    opened.errors.clear()  # the browser names the refused request


def test_a_dropped_or_chosen_photo_shows_neighbours_and_which_are_the_same(opened: Opener, sparse: Data) -> None:
    """With the answers of a server that has a model."""
    opened.own = "http://127.0.0.1:9/token/"
    html = page_html(dict(sparse, live={"token": "token", "runs": [1]}, rows=sparse["rows"]))

    def answer(route: Route) -> None:
        asked, reply = route.request, {"neighbours": [3, 30], "similarity": [0.91, 0.4], "same": [True, False]}
        if "/search/" in asked.url:
            assert asked.post_data_buffer == photo()
            kept: Any = {"json": reply | {"threshold": 0.5}}
        elif "/image/" in asked.url:
            kept = {"body": photo(), "content_type": "image/png"}
        else:
            kept = {"body": html, "content_type": "text/html"}
        route.fulfill(**kept)

    opened.route = answer
    answered = opened.visit(opened.own)
    answered.evaluate(DROP, [list(photo()), "mine.png"])
    expect(answered.locator(".photo .strip .note")).to_have_text(["0.910 same", "0.400 other"])
    expect(answered.locator(".photo")).to_contain_text("The same class from a similarity of 0.500.")
    assert answered.locator(".photo .own").evaluate("(one) => one.naturalWidth") == 64
    assert answered.locator(".photo option").all_inner_texts() == ["normalized_softmax"]  # the only one with a model
    chosen: Any = {"name": "mine.png", "mimeType": "image/png", "buffer": photo()}
    answered.get_by_label("Search with your own photo").set_input_files(chosen)
    expect(answered.locator(".photo .strip li")).to_have_count(2)
    answered.locator(".photo .strip .picture").first.click()
    expect(answered.locator("#search .results .query").last).to_contain_text("image 4 of")
