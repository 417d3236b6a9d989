"""The page as a file: its data as JSON, thumbnail sheets, and HTML in which nothing can run but its own script."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from looked_at import array, content_of, draw
from PIL import Image

from levelfield.reports.page import image_set, write
from levelfield.reports.page.content import FORMAT, Data, empty_test, score
from levelfield.reports.page.image_set import SIZE, thumbnails_of
from levelfield.reports.page.write import to_json

NASTY = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "<!-- <script>",
    "%%SCRIPT%% %%DATA%%",
    "quotes \" ' ` \\",
    "مرحبا \u202e abc",
    "🦆\u2028\u2029",
    "x" * 300,
]
LABELS = np.arange(10) % 3


def page(**changes: object) -> Data:
    texts = {"levelfield": "1", "study": "s", "about": "", "comparison_note": "", "answer": ["Use margin."]}
    lists: Data = {key: [] for key in ("cautions", "metrics", "rows", "comparisons", "tables", "curves", "missing")}
    tests = [empty_test("photos", [])]
    return {"format": FORMAT, "live": None, "best": 0, **texts, **lists, "tests": tests, **changes}


def test_an_array_comes_back_with_its_type_shape_and_numbers() -> None:
    for kind in ("u1", "u2", "u4", "i4", "f4", ">u2"):
        made = np.arange(12).reshape(3, 4).astype(kind)[:, ::2]
        back = array(json.loads(to_json({"made": made}))["made"])
        assert back.dtype.str[1:] == kind.removeprefix(">")
        np.testing.assert_array_equal(back, made)


def test_numbers_that_are_not_finite_become_null_and_what_the_page_cannot_read_is_refused() -> None:
    unknown = json.loads(to_json(score(float("inf"), np.float32("nan"), 0.5, None)))
    assert unknown == {"mean": None, "low": None, "high": 0.5, "sd": None}
    with pytest.raises(TypeError, match="array of float64"):
        to_json({"numbers": np.zeros(2)})
    with pytest.raises(TypeError, match="a set"):
        to_json({"numbers": {1, 2}})


def test_the_json_has_the_keys_of_the_structure_and_only_ascii() -> None:
    text = to_json(page(study="crème 🦆 \u2028 \udcff"))
    assert text.isascii()
    content = json.loads(text)
    assert content["format"] == 1
    assert content["live"] is None
    assert content["study"] == "crème 🦆 \u2028 \udcff"
    assert content["tests"][0]["mistakes"] == {"labels": [], "duplicates": [], "leaks": []}


def test_a_text_of_the_study_cannot_leave_the_data(tmp_path: Path) -> None:
    place = tmp_path / "page.html"
    write.write_page(page(about="plain"), place)
    plain = _outside_the_data(place)
    for name in NASTY:
        write.write_page(page(about=name), place)
        assert content_of(place)["about"] == name
        assert _outside_the_data(place) == plain
    write.write_page(page(study="</title><script>alert(1)</script>"), place)
    title = "<title>&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;: levelfield</title>"
    assert title in place.read_text(encoding="utf-8")


def test_the_policy_allows_exactly_the_script_and_the_style_of_the_page(tmp_path: Path) -> None:
    write.write_page(page(), tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    policy = re.search('http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    for kind, pattern in (("script", r"<script>(.*?)</script>"), ("style", r"<style>(.*?)</style>")):
        [inside] = re.findall(pattern, text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy[1]
    assert "default-src 'none'" in policy[1]
    assert "connect-src" not in policy[1]
    assert "unsafe" not in policy[1]
    live = write.page_html(page(live={"token": "token", "runs": [0]}))
    assert "connect-src 'self'" in live
    assert write.policy(live=True) in live


def _outside_the_data(path: Path) -> str:
    return re.sub(r'id="page-data">.*?</script>', "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def cell(made: dict[str, Any], place: int) -> np.ndarray:
    """The pixels of the thumbnail at a place, as a browser would cut it out."""
    number, inside = divmod(place, made["per_sheet"])
    content = base64.b64decode(made["sheets"][number].removeprefix("data:image/webp;base64,"))
    sheet = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))
    top, left = inside // made["columns"] * made["size"], inside % made["columns"] * made["size"]
    return sheet[top : top + made["size"], left : left + made["size"]]


def test_every_image_is_at_its_place_on_its_sheet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_set, "PER_SHEET", 4)
    paths = draw(tmp_path, LABELS)
    made = thumbnails_of(paths, None).thumbnails
    assert len(made["sheets"]) == 3
    for number, path in enumerate(paths):
        wanted = np.asarray(Image.open(path).resize((SIZE, SIZE)).convert("RGB")).mean(axis=(0, 1))
        found = cell(made, number).mean(axis=(0, 1))
        np.testing.assert_allclose(found, wanted, atol=12)
    assert thumbnails_of(paths, np.array([7, 2])).thumbnails["of"].tolist() == [2, 7]
    nothing = thumbnails_of([], None)
    assert nothing.thumbnails["sheets"] == []
    assert nothing.hashes.shape == (0, 64)


def test_missing_damaged_and_wide_images(tmp_path: Path) -> None:
    paths = draw(tmp_path, LABELS)
    paths[1].unlink()
    paths[4].write_bytes(b"no image")
    Image.new("RGB", (400, 100), "red").save(paths[5])
    seen = thumbnails_of(paths, None)
    assert seen.lost == [1, 4]
    assert 1 not in seen.hashed
    wide = cell(seen.thumbnails, 5)
    assert wide[32, 32, 0] > 200
    assert wide[0, 0].min() > 240
    np.testing.assert_allclose(cell(seen.thumbnails, 1)[8:-8, 8:-8], 200, atol=10)  # the placeholder's grey
