"""Draw the flowcharts of the pages as pictures: mermaid's script is large and would have to be downloaded.

It knows what architecture.md uses: `a["<b>name</b><br/>text"] --> b["..."]`, drawn from top to bottom.
"""

from __future__ import annotations

import re
from html import escape, unescape

_BLOCK = re.compile(r"^```mermaid\nflowchart TD\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_BOX = re.compile(r'(\w+)(?:\["(.*?)"\])?')
WIDTH, HEIGHT, GAP_X, GAP_Y = 250, 62, 22, 40
LINE = 34  # characters in a line of a box


def drawn(markdown: str) -> str:
    """The page with every flowchart as a picture."""
    return _BLOCK.sub(lambda block: picture(block[1]), markdown)


def picture(text: str) -> str:
    """One flowchart as SVG in the colours of the page."""
    labels, edges = read(text)
    rows: dict[int, list[str]] = {}
    for name, depth in depths(labels, edges).items():
        rows.setdefault(depth, []).append(name)
    wide = max(len(row) for row in rows.values()) * (WIDTH + GAP_X)
    places = {}
    for depth, row in rows.items():
        start = (wide - len(row) * (WIDTH + GAP_X) + GAP_X) / 2
        places |= {name: (start + k * (WIDTH + GAP_X), depth * (HEIGHT + GAP_Y)) for k, name in enumerate(row)}
    arrows = [_arrow(places[one], places[other]) for one, other in edges]
    boxes = [_box(labels[name], *places[name]) for name in labels]
    tall = len(rows) * (HEIGHT + GAP_Y) - GAP_Y
    said = "; ".join(f"{one} to {other}" for one, other in edges)
    return (
        f'<svg class="diagram" viewBox="-2 -2 {wide + 4} {tall + 4}" role="img" aria-label="{escape(said)}">'
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0L8 4L0 8z"/></marker></defs>{"".join([*arrows, *boxes])}</svg>'
    )


def read(text: str) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The label of every box by its name, and the arrows."""
    labels: dict[str, str] = {}
    edges = []
    for line in filter(None, map(str.strip, text.splitlines())):
        boxes = [_BOX.fullmatch(part.strip()) for part in line.split("-->")]
        if len(boxes) != 2 or None in boxes:
            raise ValueError(f"Cannot draw this line of a flowchart: {line}")
        for box in boxes:
            if box and (box[2] or box[1] not in labels):
                labels[box[1]] = box[2] or box[1]
        edges.append((boxes[0][1], boxes[1][1]))  # type: ignore[index]
    return labels, edges


def depths(labels: dict[str, str], edges: list[tuple[str, str]]) -> dict[str, int]:
    """The row of every box: below all boxes with an arrow to it."""
    found = dict.fromkeys(labels, 0)
    for _ in labels:
        for one, other in edges:
            found[other] = max(found[other], found[one] + 1)
    return found


def _arrow(start: tuple[float, float], end: tuple[float, float]) -> str:
    (x, y), (u, v) = start, end
    return f'<path class="arrow" marker-end="url(#arrow)" d="M{x + WIDTH / 2} {y + HEIGHT}L{u + WIDTH / 2} {v - 2}"/>'


def _box(label: str, x: float, y: float) -> str:
    head, _, below = label.partition("<br/>")
    bold = re.sub(r"</?b>", "", unescape(head))
    lines = [*((line, True) for line in _wrapped(bold)), *((line, False) for line in _wrapped(unescape(below)))]
    first = y + HEIGHT / 2 + 5 - (len(lines) - 1) * 9
    texts = [
        f'<text x="{x + WIDTH / 2}" y="{first + 18 * k}"{" class=name" if strong else ""}>{escape(line)}</text>'
        for k, (line, strong) in enumerate(lines)
    ]
    return f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6"/>{"".join(texts)}'


def _wrapped(text: str) -> list[str]:
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= LINE:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
