"""Write the page: its data, style and script in one HTML file that needs no server and sends no request."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.files.reading import damaged
from levelfield.files.writing import finite, write_text
from levelfield.reports.page.content import Data
from levelfield.table import Table

ASSETS = ("page.html", "page.css", "page.js")
FILE, DATA = "report.html", "report.json"
_DATA_BEGINS = '<script type="application/json" id="page-data">'
# in JSON these letters occur only within texts, where the escape means the same
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def write_page(page: Data, path: Path, *, made_of: str = "") -> None:
    """Write the page; a file that exists is replaced only when the new one is complete.

    made_of: a text that changes if the page would; `is_made_of` finds it.
    """
    write_text(path, page_html(page) + _mark(made_of))


def is_made_of(path: Path, made_of: str) -> bool:
    """Whether the page at `path` was written with the same `made_of`, by the same script and style."""
    mark = _mark(made_of).encode()
    try:
        with path.open("rb") as file:
            file.seek(-len(mark), os.SEEK_END)
            return file.read() == mark
    except OSError:  # there is none, or it is shorter
        return False


def _mark(made_of: str) -> str:
    content = "".join([made_of, *(_asset(name) for name in ASSETS)])
    return f"<!-- {hashlib.sha256(content.encode()).hexdigest()} -->\n"


def read_data(path: Path) -> dict[str, Any]:
    """The data of a written page, with its thumbnails."""
    try:
        _, _, rest = path.read_text(encoding="utf-8").partition(_DATA_BEGINS)
        data = json.loads(rest.partition("</script>")[0])
    except (ValueError, RecursionError) as error:
        raise damaged(path, "is not a page of levelfield") from error
    return data if isinstance(data, dict) else {}


def page_html(page: Data) -> str:
    """The page as text. A page with `live` may also ask its own server."""
    live = page["live"] is not None
    skeleton, style, script = (_asset(name) for name in ASSETS)
    parts = {
        "CSP": html.escape(policy(live=live), quote=False),
        "TITLE": html.escape(f"{page['study']}: levelfield"),
        "STYLE": style,
        "DATA": to_json(page).translate(_ESCAPES),  # cannot end its element
        "SCRIPT": script,
    }
    # one pass: what a part contains is never read as a mark
    return re.sub("%%([A-Z]+)%%", lambda mark: parts[mark[1]], skeleton)


def policy(*, live: bool = False) -> str:
    """The Content-Security-Policy: the page's own script, style and images only. live: and its own server."""
    _, style, script = (_asset(name) for name in ASSETS)
    same_origin = "'self' " if live else ""
    rules = [
        "default-src 'none'",
        f"script-src '{_hash(script)}'",
        f"style-src '{_hash(style)}'",
        f"img-src {same_origin}data: blob:",
        *(["connect-src 'self'"] if live else []),
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join(rules)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


@cache
def _asset(name: str) -> str:
    return resources.files("levelfield.reports.page").joinpath("assets", name).read_text(encoding="utf-8")


_KINDS = {"u1", "u2", "u4", "i4", "f4"}


def to_json(page: Data) -> str:
    """The page as ASCII JSON. Numbers that are not finite become null.

    >>> to_json({"mean": 0.5, "sd": float("nan"), "map": np.array([1, 256], np.uint16)})
    '{"mean":0.5,"sd":null,"map":{"dtype":"u2","shape":[2],"base64":"AQAAAQ=="}}'
    """
    return json.dumps(finite(page), default=_plain, allow_nan=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    """What JSON can hold of an array, a number of numpy, or a table."""
    if isinstance(value, Table):
        return value.as_data()
    if isinstance(value, np.generic):
        return finite(value.item())
    if not isinstance(value, np.ndarray):
        raise TypeError(f"The page cannot hold a {type(value).__name__}.")
    kind = f"{value.dtype.kind}{value.dtype.itemsize}"
    if kind not in _KINDS:
        raise TypeError(f"The page cannot hold an array of {value.dtype}; it can hold {', '.join(sorted(_KINDS))}.")
    content = np.ascontiguousarray(value, value.dtype.newbyteorder("<")).tobytes()
    return {"dtype": kind, "shape": list(value.shape), "base64": base64.b64encode(content).decode("ascii")}
