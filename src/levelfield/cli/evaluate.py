"""`levelfield evaluate`: the scores of a run's stored test embeddings, or of arrays, without training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from levelfield import evaluation
from levelfield.cli import option_groups as groups
from levelfield.cli.console import bar, say, warnings_as_notes
from levelfield.cli.option_groups import in_output, numbers, with_groups, words
from levelfield.cli.options import option
from levelfield.errors import BadInput

if TYPE_CHECKING:
    from levelfield.evaluation.search.distances import Distance
    from levelfield.reports.evaluation import EmbeddingSet
    from levelfield.reports.evaluation.scores import ScoreTable

_in_rows = partial(option, panel="Rows")
_in_extent = partial(option, panel="Extent")


@dataclass(frozen=True)
class RowOptions:
    """One row for each of these."""

    distance: Annotated[
        str | None, _in_rows("--distance", "cosine (default), euclidean, dot, hamming; several: one row each.")
    ] = None
    binary: Annotated[bool, _in_rows("--binary", "One bit per dimension: same as --distance hamming.")] = False
    dim: Annotated[str | None, _in_rows("--dim", "Use only the first columns; several (32,64): one row each.")] = None
    refine: Annotated[
        str | None,
        _in_rows(
            "--refine",
            "Also evaluate after message passing among test images: reciprocal, kmeans:clusters=90; "
            "several: one row each. Needs a run of message_passing.",
        ),
    ] = None

    def distances(self) -> list[Distance]:
        from levelfield.evaluation.search.distances import distance_called

        named = [] if self.distance is None else [distance_called(word) for word in words("distance", self.distance)]
        if self.binary:
            named.append("hamming")
        return list(dict.fromkeys(named)) or ["cosine"]

    def dims(self) -> list[int]:
        return numbers("dim", self.dim) if self.dim else []


@dataclass(frozen=True)
class ExtentOptions:
    """How many queries are searched, and by whom."""

    sample: Annotated[
        int | None, _in_extent("--sample", "Measure this many random queries, each searched in all rows.", min=1)
    ] = None
    jobs: Annotated[
        int | None, _in_extent("--jobs", "Share the queries among this many processes.", min=1, max=1024)
    ] = None
    ray: Annotated[
        str | None,
        _in_extent("--ray", "Share the queries among processes of Ray, here or on a cluster.", metavar="[ADDRESS]"),
    ] = None

    def shards(self) -> AbstractContextManager[evaluation.Shards | None]:
        """Who searches the blocks of queries; None: the threads of this process."""
        from levelfield.distributed.ray_connection import address_of

        if self.ray is not None:
            return evaluation.on_ray(address_of(self.ray))
        return nullcontext(None if self.jobs is None else evaluation.in_processes(self.jobs))


@dataclass(frozen=True)
class FileOptions:
    """Further files to write."""

    per_class: Annotated[Path | None, in_output("--per-class", "Write the mean of each class (CSV).")] = None
    per_query: Annotated[Path | None, in_output("--per-query", "Write the values of each query (CSV).")] = None
    neighbours: Annotated[Path | None, in_output("--neighbours", "Write the nearest rows of each query (CSV).")] = None
    nearest: Annotated[int, in_output("--nearest", "Number of rows for --neighbours.", min=1)] = 10
    page: Annotated[Path | None, in_output("--page", "Write a page with the images (HTML).")] = None
    images: Annotated[
        Path | None, in_output("--images", "Without a run: file with one image path per row, for --page.")
    ] = None
    same_from: Annotated[
        float | None, in_output("--same-from", "For --page: least cosine of the same class (see levelfield threshold).")
    ] = None

    def named(self) -> list[str]:
        """The flags of the files to write."""
        names = ("per_class", "per_query", "neighbours", "page")
        return [f"--{name.replace('_', '-')}" for name in names if getattr(self, name) is not None]

    def write(self, scores: ScoreTable) -> None:
        """Write the CSV files."""
        if self.per_class is not None:
            scores.write_classes(self.per_class)
        if self.per_query is not None:
            scores.write_queries(self.per_query)
        if self.neighbours is not None:
            scores.write_neighbours(self.neighbours, self.nearest)

    def write_page(self, scores: ScoreTable) -> None:
        from levelfield.reports.evaluation.page import write_page

        if self.page is not None:
            with bar("making the page") as progress:
                write_page(self.page, scores.rows, images=self.images, threshold=self.same_from, progress=progress)


@with_groups
def evaluate(
    source: groups.EmbeddingOptions,
    metrics: groups.MetricOptions,
    ci: groups.ConfidenceOption = 0.95,
    starts: groups.StartsOption = 3,
    *,
    rows: RowOptions,
    extent: ExtentOptions,
    files: FileOptions,
    output: groups.OutputOptions,
    model: groups.ModelOptions,
) -> None:
    """Evaluate a run's stored test embeddings, or your own arrays."""
    from levelfield.embedder.devices import usable
    from levelfield.reports.evaluation import evaluate_each

    embeddings, distances, dims = source.read(), rows.distances(), rows.dims()
    settings = {**metrics.settings(), "starts": starts, "ci": ci or None, "sample": extent.sample}
    _check_files(embeddings, files, metrics.memory)
    if extent.jobs is not None and extent.ray is not None:
        raise BadInput("--jobs and --ray cannot be combined: Ray starts its own processes.")
    others = [*(["--refine"] if rows.refine else []), *files.named()]
    if extent.sample is not None and others:
        raise BadInput(f"--sample and {others[0]} cannot be combined: {others[0]} needs all queries.")
    _check_rows(embeddings, settings, distances, dims, files)
    sets = [embeddings, *_refined(embeddings, rows)]
    with extent.shards() as shards, bar("evaluating") as progress, warnings_as_notes():
        scores = evaluate_each(
            sets,
            distances=distances,
            dims=dims or [None],
            device=usable(model.device) if shards is None else "cpu",
            shards=shards,
            progress=progress,
            **settings,
        )
    output.save(scores)  # before anything that can fail
    files.write(scores)
    output.print(scores)
    files.write_page(scores)
    if files.page is not None and not output.as_json:
        say(f"Open {files.page}")


