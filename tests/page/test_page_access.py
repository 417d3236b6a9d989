"""The page for everybody: keyboard, phone, dark, axe-core; and what its policy forbids."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from browsers import Opener
from made_page import made
from playwright.sync_api import Page as Tab
from playwright.sync_api import expect

from levelfield.reports.page.content import Data

AXE = (Path(__file__).parent / "axe.min.js").read_text(encoding="utf-8")
SECTIONS = ("answer", "search", "map", "mistakes", "disagree", "same", "why", "training", "tables")


def findings(tab: Tab) -> list[str]:
    """Serious and critical findings of axe-core, with the elements."""
    tab.evaluate(AXE)
    found = tab.evaluate("axe.run(document, {resultTypes: ['violations']}).then((result) => result.violations)")
    return [
        f"{one['id']}: {[node['html'][:160] for node in one['nodes'][:3]]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_axe_has_no_serious_finding(opened: Opener, shapes: Data, colours: str) -> None:
    tab = opened(shapes, "#map?cc=3", color_scheme=colours)
    tab.wait_for_selector("#map canvas[tabindex]")
    assert tab.locator("html").get_attribute("data-theme") == colours
    for summary in tab.locator("details:not([open]) summary").all():
        summary.click()
    assert findings(tab) == []
    background = "getComputedStyle(document.body).backgroundColor"
    before, other = tab.evaluate(background), "Light" if colours == "dark" else "Dark"
    tab.get_by_role("button", name=f"{other} colours").click()
    assert tab.evaluate(background) != before


def test_nothing_is_wider_than_a_phone(opened: Opener, shapes: Data) -> None:
    tab = opened(shapes, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    assert tab.evaluate("document.documentElement.scrollWidth") == 390
    for name in SECTIONS:
        box = tab.locator(f"#{name}").bounding_box()
        assert box
        assert box["x"] + box["width"] <= 390
    assert findings(tab) == []


def test_the_navigation_follows_and_leads(opened: Opener, shapes: Data) -> None:
    tab = opened(shapes)
    expect(tab.locator("nav a[aria-current]")).to_have_text("Answer")
    tab.get_by_role("link", name="Same or not").click()
    expect(tab.locator("#same h2")).to_be_in_viewport()
    expect(tab.locator("nav a[aria-current]")).to_have_text("Same or not")
    expect(tab).to_have_url(re.compile("#same$"))
    expect(tab.locator("nav")).to_be_in_viewport()


def test_everything_is_reached_by_the_keyboard_alone(opened: Opener) -> None:
    tab = opened(made(40, 4, 2))
    tab.keyboard.press("Tab")
    expect(tab.get_by_role("link", name="Skip to the answer")).to_be_focused()
    tab.keyboard.press("Enter")
    reached = set()
    where = """() => { const one = document.activeElement; const section = one.closest('section');
      return [section ? section.id : '', one.tagName, getComputedStyle(one).outlineStyle]; }"""
    for _ in range(400):
        tab.keyboard.press("Tab")
        section, kind, outline = tab.evaluate(where)
        if kind == "BODY":
            break
        assert outline != "none", (section, kind)  # the focus is visible
        reached.add(section)
    assert reached >= set(SECTIONS)


def test_the_policy_forbids_foreign_scripts_and_every_request(opened: Opener, shapes: Data) -> None:
    tab = opened(shapes, fresh=True)
    policy = tab.locator("meta[http-equiv='Content-Security-Policy']").get_attribute("content") or ""
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert "unsafe" not in policy
    assert "http" not in policy
    blocked = tab.evaluate(
        """async () => {
          const found = [];
          document.addEventListener('securitypolicyviolation', (event) => found.push(event.effectiveDirective));
          try { await fetch('https://example.com/'); } catch { found.push('no request'); }
          const script = document.createElement('script');
          script.textContent = 'window.foreign = 1';
          document.body.append(script);
          document.body.insertAdjacentHTML('beforeend', '<p style="color: red" onclick="1">x</p>');
          await new Promise((done) => setTimeout(done, 50));
          return [window.foreign ?? null, ...new Set(found)];
        }"""
    )
    assert blocked[0] is None
    assert {"no request", "connect-src", "script-src-elem", "style-src-attr"} <= set(blocked)
    opened.errors.clear()  # the browser names what it blocked
