"""The HTML file: nothing in it can run but its own script, and it appears whole or not at all."""

from __future__ import annotations

import base64
import errno
import hashlib
import os
import re
from pathlib import Path

import pytest
from looked_at import content_of
from test_report_page_data import page

from levelfield.errors import BadInput
from levelfield.reports.page import write
from levelfield.reports.page.content import Live

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


@pytest.mark.parametrize("name", NASTY)
def test_a_text_of_the_study_cannot_leave_the_data(name: str, tmp_path: Path) -> None:
    plain, nasty = tmp_path / "plain.html", tmp_path / "nasty.html"
    write.write_page(page(study="s", about="plain"), plain)
    write.write_page(page(study="s", about=name), nasty)
    assert content_of(nasty)["about"] == name
    assert _outside_the_data(nasty) == _outside_the_data(plain)


def test_the_title_is_escaped(tmp_path: Path) -> None:
    write.write_page(page(study="</title><script>alert(1)</script>"), tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<title>&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;: levelfield</title>" in text


def test_the_policy_allows_exactly_the_script_and_the_style_of_the_page(tmp_path: Path) -> None:
    write.write_page(page(), tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    policy = re.search('http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    assert policy is not None
    for kind, pattern in (("script", r"<script>(.*?)</script>"), ("style", r"<style>(.*?)</style>")):
        [inside] = re.findall(pattern, text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy[1]
    assert "default-src 'none'" in policy[1]
    assert "connect-src" not in policy[1]
    assert "unsafe" not in policy[1]


def test_only_a_live_page_may_ask_its_server() -> None:
    assert "connect-src 'self'" in write.page_html(page(live=Live("token", [0])))
    assert write.policy(live=True) in write.page_html(page(live=Live("token", [0])))


def test_a_full_disk_leaves_the_old_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "report.html"
    write.write_page(page(about="old"), place)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BadInput, match="No space left on device"):
        write.write_page(page(about="new"), place)
    assert content_of(place)["about"] == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_page_knows_what_it_was_made_of(tmp_path: Path) -> None:
    place = tmp_path / "report.html"
    assert not write.is_made_of(place, "one")
    write.write_page(page(), place, made_of="one")
    assert write.is_made_of(place, "one")
    assert not write.is_made_of(place, "another")


def test_the_json_file_has_no_thumbnails(tmp_path: Path) -> None:
    write.write_data(page(), tmp_path / "report.json")
    assert '"thumbnails":null' in (tmp_path / "report.json").read_text(encoding="utf-8")


def _outside_the_data(path: Path) -> str:
    return re.sub(r'id="page-data">.*?</script>', "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
