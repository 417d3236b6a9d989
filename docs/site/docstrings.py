"""How the reference shows docstrings: examples as code, and lines such as `rows: (n, d)` as a list of names.

An extension of griffe, which reads the package without running it.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

SECTIONS = ("Args:", "Returns:", "Raises:", "Yields:")
_EXAMPLE = re.compile(r"(?:^>>>.*\n(?:(?!\s*$).*\n?)*\n?)+", re.MULTILINE)
_ITEM = re.compile(r"^(`?)(\*{0,2}\w+(?:, \w+)*)\1: (?=\S)")


class Docstrings(griffe.Extension):
    """Rewrites the docstring of every object of the package."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        waiting: list[Any] = [pkg]
        while waiting:
            one = waiting.pop()
            waiting += [member for member in one.members.values() if not member.is_alias]
            if one.docstring is not None:
                given = one.parameters if one.is_function or one.is_class else []
                known = {parameter.name for parameter in given} | set(one.members)
                one.docstring.value = shown(one.docstring.value, known)


def shown(text: str, known: set[str]) -> str:
    """The docstring as Markdown; `known`: names of parameters and attributes."""
    text = _EXAMPLE.sub(lambda block: f"```pycon\n{block[0].rstrip()}\n```\n\n", f"{text}\n").rstrip()
    lines: list[str] = []
    inside = fenced = section = False
    for line in text.split("\n"):
        fenced ^= line.startswith("```")
        section = line in SECTIONS or (section and bool(line))
        item = None if fenced or section else _ITEM.match(line)
        if item and set(item[2].split(", ")) <= known:
            if not inside and lines and lines[-1]:
                lines.append("")
            lines.append(f"- `{item[2]}`: {line[item.end() :]}")
            inside = True
        else:
            inside = inside and bool(line)
            lines.append(f"  {line}" if inside else line)
    return "\n".join(lines)
