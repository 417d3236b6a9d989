"""roth2020, figures 6 and 12: lines, their embeddings without and with the switch, and the singular values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.evaluation import spectrum
from levelfield.papers.toy import Outcome, Setting
from levelfield.reports.figures._drawing import panels, plainly, save
from levelfield.reports.figures._rows import COLOURS, GREY

TEST_RADIUS = 1.25  # test rows are drawn on a wider circle, so that they do not hide the training rows

CLASSES = (*COLOURS, GREY)  # four that train, four that test


@plainly
def draw_toy(outcomes: Mapping[str, Sequence[tuple[Setting, Outcome]]], path: Path) -> Path:
    """Draw one row of panels per form: the data, the embeddings under each setting, the training spectra."""
    columns = max(len(results) for results in outcomes.values()) + 2
    figure, axes = panels(len(outcomes), columns, width=2.6 * columns, height=2.9 * len(outcomes))
    for row, (form, results) in zip(axes, outcomes.items(), strict=True):
        data = results[0][1]
        _points(row[0], data, data.train, data.test)
        row[0].set(aspect="equal", xlim=(0, 1.1), ylim=(0, 1.1), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
        row[0].set_title(f"{form}: data\n(o train, x test)")
        for axis, (setting, outcome) in zip(row[1:], results, strict=False):
            _circle(axis, setting.label, outcome)
        width = 0.8 / len(results)
        for number, (setting, outcome) in enumerate(results):
            values = spectrum(outcome.train_rows)
            positions = np.arange(2) + (number - (len(results) - 1) / 2) * width
            colour = COLOURS[number % len(COLOURS)]
            row[-1].bar(positions, values / values.sum(), width, color=colour, label=setting.label)
        row[-1].axhline(0.5, color="#888888", linewidth=0.8, linestyle=":")
        row[-1].set(xticks=[0, 1], xticklabels=["first", "second"], ylim=(0, 1))
        row[-1].set_title("singular values\n(share, training rows)")
        row[-1].legend(fontsize=6, frameon=False)
    return save(figure, path)


def _points(axis: Any, outcome: Outcome, train: Any, test: Any) -> None:
    for label in range(4):
        axis.plot(*train[outcome.train_labels == label].T, "o", color=CLASSES[label], markersize=3)
        axis.plot(*test[outcome.test_labels == label].T, "x", color=CLASSES[label + 4], markersize=4)


def _circle(axis: Any, title: str, outcome: Outcome) -> None:
    turn = np.linspace(0, 2 * np.pi, 200)
    for radius in (1.0, TEST_RADIUS):
        axis.plot(radius * np.cos(turn), radius * np.sin(turn), color="#cccccc", linewidth=0.7, zorder=0)
    _points(axis, outcome, outcome.train_rows, TEST_RADIUS * outcome.test_rows)
    axis.set(aspect="equal", xlim=(-1.4, 1.4), ylim=(-1.4, 1.4), xticks=[], yticks=[])
    axis.spines[:].set_visible(False)
    axis.set_title(title.replace(", ", ",\n").replace(": ", ":\n"))
