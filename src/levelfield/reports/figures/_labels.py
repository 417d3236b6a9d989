"""Row labels: shortened for figures, and placed in a legend that fits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

LONG = 40  # characters of a label; longer labels are shortened in the middle
TALL = 9.0  # inches of a legend in one column


def shortened(texts: Sequence[str], most: int = LONG) -> list[str]:
    """The texts, shortened to about `most` characters; distinct texts stay distinct.

    >>> shortened(["margin", "a very long label [dim=64]", "a very long label [dim=65]"], 14)
    ['margin', 'a very l…m=64]', 'a very l…m=65]']
    """
    found: dict[str, str] = {}
    head = 8 * most // 14
    for text in dict.fromkeys(texts):
        short = text if len(text) <= most else f"{text[:head]}…{text[len(text) - (most - head - 1) :]}"
        number = 2
        while short in found.values():
            short, number = f"{text[:head]}… ({number})", number + 1
        found[text] = short
    return [found[text] for text in texts]


def legend_beside(figure: Any, handles: Sequence[Any], names: Sequence[str]) -> None:
    """Add a legend to the right of all panels, in several columns if it is tall; the figure grows to fit it."""
    extent = _legend(figure, handles, names, columns=1)
    columns = math.ceil(extent.height / figure.dpi / TALL)
    if columns > 1:
        figure.legends[-1].remove()
        extent = _legend(figure, handles, names, columns=columns)
    wide, high = figure.get_size_inches()
    figure.set_size_inches(wide + extent.width / figure.dpi, max(high, extent.height / figure.dpi + 0.2))


def _legend(figure: Any, handles: Sequence[Any], names: Sequence[str], *, columns: int) -> Any:
    """Add the legend and return its extent in pixels."""
    legend = figure.legend(
        handles, names, loc="outside right center", ncols=columns, fontsize=7, frameon=False, handlelength=3.2
    )
    return legend.get_window_extent(figure.canvas.get_renderer())
