"""Finished runs joined into one model: its scores, beside those of its members."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from levelfield.errors import BadInput
from levelfield.evaluation.metrics.registry import parse_all
from levelfield.evaluation.statistics.crossed import MIN_CLASSES
from levelfield.files.writing import finite, write_json
from levelfield.progress import SILENT, Progress
from levelfield.studies.runs.folder.store import read_result
from levelfield.studies.runs.joined.join import Figure, Separated, free, join, separate
from levelfield.studies.runs.joined.members import Member, checked
from levelfield.table import Column, Table, numbers


@dataclass(frozen=True)
class EnsembleScores:
    """Scores of the members, their mean, and of the concatenated embeddings in `folder`."""

    folder: Path
    members: list[Member]
    scores: Separated
    seconds: float

    @property
    def dim(self) -> int:
        return sum(member.dim for member in self.members)

    def as_data(self) -> dict[str, Any]:
        scores = finite(asdict(self.scores))
        members = [
            {
                "run": member.title,
                "folder": str(member.folder),
                "dim": member.dim,
                "refined": member.refined or "none",
                "metrics": figures,
            }
            for member, figures in zip(self.members, scores["members"], strict=True)
        ]
        return {
            "members": members,
            "separated": {"metrics": scores["separated"]},
            "concatenated": {"dim": self.dim, "seconds": self.seconds, "metrics": scores["joined"]},
        }

    def show(self, console: Console) -> None:
        """Print the table and sentences about it."""
        self._table().show(console)
        intervals = "Intervals: 95 %, over test classes, for these networks."
        if all(figure.low is None for figure in self.scores.joined.values()):
            intervals = (
                f"No intervals: they need at least {MIN_CLASSES} test classes and a metric with a value per query."
            )
        sentences = [f"{len(self.members[0].items):,} test images. {intervals}"]
        if refined := [f"{member.title} ({member.refined})" for member in self.members if member.refined]:
            sentences.append(
                f"DEVIATION, refined: {', '.join(refined)}. The embedding of an image then depends on the other "
                "test images. The joined model does not refine."
            )
        sentences.append(f"Written: {self.folder} (one model, {self.dim} dimensions)")
        for sentence in sentences:
            console.print(sentence, soft_wrap=True)

    def _table(self) -> Table:
        metrics = list(self.scores.joined)
        titles = [*(member.title for member in self.members), "separated (mean)", "concatenated"]
        dims = [*(str(member.dim) for member in self.members), "", str(self.dim)]
        scores = [*self.scores.members, self.scores.separated, self.scores.joined]
        rows = [
            [title, dim, *(_cell(figures[metric]) for metric in metrics)]
            for title, dim, figures in zip(titles, dims, scores, strict=True)
        ]
        columns = [Column(metric, right=True, group=metric) for metric in metrics]
        return Table(["run", *numbers("dim"), *columns], rows, keys=2, ruled=[len(self.members) - 1])


def join_runs(
    runs: Sequence[Path], out: Path, *, metrics: str | None = None, force: bool = False, progress: Progress = SILENT
) -> EnsembleScores:
    """Concatenate the embeddings of finished runs into the run folder `out`, and evaluate them. Nothing is trained.

    Args:
        runs: folders of two runs or more.
        out: folder of the ensemble, a normal run folder; also gets summary.json.
        metrics: comma-separated; None: those that all runs have.
        force: replace an ensemble in `out`.
        progress: gets a stage for joining and one for evaluating the members.
    """
    if len(runs) < 2:
        raise BadInput("An ensemble needs two runs or more.")
    members = checked(runs)
    if not members[0].items:
        raise BadInput(
            f"{members[0].folder} was trained on every class: no test classes are left to evaluate the ensemble on."
        )
    if metrics is None:
        first, *others = (member.result.values for member in members)
        names = tuple(name for name in first if all(name in values for values in others))
    else:
        names = tuple(metric.name for metric in parse_all(metrics, k=(1, 2, 4, 8)))
    if not names:
        raise BadInput("These runs have no metric in common: choose metrics, e.g. --metrics recall@1,map@r.")
    free(out, members, force=force)
    join(runs, out, names, progress=progress)
    together = read_result(out)
    assert together is not None
    scores = separate(members, together, names, progress=progress)
    ensemble = EnsembleScores(out, members, scores, together.summary["seconds"])
    write_json(out / "summary.json", ensemble.as_data())
    return ensemble


def _cell(figure: Figure) -> str:
    return f"{figure.value:.4f}" + ("" if figure.low is None else f"\n{figure.low:.3f}-{figure.high:.3f}")
