"""Groups of options that several commands share: a parameter of a command that is a group stands for its options."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from levelfield import evaluation
from levelfield.cli import options
from levelfield.cli.console import Results, json_text, print_results
from levelfield.cli.options import option, trust_named
from levelfield.errors import BadInput
from levelfield.files.writing import write_text

if TYPE_CHECKING:
    from levelfield.reports.evaluation import EmbeddingSet
    from levelfield.studies.runs.training import Options


@dataclass(frozen=True)
class Source:
    """The study: a variant of a named one, or one for the user's photos."""

    data: Annotated[
        Path | None, option("--data", "Folder with one sub-folder per class, a CSV, or a benchmark's name.")
    ] = None
    root: options.RootOption = None
    mini: Annotated[bool, option("--mini", "The study in minutes: embedded data, frozen network.")] = False
    small: Annotated[bool, option("--small", "The study in hours: as --mini, but the network trains.")] = False
    on: Annotated[str | None, option("--on", "Use the study's variant for another dataset, e.g. cars.")] = None
    skip_unreadable: options.SkipOption = False
    trust_files: options.TrustOption = None


@dataclass(frozen=True)
class Environment:
    """Where runs are stored and computed."""

    out: options.OutOption = Path("runs")
    device: options.DeviceOption = "auto"
    workers: options.WorkersOption = None
    cache: Annotated[Path | None, option("--cache", "Cache folder for computed features.")] = None

    def options(self, *, tensorboard: bool = False) -> Options:
        """How runs are executed, on a device that was checked."""
        from levelfield.embedder.devices import usable
        from levelfield.studies.runs.training import Options

        return Options(usable(self.device), self.cache, self.workers, tensorboard)


@dataclass(frozen=True)
class Parallel:
    """How many runs at once, and on which machines."""

    jobs: Annotated[
        int | None,
        option("--jobs", "-j", "Number of parallel runs; 0: one per GPU, or per core without one. Default: 1.", min=0),
    ] = None
    ray: Annotated[
        str | None,
        option(
            "--ray",
            "Give the runs to Ray: to a cluster (HOST:PORT, auto or RAY_ADDRESS), else to a Ray on this machine.",
            metavar="[ADDRESS]",
        ),
    ] = None

    def count(self, device: str, processes: int = 1) -> int:
        """The number of parallel runs. processes: of each run."""
        return 1 if self.jobs is None else self.all(device, processes)

    def all(self, device: str, processes: int = 1) -> int:
        """The same, but as many as the machine has room for by default."""
        from levelfield.embedder.devices import capacity

        return self.jobs or capacity(device, processes)


@dataclass(frozen=True)
class Output:
    """What the report of a comparison holds."""

    compact: options.CompactOption = False
    page: Annotated[bool, option("--page/--no-page", "Write report.html, a page with the images.")] = True
    full: options.FullOption = False


@dataclass(frozen=True)
class Search:
    """How settings are searched."""

    trials: Annotated[int | None, option("--trials", "-n", "Number of trials per method; default 30.", min=1)] = None
    budget: Annotated[str | None, option("--budget", "Instead of trials: 10m, 1h or '200k images' per method.")] = None
    validation: Annotated[
        float | None,
        option(
            "--validation", "Share of the training classes used for validation; default 0.25.", min=1e-4, max=0.9999
        ),
    ] = None
    folds: Annotated[
        int | None,
        option("--folds", "Instead of --validation: number of class-disjoint folds of the training classes.", min=2),
    ] = None
    sampler: Annotated[str | None, option("--sampler", "tpe, gp, cma (Optuna), halton, random or grid.")] = None
    metric: Annotated[
        str | None, option("--metric", "Metric to optimise; default: the one that chooses steps, or the study's first.")
    ] = None
    seed: Annotated[int, option("--seed", "Seed of the sampler and of every trial.", min=0)] = 0
    ranges: Annotated[
        list[str] | None, option("--search", "A range, e.g. 'hist.tau=[8, 64, log]' or 'common.lr=...'; repeatable.")
    ] = None


@dataclass(frozen=True)
class ModelOptions:
    """Where the model of a run computes, and where its images are."""

    workers: options.WorkersOption = None
    root: options.ImagesOption = None
    device: options.DeviceOption = "auto"
    trust_files: options.TrustOption = None


in_arrays = functools.partial(option, panel="Arrays")
in_metrics = functools.partial(option, panel="Metrics")
in_output = functools.partial(option, panel="Output")
ConfidenceOption = Annotated[float, in_metrics("--ci", "Confidence level of the intervals; 0: none.")]
DistanceOption = Annotated[str, in_metrics("--distance", "cosine, euclidean, dot or hamming (bits).")]
ColumnsOption = Annotated[int | None, in_metrics("--dim", "Use only the first columns.", min=1)]
StartsOption = Annotated[
    int, in_metrics("--starts", "Number of k-means starts for nmi, ami, ari, f1.", min=1, max=10_000)
]


