"""The built files of the page are those of its sources, and nothing of the machine that built them is in them."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES, ASSETS = ROOT / "page", ROOT / "src" / "levelfield" / "reports" / "page" / "assets"


def hash_of_sources() -> str:
    """As build.mjs computes it."""
    names = sorted(["build.mjs", "package-lock.json", *(f"src/{file.name}" for file in (SOURCES / "src").iterdir())])
    digest = hashlib.sha256()
    for name in names:
        digest.update(f"{name}\n".encode() + (SOURCES / name).read_bytes() + b"\n")
    return digest.hexdigest()


def test_the_built_files_are_newer_than_their_sources() -> None:
    for name in ("page.js", "page.css"):
        built = re.search(r"sources ([0-9a-f]{64})", (ASSETS / name).read_text(encoding="utf-8")[:200])
        assert built, name
        assert built[1] == hash_of_sources(), f"{name} is older than page/src. Build it again: make page"
    assert (ASSETS / "page.html").read_bytes() == (SOURCES / "src" / "page.html").read_bytes()


def test_the_script_has_no_eval_and_no_address() -> None:
    script = (ASSETS / "page.js").read_text(encoding="utf-8")
    assert not re.search(r"\beval\(|new Function|\bFunction\(", script)
    assert set(re.findall(r"https?://[\w./-]+", script)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1998/Math/MathML",
        "http://www.w3.org/1999/xhtml",
    }


def test_no_source_turns_text_into_markup() -> None:
    markup = re.compile("innerHTML|outerHTML|insertAdjacentHTML|document.write|dangerouslySetInnerHTML|srcdoc", re.I)
    assert [file.name for file in (SOURCES / "src").glob("*.js") if markup.search(file.read_text("utf-8"))] == []


def test_the_lock_file_names_no_registry() -> None:
    lock = json.loads((SOURCES / "package-lock.json").read_text(encoding="utf-8"))
    packages = {name: one for name, one in lock["packages"].items() if name}
    assert packages
    assert not [name for name, one in packages.items() if "resolved" in one]
    assert all(one["integrity"] for one in packages.values())


def test_licences_of_everything_inside_are_beside_it() -> None:
    text = (ASSETS / "LICENSES.txt").read_text(encoding="utf-8")
    for name in ("preact", "htm"):
        version = json.loads((SOURCES / "package-lock.json").read_text())["packages"][f"node_modules/{name}"]["version"]
        assert f"{name} {version}" in text
