"""Draw figures/page.png, the picture of the page in the README: `python docs/page_picture.py`.

It needs Chromium. Images and methods are invented by tests/page, so that the picture shows nobody's photographs.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Page as Tab

from levelfield.reports.page.data import Page
from levelfield.reports.page.write import write_page

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "page"))
from browsers import launched  # noqa: E402
from made_page import made  # noqa: E402

PICTURE = Path(__file__).parent / "figures" / "page.png"
GAP, BACKGROUND = 24, (231, 234, 232)
MOST = 300_000  # bytes


def study() -> Page:
    page = made(390, 36, 5, noise=1.25)
    rows = [replace(row, images_seen=None, peak_bytes=None, passes=None) for row in page.rows]
    return replace(page, rows=rows, cautions=[], missing=[], study="shapes", tests=[replace(page.tests[0], lost=[])])


def query(page: Page) -> int:
    """An image that the best method finds and the last one does not."""
    first, *_, last = page.tests[0].methods
    return int(np.argmax(np.where(first.first_right == 1, last.first_right, 0)))


def panels(page: Page) -> Iterator[Image.Image]:
    """Answer and leaderboard, search results, map."""
    with tempfile.TemporaryDirectory() as folder, launched() as browser:
        file = Path(folder) / "report.html"
        write_page(page, file)
        search = f"#search?q={query(page)}&m=0.4&k=7"
        for address, width, height in (("#answer", 860, 500), (search, 860, 660), ("#map", 700, 1184)):
            context = browser.new_context(viewport={"width": width, "height": height}, reduced_motion="reduce")
            tab = context.new_page()
            tab.goto(f"{file.as_uri()}{address}")
            tab.wait_for_selector("html[data-ready]")
            yield shot(tab)
            context.close()


def shot(tab: Tab) -> Image.Image:
    tab.evaluate("document.activeElement.blur()")
    tab.wait_for_timeout(1500)  # sheets are decoded while the page is already there
    return Image.open(io.BytesIO(tab.screenshot())).convert("RGB")


def main() -> None:
    answer, search, points = panels(study())
    width, height = answer.width + points.width + 3 * GAP, points.height + 2 * GAP
    sheet = Image.new("RGB", (width, height), BACKGROUND)
    sheet.paste(answer, (GAP, GAP))
    sheet.paste(search, (GAP, height - GAP - search.height))
    sheet.paste(points, (answer.width + 2 * GAP, GAP))
    content = io.BytesIO()
    sheet.quantize(256, dither=Image.Dither.NONE).save(content, "PNG", optimize=True)
    if content.tell() > MOST:
        sys.exit(f"The picture takes {content.tell():,} bytes; at most {MOST:,} are wanted in the repository.")
    PICTURE.write_bytes(content.getvalue())
    print(f"{PICTURE}: {content.tell():,} bytes")


if __name__ == "__main__":
    main()