def _refined(embeddings: EmbeddingSet, rows: RowOptions) -> Iterator[EmbeddingSet]:
    """The embeddings after each refinement."""
    if rows.refine is None:
        return
    if embeddings.run is None:
        raise BadInput("--refine needs a run folder: its trained network computes the messages.")
    if rows.dim:
        raise BadInput("--refine and --dim cannot be combined: messages need whole embeddings.")
    from levelfield.methods.refine.passing import Refinement

    refinements = [Refinement.parse(text) for text in words("refine", rows.refine)]  # all, before the first is computed
    for refinement in refinements:
        with bar(f"refining ({refinement.text})") as progress:
            yield embeddings.refine(refinement, progress=progress)


def _check_files(embeddings: EmbeddingSet, files: FileOptions, memory: str) -> None:
    """Refuse files that cannot be written, before anything is computed."""
    from levelfield.evaluation.search.ranking import parse_memory

    if files.page is None and (files.images or files.same_from is not None):
        flag = "--images" if files.images else "--same-from"
        raise BadInput(f"{flag} is for a page: give the page's file, too, e.g. --page out.html.")
    if files.page is not None:
        if files.page.suffix.lower() != ".html":
            raise BadInput(f"--page {files.page}: the file name must end with .html.")
        if (files.images is None) == (embeddings.run is None):
            known = "a run knows its images: leave --images out" if embeddings.run else "give --images FILE"
            raise BadInput(f"--page shows images; {known}.")
        if "query_ids" in embeddings.arrays:
            raise BadInput("--page cannot be combined with --query-ids: to search all rows, leave the gallery out.")
    size = 4 * embeddings.rows.size if embeddings.rows.ndim == 2 else 0
    for flag in {"--neighbours", "--page"}.intersection(files.named()):
        if size > parse_memory(memory):
            needed = -(-size // 10**6)
            raise BadInput(
                f"{flag} needs a copy of the embeddings, {needed:,} MB, but --memory is {memory}: leave out {flag} or "
                f"use --memory {needed + 100}MB."
            )


def _check_rows(
    embeddings: EmbeddingSet, settings: dict[str, Any], distances: list[Distance], dims: list[int], files: FileOptions
) -> None:
    """Refuse metrics, distances and dimensions that would otherwise fail only after long computation."""
    from levelfield.evaluation.inputs import check_dim
    from levelfield.evaluation.metrics.geometry import refuse_undefined
    from levelfield.evaluation.metrics.registry import parse_all

    metrics = parse_all(settings.get("metrics"), k=settings["k"])
    for distance in distances:
        refuse_undefined(metrics, distance)
    if (files.per_class or files.per_query) and not any(metric.kind == "retrieval" for metric in metrics):
        raise BadInput(
            "None of these metrics has a value per query or class: --per-class and --per-query need a "
            "retrieval metric such as recall@1."
        )
    shapes = [array for array in (embeddings.rows, embeddings.gallery) if array is not None]
    if any(array.ndim != 2 for array in shapes):
        return  # refused by the evaluation, before it computes anything
    for dim in dims:
        check_dim(dim, embeddings.rows.shape[1], "embeddings")
    most = len(embeddings.rows) - 1 if embeddings.gallery is None else len(embeddings.gallery)
    if files.neighbours and files.nearest > most:
        raise BadInput(f"--nearest {files.nearest}: there are only {most} other rows.")
