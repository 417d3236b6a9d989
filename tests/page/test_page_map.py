"""The map in a browser: what is drawn is read back from its canvases."""

from __future__ import annotations

import pytest
from browsers import Opener
from playwright.sync_api import Page as Tab
from playwright.sync_api import expect

from levelfield.reports.page.content import Data

PAINTED = """() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
  const source = document.querySelectorAll('#map canvas')[0];
  const copy = document.createElement('canvas');
  copy.width = source.width; copy.height = source.height;
  const context = copy.getContext('2d');
  context.drawImage(source, 0, 0);
  const {data} = context.getImageData(0, 0, copy.width, copy.height);
  let painted = 0;
  for (let i = 3; i < data.length; i += 4) painted += data[i] > 8;
  done(painted);
})))"""

# the places of the thumbnails of the newest drawing, which begins with a cleared canvas
RECORD = """() => {
  window.boxes = [];
  window.drawings = 0;
  const {drawImage, clearRect} = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.drawImage = function (...given) {
    if (given.length === 9) window.boxes.push(given.slice(5, 8));
    return drawImage.apply(this, given);
  };
  CanvasRenderingContext2D.prototype.clearRect = function (...given) {
    window.boxes = [];
    window.drawings += 1;
    return clearRect.apply(this, given);
  };
}"""

# the newest drawing after the first `seen` ones, when it has thumbnails
DRAWN = """(seen) => new Promise((done) => {
  const wait = () => window.drawings > seen && window.boxes.length > 5
    ? done([window.drawings, window.boxes]) : requestAnimationFrame(wait);
  wait();
})"""

# the parts of the way that the points have gone in each frame; the other uniform of this kind is their size
PARTS = """() => {
  window.parts = [];
  const {uniform1f} = WebGL2RenderingContext.prototype;
  WebGL2RenderingContext.prototype.uniform1f = function (where, value) {
    if (value <= 1) window.parts.push(value);
    return uniform1f.call(this, where, value);
  };
}"""

ARRIVED = """() => new Promise((done) => {
  const look = () => (window.parts.at(-1) === 1 ? done(window.parts) : requestAnimationFrame(look));
  look();
})"""


def look(tab: Tab) -> tuple[float, float, float, float]:
    """Wait for the map; its left, top, width and height on the screen."""
    tab.locator("#map .map").scroll_into_view_if_needed()
    tab.wait_for_selector("#map canvas[tabindex]")
    box = tab.locator("#map .map").bounding_box()
    assert box
    return box["x"], box["y"], box["width"], box["height"]


def points(tab: Tab) -> bytes:
    return tab.locator("#map .map").screenshot()


def at(tab: Tab, page: Data, image: int, method: int = 0) -> tuple[float, float]:
    """Where an image is on the screen, before any zoom."""
    left, top, width, height = look(tab)
    positions = page["tests"][0]["methods"][method]["map"]
    x, y = positions[image] / 65535
    side = 0.94 * min(width - 2, height - 2)
    return left + width / 2 + (x - 0.5) * side, top + height / 2 - (y - 0.5) * side


def test_switching_method_and_colour_changes_the_drawing(opened: Opener, shapes: Data) -> None:
    tab = opened(shapes, "#map")
    look(tab)
    first = points(tab)
    tab.locator("#map").get_by_label("Method").select_option("margin")
    second = points(tab)
    tab.locator("#map").get_by_role("combobox", name="Colour").select_option("Right or wrong")
    third = points(tab)
    tab.locator("#map").get_by_role("combobox", name="Colour").select_option("Group")
    expect(tab.locator("#map .legend li")).to_have_text(["studio", "street", "phone"])
    assert len({first, second, third, points(tab)}) == 4
    tab.get_by_label("Only class").fill(shapes["tests"][0]["classes"][3])
    expect(tab.locator("#map .panel h3")).to_have_text(f"{(shapes['tests'][0]['class_of'] == 3).sum()} chosen images")


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_points_move_to_their_new_places_unless_the_reader_wants_no_motion(
    opened: Opener, shapes: Data, motion: str
) -> None:
    tab = opened(shapes, "#map", fresh=True, reduced_motion=motion)
    look(tab)
    tab.evaluate(PARTS)
    tab.locator("#map").get_by_label("Method").select_option("margin")
    parts = tab.evaluate(ARRIVED)
    assert parts == sorted(parts)
    assert (parts[0] < 1) == (motion == "no-preference")


