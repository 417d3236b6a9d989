"""The page in headless Chromium: `python benchmarks/page_browser.py [--page runs/demo/report.html] [--points N]`.

Time until the first content of a page is on the screen, and the time of a frame while the mouse pans the map of N
points (100,000). Chromium without a graphics card renders in software, so the frames are a lower bound. Without --page,
only the map is measured. Writes results/page_browser.json next to this file.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import tempfile
import time
from pathlib import Path

from harness.figures import Figure, save, table
from playwright.sync_api import Browser
from playwright.sync_api import Page as Tab
from rich.console import Console

from levelfield.reports.page.write import write_page

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests" / "page"))
from browsers import launched  # noqa: E402
from made_page import enlarged, made  # noqa: E402

REPEATS = 5
FIRST_CONTENT = 1_000.0  # ms
SECONDS = 4.0
# The map clears the canvas above its points once in every frame.
COUNT = """() => {
  window.frames_ = [];
  const {clearRect} = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.clearRect = function (...given) {
    window.frames_.push(performance.now());
    return clearRect.apply(this, given);
  };
}"""
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"


def first_content(browser: Browser, page: Path) -> list[float]:
    """Milliseconds from the start of loading to the first text on the screen, of several visits."""
    found = []
    for _ in range(REPEATS):
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        tab.goto(page.absolute().as_uri(), wait_until="commit")
        tab.wait_for_selector("html[data-ready]")
        found.append(float(tab.evaluate(PAINTED)))
        tab.close()
    return found


def frames(browser: Browser, page: Path, *, seconds: float = SECONDS) -> list[float]:
    """Milliseconds between frames while the mouse drags the map in circles."""
    tab = browser.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    tab.goto(f"{page.absolute().as_uri()}#map")
    tab.wait_for_selector("#map canvas[tabindex]", timeout=120_000)
    tab.wait_for_timeout(1_000)
    tab.evaluate(COUNT)
    _drag(tab, seconds)
    times: list[float] = tab.evaluate("window.frames_")
    tab.close()
    return [after - before for before, after in itertools.pairwise(times)]


def _drag(tab: Tab, seconds: float) -> None:
    box = tab.locator("#map .map").bounding_box()
    assert box
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    tab.mouse.move(x, y)
    tab.mouse.down()
    began, step = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        step += 1
        tab.mouse.move(x + 120 * (step % 40 - 20) / 20, y + 80 * (step % 23 - 11) / 11)
    tab.mouse.up()


def figures(page: Path | None, points: int, folder: Path) -> list[Figure]:
    found = []
    with launched() as browser:
        if page:
            taken = first_content(browser, page)
            facts = {"least": min(taken), "most": max(taken), "bytes": page.stat().st_size}
            part = f"page of {page.stat().st_size / 1e6:.0f} MB"
            middle = statistics.median(taken)
            found.append(Figure(part, "first content", "", middle, FIRST_CONTENT, at_most=True, unit="ms", facts=facts))
        file = folder / "map.html"
        write_page(enlarged(made(1000, 100, 2), points // 1000), file)
        between = frames(browser, file)
    middle = statistics.median(between)
    facts = {
        "frames per second": 1_000 * len(between) / sum(between),
        "slowest twentieth": sorted(between)[-len(between) // 20],
    }
    part = f"map of {points:,} points"
    found.append(Figure(part, "frame while panning (software)", "", middle, None, at_most=True, unit="ms", facts=facts))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=Path, help="a report.html, for the time to its first content")
    parser.add_argument("--points", type=int, default=100_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = figures(asked.page, asked.points, Path(folder))
    Console().print(table(found, "The page in a browser"))
    for one in found:
        print(one.part, {name: round(value, 1) for name, value in one.facts.items()})
    if asked.page:
        save(HERE / "results" / "page_browser.json", found)


if __name__ == "__main__":
    main()
