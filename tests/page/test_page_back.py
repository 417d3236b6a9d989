"""The browser's Back button, and addresses that lead nowhere."""

from __future__ import annotations

import pytest
from browsers import Opener

from levelfield.reports.page.content import Page


def test_back_returns_from_an_image_to_the_query_before(opened: Opener, shapes: Page) -> None:
    tab = opened(shapes, "#search?q=3")
    name = tab.locator("#search .query")
    before = name.inner_text()
    tab.locator("#search .strip button").first.click()
    tab.wait_for_function("text => document.querySelector('#search .query').innerText !== text", arg=before)
    tab.keyboard.press("n")  # steps are not kept
    tab.go_back()
    tab.wait_for_function("text => document.querySelector('#search .query').innerText === text", arg=before)


def test_back_returns_from_a_section(opened: Opener, shapes: Page) -> None:
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
def test_a_broken_address_shows_the_page(opened: Opener, shapes: Page, at: str, fresh: bool) -> None:
    tab = opened(shapes, at, fresh=fresh)
    assert tab.locator("section").count() > 5
    assert tab.locator("#search .query").count() == ("script" not in at)
    assert tab.locator("#answer h2").inner_text() == "Use contrastive"
    missing = tab.locator("#search [role=status]", has_text="The link names image 1,000,000")
    assert missing.count() == ("q=999999&" in at)