@pytest.mark.parametrize("finger", [False, True])
def test_pointing_at_an_image_names_its_class(opened: Opener, shapes: Data, finger: bool) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    tab = opened(shapes, "#map", fresh=finger, **(phone if finger else {}))
    place = at(tab, shapes, 100)
    if finger:
        tab.touchscreen.tap(*place)
    else:
        tab.mouse.move(*place)
    name = shapes["tests"][0]["classes"][int(shapes["tests"][0]["class_of"][100])]
    expect(tab.locator("#map .card .name").first).to_have_text(name)
    tab.mouse.move(5, 5)
    expect(tab.locator("#map .card")).to_have_count(int(finger))


def test_wheel_drag_keys_and_reset_move_the_view(opened: Opener, shapes: Data) -> None:
    tab = opened(shapes, "#map")
    left, top, width, height = look(tab)
    start = points(tab)
    tab.mouse.move(left + width / 2, top + height / 2)
    tab.mouse.wheel(0, -600)  # returns before the page has heard of it
    for _ in range(100):
        if points(tab) != start:
            break
        tab.wait_for_timeout(50)
    seen = [start, points(tab)]
    tab.mouse.down()
    tab.mouse.move(left + width / 2 + 80, top + height / 2 + 30, steps=4)
    tab.mouse.up()
    seen.append(points(tab))
    tab.locator("#map canvas[tabindex]").focus()
    for key in ("+", "ArrowLeft"):
        tab.keyboard.press(key)
        seen.append(points(tab))
    assert len(set(seen)) == len(seen)
    tab.get_by_role("button", name="Reset").click()
    tab.mouse.move(5, 5)
    tab.get_by_role("button", name="Reset").blur()
    assert points(tab) == start


def test_thumbnails_appear_when_one_zooms_in_and_do_not_overlap(opened: Opener, shapes: Data) -> None:
    tab = opened(shapes, "#answer", fresh=True)
    tab.evaluate(RECORD)
    look(tab)
    drawings = 0
    for zoomed in range(6):
        drawings, boxes = tab.evaluate(DRAWN, drawings)
        for number, (left, top, side) in enumerate(boxes):
            assert all(max(abs(left - x), abs(top - y)) >= side for x, y, _ in boxes[number + 1 :]), zoomed
        tab.get_by_role("button", name="Zoom in").click()


def test_a_lasso_gives_the_images_inside(opened: Opener, shapes: Data) -> None:
    tab = opened(shapes, "#map", fresh=True)
    x, y = at(tab, shapes, 100)
    tab.get_by_role("button", name="Lasso").click()
    tab.mouse.move(x - 30, y - 30)
    tab.mouse.down()
    for dx, dy in ((30, -30), (30, 30), (-30, 30), (-30, -30)):
        tab.mouse.move(x + dx, y + dy, steps=3)
    tab.mouse.up()
    expect(tab.locator("#map .panel h3")).to_contain_text("chosen image")
    _, _, width, height = look(tab)
    positions = shapes["tests"][0]["methods"][0]["map"]
    side = 0.94 * min(width - 2, height - 2)
    away = abs(positions.astype(float) - positions[100]) / 65535 * side
    inside, near = (away < 29).all(1).sum(), (away < 31).all(1).sum()
    count = int(tab.locator("#map .panel h3").inner_text().split()[0])
    assert inside <= count <= near
    tab.locator("#map .panel .picture").first.click()
    expect(tab.locator("#search h2")).to_be_in_viewport()
    tab.get_by_role("button", name="Clear").click()
    expect(tab.locator("#map .panel h3")).to_have_count(0)


def test_without_webgl_the_map_is_still_drawn_and_says_so(opened: Opener, shapes: Data) -> None:
    tab = opened(shapes, "#answer", fresh=True)
    tab.evaluate(
        """() => { const own = HTMLCanvasElement.prototype.getContext;
        HTMLCanvasElement.prototype.getContext = function (kind, ...more) {
          return kind === 'webgl2' ? null : own.call(this, kind, ...more); }; }"""
    )
    look(tab)
    expect(tab.locator("#map .flat")).to_contain_text("no WebGL 2")
    assert tab.evaluate(PAINTED) > 300