@dataclass(frozen=True)
class EmbeddingOptions:
    """A run, or arrays of embeddings and labels."""

    run: options.MaybeRunArgument = None
    embeddings: Annotated[Path | None, in_arrays("--embeddings", "Embeddings (.npy), one row per image.")] = None
    labels: Annotated[Path | None, in_arrays("--labels", "One label per row, numbers or text (.npy, .txt, .csv).")] = (
        None
    )
    gallery: Annotated[Path | None, in_arrays("--gallery", "Gallery embeddings (.npy) to search instead.")] = None
    gallery_labels: Annotated[Path | None, in_arrays("--gallery-labels", "One label per gallery row.")] = None
    query_ids: Annotated[
        Path | None, in_arrays("--query-ids", "For each query, its own row in the gallery; -1: none.")
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

    metrics: Annotated[str | None, in_metrics("--metrics", "Comma-separated metrics (levelfield list metrics).")] = None
    k: Annotated[str, in_metrics("--k", "Values of k for recall and precision given without @k.")] = "1,2,4,8"
    average: Annotated[str, in_metrics("--average", "Average over queries or over classes: query, class.")] = "query"
    ties: Annotated[str, in_metrics("--ties", "Treatment of ties: expected, pessimistic or optimistic.")] = "expected"
    lone: Annotated[
        str | None,
        in_metrics(
            "--lone",
            "Queries with no other image of their class: exclude, or miss (the default for runs with a gallery).",
        ),
    ] = None
    seed: Annotated[int, in_metrics("--seed", "Seed of k-means and of a sample.", min=0)] = 0
    memory: Annotated[
        str, in_metrics("--memory", "Memory limit of the search; a larger .npy file is read in parts.")
    ] = "2GB"

    def settings(self) -> dict[str, Any]:
        """Arguments of `levelfield.evaluate`; `metrics` and `lone` only if they were given."""
        metrics = {} if self.metrics is None else {"metrics": words("metrics", self.metrics)}
        trust_named(metrics)
        lone = {} if self.lone is None else {"lone": self.lone}
        fixed = {"average": self.average, "ties": self.ties, "seed": self.seed, "memory": self.memory}
        return {**metrics, **lone, **fixed, "k": numbers("k", self.k)}


@dataclass(frozen=True)
class OutputOptions:
    """How results are printed and saved."""

    out: Annotated[Path | None, in_output("--out", "Write the output of --json to this file.")] = None
    signatures: Annotated[bool, in_output("--signatures", "Show the definition of each score.")] = False
    as_json: Annotated[bool, in_output("--json", "Print JSON, signatures included.")] = False

    def show(self, results: Results) -> None:
        """Write the file of --out if one was named, and print."""
        self.save(results)
        self.print(results)

    def save(self, results: Results) -> None:
        if self.out is not None:
            write_text(self.out, json_text(results.as_data()) + "\n")

    def print(self, results: Results) -> None:
        print_results(results, as_json=self.as_json, signatures=self.signatures)


def words(flag: str, text: str) -> list[str]:
    """Comma-separated words of an option; at least one."""
    names = evaluation.split(text)
    if not names:
        raise BadInput(f"--{flag} is empty" + ("; see `levelfield list metrics`." if flag == "metrics" else "."))
    return names


def numbers(flag: str, text: str) -> list[int]:
    """Comma-separated positive integers of an option."""
    values = words(flag, text)
    if not all(word.isdecimal() and len(word) < 19 and int(word) > 0 for word in values):
        raise BadInput(f"--{flag} {text}: must be comma-separated positive integers, such as 1,10,100.")
    return [int(word) for word in values]


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of its groups as parameters of their own, for typer."""
    signature = inspect.signature(command, eval_str=True).parameters.values()
    groups: dict[str, Any] = {
        parameter.name: parameter.annotation for parameter in signature if is_dataclass(parameter.annotation)
    }
    parameters: list[inspect.Parameter] = []
    for parameter in signature:
        if parameter.name in groups:
            members = inspect.signature(groups[parameter.name], eval_str=True).parameters.values()
            parameters += [member.replace(kind=parameter.kind) for member in members]
        else:
            parameters.append(parameter)

    @functools.wraps(command)
    def flat(**options: Any) -> None:
        values = {
            name: group(**{field.name: options.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**options, **values)

    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return flat
