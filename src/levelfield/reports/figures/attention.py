"""seidenschwarz2021, figure 2 (right): the attention scores of a batch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from levelfield.errors import BadInput, LevelfieldError
from levelfield.randomness import numpy_stream
from levelfield.reports.figures._drawing import panels, save, shortened
from levelfield.reports.figures._registry import register
from levelfield.reports.figures._rows import Drawn

if TYPE_CHECKING:
    from levelfield.studies.specification.study import Study

METHOD = "message_passing"


def _no_messages(study: Study) -> str | None:
    passes = any(method.name == METHOD for method in study.methods)
    return None if passes else f"it needs the method `{METHOD}`, which the study does not have"


@register(
    "attention",
    "attention scores between the images of a batch, for each `message_passing` row",
    why_not=_no_messages,
)
def draw_attention(rows: list[Drawn], metric: str, path: Path) -> Path:
    """Draw the first seed of each row that passes messages; its batch has test images, as many of a class as in
    training."""
    attention = {}
    for row in (row for row in rows if row.method == METHOD and row.results):
        try:
            attention[row.row.label] = scores_of(row.results[0].folder)
        except LevelfieldError:  # refined rows are not what messages started from, and joined runs have no network
            continue
    if not attention:
        raise BadInput(
            f"The figure 'attention' needs a finished run of `{METHOD}` without `refine` and with test embeddings."
        )
    return draw(attention, path)


def scores_of(folder: Path) -> tuple[np.ndarray, list[str]]:
    """Attention (steps, n, n), the mean over heads, in a batch of test images, and the class of each image."""
    import torch

    from levelfield.objectives.message_passing import MessagePassing
    from levelfield.studies.runs.finished import refiner, stored_test
    from levelfield.studies.runs.folder.store import read_spec

    method = refiner(folder)
    assert isinstance(method.objective, MessagePassing)
    layout = method.layout or read_spec(folder).conditions.layout
    rows, items = stored_test(folder)
    batch = chosen_batch(items.classes, layout.batch_size // max(1, layout.per_class), max(1, layout.per_class))
    weights = method.objective.attention(torch.from_numpy(rows[batch]))
    return weights.mean(dim=1).numpy(), items.classes[batch].tolist()


def chosen_batch(classes: np.ndarray, count: int, each: int) -> np.ndarray:
    """Places of `each` images of `count` classes, drawn by a named stream; fewer where there are fewer.

    >>> chosen_batch(np.array(["a", "b", "b", "a", "c"]), 2, 2).tolist()
    [4, 1, 2]
    """
    stream = numpy_stream(0, "attention", "batch")
    names = stream.permutation(np.unique(classes))[:count]
    return np.concatenate([np.sort(stream.permutation(np.flatnonzero(classes == name))[:each]) for name in names])


def draw(attention: dict[str, tuple[np.ndarray, list[str]]], path: Path) -> Path:
    """Draw a line of panels per row, one panel per step of messages."""
    steps = max(len(scores) for scores, _ in attention.values())
    figure, axes = panels(len(attention), steps, width=4.6 * steps + 1.4, height=4.4 * len(attention))
    for line, ((scores, classes), name) in zip(
        axes, zip(attention.values(), shortened(list(attention), 36), strict=True), strict=True
    ):
        for axis in line[len(scores) :]:
            axis.set_visible(False)
        for number, (axis, table) in enumerate(zip(line, scores, strict=False), 1):
            _panel(axis, table, classes, f"{name}, step {number}" if len(scores) > 1 else name)
    return save(figure, path)


def _panel(axis: Any, table: np.ndarray, classes: list[str], title: str) -> None:
    image = axis.imshow(table, cmap="viridis", vmin=0.0)
    axis.figure.colorbar(image, ax=axis, shrink=0.8, label="attention, mean over heads")
    names = np.array(classes)
    starts = np.flatnonzero(np.r_[True, names[1:] != names[:-1]])
    for start in starts[1:]:
        axis.axhline(start - 0.5, color="white", linewidth=0.5)
        axis.axvline(start - 0.5, color="white", linewidth=0.5)
    middles = (starts + np.r_[starts[1:], len(names)] - 1) / 2
    axis.set_yticks(middles, shortened(names[starts].tolist(), 24), fontsize=7 if len(starts) < 15 else 4)
    axis.set_xticks([])
    axis.set(xlabel="sender", ylabel="receiver")
    own = float(table[names[:, None] == names].sum() / table.sum())
    axis.set_title(f"{title}: {own:.0%} from the own class, {np.mean(names[:, None] == names):.0%} if equal")
