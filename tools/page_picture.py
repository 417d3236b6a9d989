"""Draw the pictures of the page (figures/page.png, figures/page-*.png): `python tools/page_picture.py`.

It needs Chromium and the extra `demo`. It draws shapes, compares the demo's methods on them (a real study of 144
classes), and takes pictures of the page of that study. So the picture shows nobody's photographs, and what it says was
measured.
"""

from __future__ import annotations

import base64
import io
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import Page as Tab

import levelfield
from levelfield.reports.page.write import read_data

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "page"))
from browsers import launched  # noqa: E402
from drawn_images import drawing, names  # noqa: E402

FIGURES = ROOT / "docs" / "figures"
SECTIONS = ("search", "map", "mistakes", "same", "why")  # those of look.md, one picture each
GAP, BACKGROUND = 24, (231, 234, 232)
MOST = 300_000  # bytes
CLASSES, EACH = 144, 8
CLOSER = 1  # steps of the map towards its images
STUDY = """\
extends: demo
about: Six losses on drawn shapes
data: {name: folder, path: shapes}
conditions: {steps: 200}
"""


def draw(folder: Path) -> None:
    """Drawn shapes in one folder per class."""
    for number, name in enumerate(names(CLASSES)):
        (folder / name).mkdir(parents=True)
        for image in range(EACH):
            drawing(number, np.random.default_rng([number, image])).save(folder / name / f"{image:02}.png")


def studied(folder: Path) -> Path:
    """The page of the study, which trains in `folder`."""
    draw(folder / "shapes")
    (folder / "shapes.yaml").write_text(STUDY, encoding="utf-8")
    page = levelfield.compare(folder / "shapes.yaml", out=folder / "runs").page
    assert page is not None
    return page


def query(page: Path) -> int:
    """An image that the best method finds and the last one finds latest."""
    first, *_, last = (_numbers(one["first_right"]) for one in read_data(page)["tests"][0]["methods"])
    return int(np.argmax(np.where(first == 1, last, 0)))


def _numbers(packed: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed["base64"]), dtype=f"<{packed['dtype']}")


def panels(page: Path) -> Iterator[Image.Image]:
    """Answer and leaderboard, search results, map."""
    last = len(read_data(page)["tests"][0]["methods"]) - 1
    search = f"#search?q={query(page)}&m=0.{last}&k=7"
    with launched() as browser:
        for address, width, height in (("#answer", 900, 1264), (search, 760, 720), ("#map", 760, 520)):
            context = browser.new_context(viewport={"width": width, "height": height}, reduced_motion="reduce")
            tab = context.new_page()
            tab.goto(f"{page.as_uri()}{address}")
            tab.wait_for_selector("html[data-ready]")
            for _ in range(CLOSER if address == "#map" else 0):
                tab.get_by_label("Zoom in").click()
            yield shot(tab)
            context.close()


def shot(tab: Tab) -> Image.Image:
    tab.evaluate("document.activeElement.blur()")
    tab.wait_for_timeout(1500)  # sheets are decoded while the page is already there
    return Image.open(io.BytesIO(tab.screenshot())).convert("RGB")


def sections(page: Path) -> Iterator[tuple[str, Image.Image]]:
    """A picture of each section of SECTIONS."""
    with launched() as browser:
        context = browser.new_context(viewport={"width": 1100, "height": 760}, reduced_motion="reduce")
        tab = context.new_page()
        for name in SECTIONS:
            tab.goto(f"{page.as_uri()}#{name}{f'?q={query(page)}' if name == 'search' else ''}")
            tab.wait_for_selector("html[data-ready]")
            yield name, shot(tab)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        page = studied(Path(folder))
        answer, search, points = panels(page)
        for name, picture in sections(page):
            write(picture, FIGURES / f"page-{name}.png")
    height = 2 * GAP + max(answer.height, search.height + GAP + points.height)
    sheet = Image.new("RGB", (answer.width + search.width + 3 * GAP, height), BACKGROUND)
    sheet.paste(answer, (GAP, GAP))
    sheet.paste(search, (answer.width + 2 * GAP, GAP))
    sheet.paste(points, (answer.width + 2 * GAP, height - GAP - points.height))
    write(sheet, FIGURES / "page.png")


def write(picture: Image.Image, file: Path) -> None:
    content = io.BytesIO()
    picture.quantize(256, dither=Image.Dither.NONE).save(content, "PNG", optimize=True)
    if content.tell() > MOST:
        sys.exit(f"{file.name} takes {content.tell():,} bytes; at most {MOST:,} are wanted in the repository.")
    file.write_bytes(content.getvalue())
    print(f"{file}: {content.tell():,} bytes")


if __name__ == "__main__":
    main()
