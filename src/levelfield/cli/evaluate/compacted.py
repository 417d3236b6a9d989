"""`levelfield evaluate --compact`: bytes per embedding against score, and the difference from float32."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer

from levelfield.cli.console import bar, console, warnings_as_notes
from levelfield.cli.evaluate.arrays import read_array
from levelfield.cli.evaluate.corrupted import METRICS
from levelfield.cli.evaluate.files import as_data, finite
from levelfield.cli.evaluate.subject import Subject
from levelfield.cli.evaluate.tables import Evaluated, about, cell
from levelfield.errors import BadInput
from levelfield.evaluation import Interval
from levelfield.evaluation.compact_scores import compact_scores, undetermined
from levelfield.evaluation.metrics.registry import parse_all
from levelfield.evaluation.search.distances import Distance
from levelfield.files.writing import write_text
from levelfield.progress import Progress
from levelfield.studies.runs.finished import embed_part
from levelfield.table import Table, numbers


@dataclass(frozen=True)
class Row:
    """The evaluation of one compact form, and its difference from float32 (none for float32 itself)."""

    name: str
    evaluated: Evaluated
    differences: dict[str, Interval]


def check_options(train: Path | None, run: Path | None, wanted: bool) -> None:
    """Refuse training embeddings that nothing would use."""
    if train is not None and not wanted:
        raise BadInput("--train-embeddings is used by --compact only: give both.")
    if train is not None and run is not None:
        raise BadInput("--train-embeddings needs --embeddings: a run embeds its own training classes.")


def measure(
    run: Path | None,
    subject: Subject,
    train: Path | None,
    settings: dict[str, Any],
    distances: Sequence[Distance],
    dims: list[int],
    *,
    out: Path | None,
    as_json: bool,
    signatures: bool,
    unfit: dict[str, bool],
) -> None:
    """Print (or write) one row per compact form. unfit: given options that do not apply."""
    if other := [flag for flag, given in unfit.items() if given]:
        raise BadInput(f"--compact and {other[0]} cannot be combined: run two commands.")
    if len(distances) > 1 or distances[0] == "hamming":
        raise BadInput("--compact takes one --distance other than hamming: bits are a row of its table.")
    if subject.bits == 1:
        raise BadInput(
            f"The embeddings of {run} are binary codes, one bit per number: there is nothing to compact. "
            "For fewer bits use --dim."
        )
    settings = {**settings, "metrics": settings["metrics"] or METRICS}
    for wanted in parse_all(settings["metrics"], k=settings["k"]):
        if wanted.kind != "retrieval":
            raise BadInput(f"--compact compares retrieval metrics, such as recall@1; '{wanted.name}' is not one.")
    fitted, notes = _training_rows(run, subject, train)
    rows = list(_rows(subject, fitted, settings, distances[0], dims))
    dim = subject.arrays["embeddings"].shape[1]
    if fitted is not None and (lacking := undetermined([row.name for row in rows], dim, dims or None)):
        notes.append(f"Left out: {lacking}")
    text = json.dumps({"compact": [_data(row) for row in rows], "left_out": notes}, indent=2, allow_nan=False)
    if out is not None:
        write_text(out, text + "\n")
    if as_json:
        typer.echo(text)
        return
    _table(rows).show(console)
    sentences = [*about([row.evaluated for row in rows]), "Difference: from float32, paired by class.", *notes]
    if fitted is not None:
        sentences.insert(-len(notes) or len(sentences), f"Fitted on {len(fitted):,} training images.")
    console.print(" ".join(sentences), highlight=False, soft_wrap=True)
    for row in rows if signatures else ():
        for metric in row.evaluated.result:
            console.print(f"{row.name}: {row.evaluated.signature(metric)}", highlight=False, soft_wrap=True)


def _training_rows(run: Path | None, subject: Subject, train: Path | None) -> tuple[np.ndarray | None, list[str]]:
    """Embeddings of training classes, or the sentence that says what is left out without them."""
    left_out = "Left out: int8, bits and whitened, which are fitted on training embeddings"
    if run is None:
        if train is None:
            return None, [f"{left_out}: give --train-embeddings FILE."]
        return read_array(train), []
    if subject.refined:
        return None, [f"{left_out}; the run's stored model alone cannot repeat its refinement ({subject.refined})."]
    with bar("embedding") as progress:
        return embed_part(run, "training", progress=progress)[0], []


def _rows(
    subject: Subject, train: np.ndarray | None, settings: dict[str, Any], distance: Distance, dims: list[int]
) -> Iterator[Row]:
    warned = set[str]()

    @contextmanager
    def shown(name: str) -> Iterator[Progress]:
        with bar(f"evaluating ({name})") as progress, warnings_as_notes(warned):
            yield progress

    for one in compact_scores(train, subject.arrays, settings, dims=dims or None, distance=distance, shown=shown):
        form = one.form
        made = Evaluated(one.result, form.distance, subject.refined, models=subject.models, bits=form.bits)
        yield Row(form.name, made, one.differences)


def _data(row: Row) -> dict[str, Any]:
    """The row as plain data, like that of `--dim`, with its name and differences."""
    data = as_data(row.evaluated)
    for metric, found in row.differences.items():
        difference: dict[str, Any] = {"value": found.mean}
        if row.evaluated.result.intervals:
            difference["interval"] = {"level": found.level, "classes": [found.low, found.high]}
        data["metrics"][metric]["difference"] = finite(difference)
    return {"stored_as": row.name, **data}


def _table(rows: list[Row]) -> Table:
    """One line per form; metrics that do not fit follow in another table, each with its difference."""
    metrics = list(rows[0].evaluated.result)
    columns = [*numbers("bytes")]
    for metric in metrics:
        columns += numbers(metric, "difference", group=metric)

    def fields(row: Row) -> list[str]:
        scores = [(cell(row.evaluated.result, metric), _difference(row, metric)) for metric in metrics]
        return [row.name, str(row.evaluated.bytes), *(text for pair in scores for text in pair)]

    return Table(["stored as", *columns], [fields(row) for row in rows], keys=2)


def _difference(row: Row, metric: str) -> str:
    if metric not in row.differences:
        return ""
    found = row.differences[metric]
    if not row.evaluated.result.intervals:
        return f"{found.mean:+.4f}"
    return f"{found.mean:+.4f}\n" + ("-" if math.isnan(found.low) else f"{found.low:+.3f} to {found.high:+.3f}")
