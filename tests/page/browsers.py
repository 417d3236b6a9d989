"""Pages in a browser that may neither fail nor ask the network."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Route, sync_playwright
from playwright.sync_api import Page as Tab

from levelfield.reports.page.content import Data
from levelfield.reports.page.write import write_page

NAMES = ("chromium", "chromium-browser", "google-chrome")
MISSING = "No browser for the tests of the page. Debian and Ubuntu: apt-get install chromium"
FLAGS = (
    "--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run",
    "--enable-unsafe-swiftshader",
)  # fmt: skip

# to another address within the page, drawn when this ends
GO = """async (at) => {
  document.activeElement.blur();
  for (const to of ['#', at || '#']) {
    history.replaceState(null, '', to);
    dispatchEvent(new HashChangeEvent('hashchange')); // also where the address is the same and the page has moved on
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    if (to === '#') scrollTo(0, 0);
  }
}"""


def executable() -> str:
    """The installed browser. Without one the test is skipped, but fails if the environment says CI=true."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None and os.environ.get("CI") == "true":
        pytest.fail(MISSING)
    if found is None:
        pytest.skip(MISSING)
    return found


@contextmanager
def launched(*flags: str) -> Iterator[Browser]:
    path = executable()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*FLAGS, *flags])
        yield browser
        browser.close()


class Opener:
    """Opens pages in tabs, and keeps what they complained about and asked for."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self.browser = browser
        self.file = folder / "report.html"
        self.own = self.file.as_uri()
        self.route: Callable[[Route], None] | None = None
        self._tabs: dict[tuple[int, str], Tab] = {}
        self._pages: list[Data] = []
        self.errors: list[str] = []
        self.asked: list[str] = []

    def __call__(self, page: Data, at: str = "", *, fresh: bool = False, **settings: Any) -> Tab:
        """The page at an address after '#'. A tab that shows it already only goes there: opening takes a second.

        fresh: open it anyway, for a test that changes what the address does not keep.
        """
        key = (id(page), repr(sorted(settings.items())))
        if not fresh and key in self._tabs:
            tab = self._tabs[key]
            tab.mouse.move(0, 0)
            tab.evaluate(GO, at)
            return tab
        write_page(page, self.file)
        tab = self.visit(f"{self.file.as_uri()}{at}", **settings)
        if not fresh:
            self._tabs[key] = tab
            self._pages.append(page)  # its id stays its own
        return tab

    def visit(self, address: str, **settings: Any) -> Tab:
        settings = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"} | settings
        context = self.browser.new_context(**settings)
        context.set_default_timeout(15_000)
        tab = context.new_page()
        tab.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        tab.on("pageerror", lambda error: self.errors.append(str(error)))
        tab.on("request", lambda request: self.asked.append(request.url))
        if self.route:
            tab.route("**", self.route)
        tab.goto(address)
        tab.wait_for_selector("html[data-ready]")
        return tab

    def elsewhere(self) -> list[str]:
        """Requests for anything but the page's own address and what is in it."""
        own = ("data:", "blob:", self.own)
        return [address for address in self.asked if not address.startswith(own)]

    def close(self) -> None:
        """Close what is not shown to the next test, which starts without complaints and requests."""
        kept = [tab.context for tab in self._tabs.values()]
        for context in self.browser.contexts:
            if context not in kept:
                context.close()
        self.own, self.route = self.file.as_uri(), None
        self.errors, self.asked = [], []
