"""Representations of results in a notebook: a short line, a small HTML table, and pandas tables."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from levelfield.errors import MissingExtra


def one_line(name: str, facts: Mapping[str, Any]) -> str:
    """Text for `repr`.

    >>> one_line("Model", {"method": "margin", "dim": 128})
    "Model(method='margin', dim=128)"
    """
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in facts.items())})"


def html_table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]], *, notes: Sequence[str] = ()) -> str:
    """HTML table with a caption and lines below it. All texts are escaped.

    >>> html_table("<b>", ["metric"], [["recall@1"]])
    '<table><caption>&lt;b&gt;</caption><thead><tr><th>metric</th></tr></thead><tbody><tr><td>recall@1</td></tr></tbody></table>'
    """
    top = "".join(f"<th>{escape(text)}</th>" for text in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in row)}</tr>" for row in rows)
    caption = f"<caption>{escape(title)}</caption>"
    below = "".join(f"<p>{escape(note)}</p>" for note in notes)
    header = f"<thead><tr>{top}</tr></thead>" if top else ""
    return f"<table>{caption}{header}<tbody>{body}</tbody></table>{below}"


def frame(columns: Mapping[str, Any], *, index: str | None = None) -> Any:
    """pandas DataFrame of `columns`, one of which may be the index."""
    try:
        pandas = importlib.import_module("pandas")
    except ImportError as error:
        raise MissingExtra('to_pandas() needs pandas: pip install "levelfield[notebook]"') from error
    made = pandas.DataFrame(dict(columns))
    return made if index is None else made.set_index(index)
