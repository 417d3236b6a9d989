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
        _data(row[0], form, results[0][1])
        for axis, (setting, outcome) in zip(row[1:], results, strict=False):
            _circle(axis, setting.label, outcome)
        _spectra(row[-1], results)
    return save(figure, path)


def _data(axis: Any, form: str, outcome: Outcome) -> None:
    for label in range(4):
        own = outcome.train_labels == label
        axis.plot(*outcome.train[own].T, "o", color=CLASSES[label], markersize=3)
        own = outcome.test_labels == label
        axis.plot(*outcome.test[own].T, "x", color=CLASSES[label + 4], markersize=4)
    axis.set(aspect="equal", xlim=(0, 1.1), ylim=(0, 1.1), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    axis.set_title(f"{form}: data\n(o train, x test)")


def _circle(axis: Any, title: str, outcome: Outcome) -> None:
    turn = np.linspace(0, 2 * np.pi, 200)
    for radius in (1.0, TEST_RADIUS):
        axis.plot(radius * np.cos(turn), radius * np.sin(turn), color="#cccccc", linewidth=0.7, zorder=0)
    for label in range(4):
        axis.plot(*outcome.train_rows[outcome.train_labels == label].T, "o", color=CLASSES[label], markersize=3)
        tested = TEST_RADIUS * outcome.test_rows[outcome.test_labels == label]
        axis.plot(*tested.T, "x", color=CLASSES[label + 4], markersize=4)
    axis.set(aspect="equal", xlim=(-1.4, 1.4), ylim=(-1.4, 1.4), xticks=[], yticks=[])
    axis.spines[:].set_visible(False)
    axis.set_title(title.replace(", ", ",\n").replace(": ", ":\n"))


def _spectra(axis: Any, results: Sequence[tuple[Setting, Outcome]]) -> None:
    width = 0.8 / len(results)
    for number, (setting, outcome) in enumerate(results):
        values = spectrum(outcome.train_rows)
        positions = np.arange(2) + (number - (len(results) - 1) / 2) * width
        axis.bar(positions, values / values.sum(), width, color=COLOURS[number % len(COLOURS)], label=setting.label)
    axis.axhline(0.5, color="#888888", linewidth=0.8, linestyle=":")
    axis.set(xticks=[0, 1], xticklabels=["first", "second"], ylim=(0, 1))
    axis.set_title("singular values\n(share, training rows)")
    axis.legend(fontsize=6, frameon=False)
