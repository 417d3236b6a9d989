"""Search results in a browser: queries, methods, keys, addresses, and the Back button."""

from __future__ import annotations

import re

import numpy as np
import pytest
from browsers import Opener
from playwright.sync_api import Page as Tab
from playwright.sync_api import expect

from levelfield.reports.page.content import Data


def shown(tab: Tab) -> int:
    """The number of the query."""
    found = re.search(r"image (\d+) of", tab.locator("#search .query").inner_text())
    assert found
    return int(found[1]) - 1


def test_rows_of_neighbours_are_framed_and_marked_by_class(opened: Opener, shapes: Data) -> None:
    tab = opened(shapes, "#search?q=20&m=0.4&k=5")
    method, test = shapes["tests"][0]["methods"][4], shapes["tests"][0]
    expect(tab.locator("#search .ranking")).to_have_count(2)
    images = tab.locator("#search .ranking").nth(1).locator(".picture")
    right = [bool(test["class_of"][one] == test["class_of"][20]) for one in method["neighbours"][20, :5]]
    assert [("right" in (one.get_attribute("class") or "")) for one in images.all()] == right
    assert images.locator(".mark").all_inner_texts() == ["✓" if one else "✗" for one in right]
    similarity = method["similarity"][20, :5] / 65535 * 2 - 1
    assert images.locator(".note").all_inner_texts() == [f"{one:.3f}" for one in similarity]


def test_a_click_on_a_neighbour_makes_it_the_query(opened: Opener, shapes: Data) -> None:
    tab = opened(shapes, "#search?q=20&m=0")
    neighbours = shapes["tests"][0]["methods"][0]["neighbours"]
    tab.locator("#search .strip .picture").nth(2).click()
    assert shown(tab) == neighbours[20, 2]
    tab.locator("#search .strip .picture").nth(1).focus()  # without a mouse
    tab.keyboard.press("Enter")
    assert shown(tab) == neighbours[neighbours[20, 2], 1]


def test_keys_and_buttons_walk_through_the_worst_and_the_disputed_queries(opened: Opener, shapes: Data) -> None:
    tab = opened(shapes, "#search?m=2")
    tab.get_by_role("button", name="Worst first").first.click()
    rank = shapes["tests"][0]["methods"][2]["first_right"].astype(int)
    order = sorted(np.flatnonzero(rank), key=lambda image: (-rank[image], image))
    assert shown(tab) == order[0]
    tab.keyboard.press("n")
    tab.keyboard.press("ArrowRight")
    assert shown(tab) == order[2]
    tab.keyboard.press("p")
    tab.get_by_role("button", name="Previous query").click()
    assert shown(tab) == order[0]
    expect(tab.locator("#search .pager")).to_contain_text(f"1 of {len(order)}")
    expect(tab.locator("#search .who")).to_contain_text(f"first right at rank {rank[order[0]]}")
    tab = opened(shapes, "#search?m=0.4&by=disagree")
    first, last = (shapes["tests"][0]["methods"][number]["first_right"].astype(float) for number in (0, 4))
    spread = np.abs(np.log(np.maximum(first, 1)) - np.log(np.maximum(last, 1)))
    assert spread[shown(tab)] == spread.max() > 0


def test_queries_of_a_class_and_by_typing(opened: Opener, shapes: Data) -> None:
    test = shapes["tests"][0]
    tab = opened(shapes, "#search")
    tab.locator("#search").get_by_role("button", name="By class").click()
    tab.locator("#search").get_by_label("Class", exact=True).fill(test["classes"][5])
    expect(tab.locator("#search .query .big")).to_have_text(test["classes"][5])
    tab.locator("#search").get_by_role("button", name="By typing").click()
    tab.get_by_label("Class or file").fill(test["files"][123][-9:].upper())
    expect(tab.locator("#search .pager")).to_contain_text("1 of 1")
    assert shown(tab) == 123
    tab.get_by_label("Class or file").fill("no such thing")
    expect(tab.locator("#search .empty")).to_have_text("No query matches.")


