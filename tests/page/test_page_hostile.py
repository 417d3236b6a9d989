"""Names that are code, and studies at the edge, in a browser: shown as text, and nothing breaks."""

from __future__ import annotations

import pytest
from browsers import Opener
from made_page import enlarged, made
from playwright.sync_api import expect

from levelfield.reports.page.content import Data
from levelfield.table import Table

CODE = (
    "<script>window.injected = 1</script>",
    "</script><script>window.injected = 1</script><!--",
    '"><img src=x onerror="window.injected = 1">',
    'it\'s "quoted" `${1}` \\u003c',
    "one\u2028two\u2029three\nfour",
    "%%SCRIPT%% %%DATA%%",
)
NAMES = {
    "code": " ".join(CODE),
    "right to left": "קטגוריה مرحبا \u202eevil 👩‍👩‍👧‍👦 🏳️‍🌈",
    "long": "m" * 300,
    "empty": "",
}


def renamed(page: Data, name: str) -> Data:
    """Every text of the page is `name`."""
    test = page["tests"][0]
    methods = [dict(row, label=name, deviations=[{"key": "a", "text": name}]) for row in page["rows"]]
    classes = [f"{name}{number or ''}" for number in range(len(test["classes"]))]
    test = dict(test, name=name, classes=classes, files=[name] * test["count"], groups=[name] * 3, notes=[name])
    return dict(
        page, study=name, about=name, answer=[f"Use {name}: {name}", name], cautions=[name], rows=methods,
        tables=[Table([name, name], [[name, name]], name, [name])], tests=[test, test], comparison_note=name,
        missing=[{"row": name, "reason": name}],
    )  # fmt: skip


@pytest.mark.parametrize("kind", NAMES)
def test_a_name_is_shown_as_text_and_injects_nothing(opened: Opener, kind: str) -> None:
    name = NAMES[kind]
    tab = opened(renamed(made(40, 4, 2), name), "#map?cc=0&cell=both&q=0&mark=0")
    tab.wait_for_selector("#map canvas[tabindex]")
    assert tab.evaluate("window.injected ?? null") is None
    assert tab.evaluate("[document.scripts.length, document.images.length]") == [1, 0]
    assert tab.evaluate("document.querySelector('#search .query .big').textContent") == (name or "(no name)")
    assert tab.evaluate("document.documentElement.scrollWidth") == 1280
    assert tab.evaluate("document.querySelectorAll('section').length") == 9
    direction = "(one) => getComputedStyle(one).direction"
    assert tab.locator("#search .query .big").evaluate(direction) == ("rtl" if kind == "right to left" else "ltr")
    assert tab.locator("#search .query dl").evaluate(direction) == "ltr"


@pytest.mark.parametrize(("images", "classes", "methods"), [(2, 1, 1), (30, 1, 2)])
def test_tiny_studies_break_nothing(opened: Opener, images: int, classes: int, methods: int) -> None:
    tab = opened(made(images, classes, methods), "#map?cc=0")
    tab.wait_for_selector("#map canvas[tabindex]")
    expect(tab.locator("section")).to_have_count(9)
    expect(tab.locator("#disagree .empty")).to_have_count(
        1 if methods == 1 else tab.locator("#disagree .empty").count()
    )


def test_a_hundred_thousand_images_open_and_pan(opened: Opener) -> None:
    tab = opened(enlarged(made(200, 20, 2), 500), "#map")
    canvas = tab.locator("#map canvas[tabindex]")
    canvas.focus()
    before = tab.locator("#map .map").screenshot()
    tab.keyboard.press("ArrowLeft")
    assert tab.locator("#map .map").screenshot() != before
    expect(tab.locator("#search")).to_contain_text("100,000 test images")
