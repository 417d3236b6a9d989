"""What a loss learns beside embeddings: attention between images, and distributions of classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from levelfield.errors import BadInput, LevelfieldError
from levelfield.methods import learns_distributions
from levelfield.objectives.message_passing import MessagePassing
from levelfield.randomness import numpy_stream
from levelfield.reports.figures._drawing import limits, panels, plainly, save, shortened
from levelfield.reports.figures._registry import nothing_trains, register
from levelfield.reports.figures._rows import COLOURS, Drawn
from levelfield.studies.runs.finished import Distributions, distributions_of, refiner, stored_test
from levelfield.studies.runs.folder.store import read_spec
from levelfield.studies.specification.study import Study

METHOD = "message_passing"
MAX_MATRIX_CLASSES = 300  # evenly chosen; more would exceed the resolution


def _no_messages(study: Study) -> str | None:
    passes = any(method.name == METHOD for method in study.methods)
    return None if passes else f"it needs the method `{METHOD}`, which the study does not have"


@register(
    "attention", "attention scores between the images of a batch, for each `message_passing` row", why_not=_no_messages
)
def draw_attention(rows: list[Drawn], metric: str, path: Path) -> Path:
    """seidenschwarz2021, figure 2 (right): the first seed of each row that passes messages, one panel per step.

    The batch has test images, as many of a class as in training.
    """
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
    steps = max(len(scores) for scores, _ in attention.values())
    figure, axes = panels(len(attention), steps, width=4.6 * steps + 1.4, height=4.4 * len(attention))
    for line, (scores, classes), name in zip(axes, attention.values(), shortened(list(attention), 36), strict=True):
        for axis in line[len(scores) :]:
            axis.set_visible(False)
        names = np.array(classes)
        same = names[:, None] == names
        starts = np.flatnonzero(np.r_[True, names[1:] != names[:-1]])
        middles = (starts + np.r_[starts[1:], len(names)] - 1) / 2
        for number, (axis, table) in enumerate(zip(line, scores, strict=False), 1):
            image = axis.imshow(table, cmap="viridis", vmin=0.0)
            figure.colorbar(image, ax=axis, shrink=0.8, label="attention, mean over heads")
            for start in starts[1:]:
                axis.axhline(start - 0.5, color="white", linewidth=0.5)
                axis.axvline(start - 0.5, color="white", linewidth=0.5)
            axis.set_yticks(middles, shortened(names[starts].tolist(), 24), fontsize=7 if len(starts) < 15 else 4)
            axis.set(xticks=[], xlabel="sender", ylabel="receiver")
            title, same_class = f"{name}, step {number}" if len(scores) > 1 else name, table[same].sum() / table.sum()
            axis.set_title(f"{title}: {same_class:.0%} from the own class, {same.mean():.0%} if equal")
    return save(figure, path)


def scores_of(folder: Path) -> tuple[np.ndarray, list[str]]:
    """Attention (steps, n, n), the mean over heads, in a batch of test images, and the class of each image."""
    method = refiner(folder)
    assert isinstance(method.objective, MessagePassing)
    layout = method.layout or read_spec(folder).conditions.layout
    rows, items = stored_test(folder)
    each = max(1, layout.per_class)
    batch = chosen_batch(items.classes, layout.batch_size // each, each)
    weights = method.objective.attention(torch.from_numpy(rows[batch]))
    return weights.mean(dim=1).numpy(), items.classes[batch].tolist()


def chosen_batch(classes: np.ndarray, count: int, each: int) -> np.ndarray:
    """Positions of `each` images of `count` classes, drawn by a named stream; fewer where there are fewer.

    >>> chosen_batch(np.array(["a", "b", "b", "a", "c"]), 2, 2).tolist()
    [4, 1, 2]
    """
    stream = numpy_stream(0, "attention", "batch")
    names = stream.permutation(np.unique(classes))[:count]
    return np.concatenate([np.sort(stream.permutation(np.flatnonzero(classes == name))[:each]) for name in names])


def _no_hist(study: Study) -> str | None:
    if any(learns_distributions(method.name) for method in study.methods):
        return None
    return nothing_trains(study) or "it needs the method `hist`, which the study does not have"


@register(
    "distributions",
    "what `hist` learned of its classes: similarities of their means, and their spreads",
    why_not=_no_hist,
)
def draw_distributions(rows: list[Drawn], metric: str, path: Path) -> Path:
    """lim2022, figure 2, for the first seed of every HIST row: similarities of means, and a scatter plot of spreads."""
    shown = [row for row in rows if row.results and learns_distributions(row.method)]
    by_label = {row.row.label: distributions_of(row.results[0].folder) for row in shown}
    distributions = {label: learned for label, learned in by_label.items() if learned is not None}
    if not distributions:
        raise BadInput(
            "The figure 'distributions' shows the class distributions learned by `hist`, and this study has no "
            "finished run of `hist` that learns means and variances."
        )
    return draw(distributions, path, {row.row.label: row.style.colour for row in rows})


@plainly
def draw(distributions: dict[str, Distributions], path: Path, colours: dict[str, str] | None = None) -> Path:
    """Draw learned means and covariances against the classes' own, one row of panels per entry."""
    figure, axes = panels(len(distributions), 2, width=9.2, height=3.9 * len(distributions), ratios=(1.15, 1))
    for line, (label, learned), name in zip(
        axes, distributions.items(), shortened(list(distributions), 28), strict=True
    ):
        count = len(learned.learned_means)
        chosen = np.unique(np.linspace(0, count - 1, min(count, MAX_MATRIX_CLASSES)).round().astype(int))
        table = learned.learned_means[chosen] @ learned.found_means[chosen].T
        image = line[0].imshow(table, cmap="viridis", vmin=min(0.0, table.min()), vmax=1.0)
        figure.colorbar(image, ax=line[0], shrink=0.8, label="cosine")
        part = "" if len(chosen) == count else f" ({len(chosen)} of {count} classes)"
        line[0].set(xlabel=f"mean of the class's embeddings{part}", ylabel="learned mean")
        same_class = float(np.sum(learned.learned_means * learned.found_means, axis=1).mean())
        others = float(learned.learned_means.sum(axis=0) @ learned.found_means.sum(axis=0) - same_class * count)
        line[0].set_title(f"{name}: own class {same_class:z.2f}, others {others / max(1, count**2 - count):z.2f}")
        colour = (colours or {}).get(label, COLOURS[0])
        line[1].plot(learned.found_spreads, learned.learned_spreads, "o", color=colour, markersize=3, alpha=0.5)
        line[1].set(xlim=limits(learned.found_spreads), ylim=limits(learned.learned_spreads))
        line[1].set_xlabel("mean squared distance to the class's mean")
        line[1].set_ylabel("Frobenius norm of the learned covariance")
        if count > 2 and learned.found_spreads.std() and learned.learned_spreads.std():
            correlation = np.corrcoef(learned.found_spreads, learned.learned_spreads)[0, 1]
            line[1].set_title(f"correlation over {count} classes: {correlation:z.2f}")
    return save(figure, path)