def test_a_copied_address_shows_the_same(opened: Opener, shapes: Data) -> None:
    tab = opened(shapes, "#search?m=2")
    tab.locator("#search .chip").nth(3).click()
    tab.get_by_label("Show").select_option("5")
    tab.keyboard.press("n")
    expect(tab).to_have_url(re.compile(r"q=\d+.*m=2\.3.*k=5"))
    query, address = shown(tab), tab.url
    again = opened(shapes, address[address.index("#") :])
    assert shown(again) == query
    expect(again.locator("#search .ranking")).to_have_count(2)
    expect(again.locator("#search .ranking").first.locator("li")).to_have_count(5)
    expect(again.locator("#search h2")).to_be_in_viewport()
    lost = opened(shapes, "#search?q=7&m=0.1.2.3").locator("#search")
    expect(lost.locator(".query .lost")).to_have_attribute("title", re.compile("gone"))
    expect(lost.locator(".chip").nth(4)).to_be_disabled()  # four methods at most


def test_an_image_without_stored_neighbours_says_where_to_see_them(opened: Opener, shapes: Data) -> None:
    test, asked = shapes["tests"][0], np.arange(0, 300, 2, dtype=np.uint32)

    def sparse(method: Data) -> Data:
        right = np.full(300, 3, np.uint8)
        right[asked] = method["right"][asked]
        chosen = {"neighbours": method["neighbours"][asked], "similarity": method["similarity"][asked]}
        return dict(method, queries=asked, right=right, **chosen)

    tab = opened(dict(shapes, tests=[dict(test, methods=[sparse(one) for one in test["methods"]])]), "#search?q=21&m=0")
    expect(tab.locator("#search .ranking .empty")).to_contain_text("levelfield view")
    tab.keyboard.press("n")
    expect(tab.locator("#search .ranking .strip")).to_be_visible()
    assert shown(tab) % 2 == 0
    nearest = tab.locator("#search .ranking .picture").first.get_attribute("aria-label") or ""
    assert nearest.startswith(test["classes"][int(test["class_of"][test["methods"][0]["neighbours"][shown(tab), 0]])])


def test_thumbnails_of_some_images_only_are_at_their_own_cells(opened: Opener, shapes: Data) -> None:
    test = shapes["tests"][0]
    assert test["thumbnails"]
    some = {**test["thumbnails"], "of": np.arange(10, 20, dtype=np.uint32)}
    tab = opened(dict(shapes, tests=[dict(test, thumbnails=some)]), "#search?q=13")
    thumb = tab.locator("#search .query .thumb")
    assert "-384px 0px" in (thumb.get_attribute("style") or "")  # the fourth cell, twice as large
    tab.evaluate("location.hash = '#search?q=25'")
    expect(thumb).to_have_class(re.compile("lost"))


def test_back_returns_from_an_image_to_the_query_before(opened: Opener, shapes: Data) -> None:
    tab = opened(shapes, "#search?q=3")
    name = tab.locator("#search .query")
    before = name.inner_text()
    tab.locator("#search .strip button").first.click()
    tab.wait_for_function("text => document.querySelector('#search .query').innerText !== text", arg=before)
    tab.keyboard.press("n")  # steps are not kept
    tab.go_back()
    tab.wait_for_function("text => document.querySelector('#search .query').innerText === text", arg=before)


def test_back_returns_from_a_section(opened: Opener, shapes: Data) -> None:
    tab = opened(shapes, "#map")
    tab.locator("nav a", has_text="Why").click()
    tab.wait_for_function("() => location.hash.startsWith('#why')")
    tab.go_back()
    tab.wait_for_function("() => location.hash.startsWith('#map')")


@pytest.mark.parametrize(
    ("at", "fresh"),
    [
        ("#%E0%A4%A", True),
        ("#nowhere", False),
        ("#search?q=999999&m=77", True),
        ("#map?map=99&colour=none", False),
        ("#%3Cscript%3E?q=99999999&m=77.x&t=5&k=<b>&map=-3&a=9&sm=44&cell=zz&th=abc&by=constructor", False),
    ],
)
def test_a_broken_address_shows_the_page(opened: Opener, shapes: Data, at: str, fresh: bool) -> None:
    tab = opened(shapes, at, fresh=fresh)
    assert tab.locator("section").count() > 5
    assert tab.locator("#search .query").count() == ("script" not in at)
    assert tab.locator("#answer h2").inner_text() == "Use contrastive"
    missing = tab.locator("#search [role=status]", has_text="The link names image 1,000,000")
    assert missing.count() == ("q=999999&" in at)
