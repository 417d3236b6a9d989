"""Options that `evaluate`, `threshold`, `compact` and `corrupt` share, as dataclasses: each field is one option."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from levelfield.cli.console import console
from levelfield.cli.options import MaybeRunArgument
from levelfield.errors import BadInput
from levelfield.files.writing import write_text
from levelfield.trust import trust

if TYPE_CHECKING:
    from rich.console import Console

    from levelfield.reports.evaluation import EmbeddingSet


def option(panel: str, flag: str, text: str, **settings: Any) -> Any:
    """An option in a panel of the help."""
    return typer.Option(flag, help=text, rich_help_panel=panel, **settings)


@dataclass(frozen=True)
class EmbeddingOptions:
    """A run, or arrays of embeddings and labels."""

    run: MaybeRunArgument = None
    embeddings: Annotated[Path | None, option("Arrays", "--embeddings", "Embeddings (.npy), one row per image.")] = None
    labels: Annotated[
        Path | None, option("Arrays", "--labels", "One label per row, numbers or text (.npy, .txt, .csv).")
    ] = None
    gallery: Annotated[Path | None, option("Arrays", "--gallery", "Gallery embeddings (.npy) to search instead.")] = (
        None
    )
    gallery_labels: Annotated[Path | None, option("Arrays", "--gallery-labels", "One label per gallery row.")] = None
    query_ids: Annotated[
        Path | None, option("Arrays", "--query-ids", "For each query, its own row in the gallery; -1: none.")
    ] = None

    def read(self) -> EmbeddingSet:
        from levelfield.reports.evaluation import EmbeddingSet

        gallery = {"gallery": self.gallery, "gallery_labels": self.gallery_labels, "query_ids": self.query_ids}
        if (self.run is None) == (self.embeddings is None and self.labels is None):
            raise BadInput("Give a run folder, or --embeddings with --labels.")
        if self.run is not None:
            if any(gallery.values()):
                raise BadInput(
                    "--gallery, --gallery-labels and --query-ids need --embeddings: a run defines which of its "
                    "test images are searched."
                )
            return EmbeddingSet.of_run(self.run)
        if self.embeddings is None or self.labels is None:
            raise BadInput("--embeddings and --labels must be given together: one label per row.")
        return EmbeddingSet.of_files(self.embeddings, self.labels, **gallery)


@dataclass(frozen=True)
class MetricOptions:
    """What is measured, and how."""

    metrics: Annotated[
        str | None, option("Metrics", "--metrics", "Comma-separated metrics (levelfield list metrics).")
    ] = None
    k: Annotated[str, option("Metrics", "--k", "Values of k for recall and precision given without @k.")] = "1,2,4,8"
    average: Annotated[str, option("Metrics", "--average", "Average over queries or over classes: query, class.")] = (
        "query"
    )
    ties: Annotated[str, option("Metrics", "--ties", "Treatment of ties: expected, pessimistic or optimistic.")] = (
        "expected"
    )
    lone: Annotated[
        str | None,
        option(
            "Metrics",
            "--lone",
            "Queries with no other image of their class: exclude, or miss (the default for runs with a gallery).",
        ),
    ] = None
    seed: Annotated[int, option("Metrics", "--seed", "Seed of k-means and of a sample.")] = 0
    memory: Annotated[
        str, option("Metrics", "--memory", "Memory limit of the search; a larger .npy file is read in parts.")
    ] = "2GB"

    def settings(self) -> dict[str, Any]:
        """Arguments of `levelfield.evaluate`; `metrics` only if they were named."""
        from levelfield.registry import references_in

        metrics = {} if self.metrics is None else {"metrics": words("metrics", self.metrics)}
        trust(*references_in(metrics))
        lone = {} if self.lone is None else {"lone": self.lone}
        fixed = {"average": self.average, "ties": self.ties, "seed": self.seed, "memory": self.memory}
        return {**metrics, **lone, **fixed, "k": numbers("k", self.k)}


class Results(Protocol):
    """What a command prints."""

    def as_data(self) -> Any: ...

    def show(self, console: Console, *, signatures: bool) -> None: ...


@dataclass(frozen=True)
class OutputOptions:
    """How results are printed and saved."""

    out: Annotated[Path | None, option("Output", "--out", "Write the output of --json to this file.")] = None
    signatures: Annotated[bool, option("Output", "--signatures", "Show the definition of each score.")] = False
    as_json: Annotated[bool, option("Output", "--json", "Print JSON, signatures included.")] = False

    def save(self, results: Results) -> None:
        """Write the file of --out, if one was named."""
        if self.out is not None:
            write_text(self.out, _text(results) + "\n")

    def print(self, results: Results) -> None:
        if self.as_json:
            typer.echo(_text(results))
        else:
            results.show(console, signatures=self.signatures)


def _text(results: Results) -> str:
    return json.dumps(results.as_data(), indent=2, allow_nan=False)


def words(flag: str, text: str) -> list[str]:
    """Comma-separated words of an option; at least one."""
    from levelfield.evaluation import split

    named = list(split(text))
    if not named:
        raise BadInput(f"--{flag} is empty" + ("; see `levelfield list metrics`." if flag == "metrics" else "."))
    return named


def numbers(flag: str, text: str) -> list[int]:
    """Comma-separated positive integers of an option."""
    named = words(flag, text)
    if not all(word.isdecimal() and len(word) < 19 and int(word) > 0 for word in named):
        raise BadInput(f"--{flag} {text}: must be comma-separated positive integers, such as 1,10,100.")
    return [int(word) for word in named]
