"""Options that `compare`, `tune` and `train` share, in groups: a parameter that is a group stands for its options."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from levelfield.cli.options import (
    CompactOption,
    DeviceOption,
    FullOption,
    ImagesOption,
    OutOption,
    RootOption,
    SkipOption,
    TrustOption,
    WorkersOption,
)


@dataclass(frozen=True)
class Source:
    """The study: a variant of a named one, or one for the user's photos."""

    data: Annotated[
        Path | None, typer.Option("--data", help="Folder with one sub-folder per class, a CSV, or a benchmark's name.")
    ] = None
    root: RootOption = None
    mini: Annotated[bool, typer.Option("--mini", help="The study in minutes: embedded data, frozen network.")] = False
    small: Annotated[bool, typer.Option("--small", help="The study in hours: as --mini, but the network trains.")] = (
        False
    )
    on: Annotated[str | None, typer.Option("--on", help="Use the study's variant for another dataset, e.g. cars.")] = (
        None
    )
    skip_unreadable: SkipOption = False
    trust_files: TrustOption = None


@dataclass(frozen=True)
class Environment:
    """Where runs are stored and computed."""

    out: OutOption = Path("runs")
    device: DeviceOption = "auto"
    workers: WorkersOption = None
    cache: Annotated[Path | None, typer.Option("--cache", help="Cache folder for computed features.")] = None


@dataclass(frozen=True)
class Parallel:
    """How many runs at once, and on which machines."""

    jobs: Annotated[
        int,
        typer.Option("--jobs", "-j", min=0, help="Number of parallel runs; 0: one per GPU, or per core without one."),
    ] = 1
    ray: Annotated[
        str | None,
        typer.Option(
            "--ray",
            metavar="[ADDRESS]",
            help="Give the runs to Ray: to a cluster (HOST:PORT, auto or RAY_ADDRESS), else to a Ray on this machine.",
        ),
    ] = None
    ship_features: Annotated[
        bool,
        typer.Option(
            "--ship-features", help="With --ray: send computed features to nodes that do not have the images."
        ),
    ] = False


@dataclass(frozen=True)
class Output:
    """What the report of a comparison holds."""

    compact: CompactOption = False
    page: Annotated[bool, typer.Option("--page/--no-page", help="Write report.html, a page with the images.")] = True
    full: FullOption = False


@dataclass(frozen=True)
class Search:
    """How settings are searched."""

    trials: Annotated[int | None, typer.Option("--trials", "-n", help="Number of trials per method; default 30.")] = (
        None
    )
    budget: Annotated[
        str | None, typer.Option("--budget", help="Instead of trials: 10m, 1h or '200k images' per method.")
    ] = None
    validation: Annotated[
        float | None,
        typer.Option("--validation", help="Share of the training classes used for validation; default 0.25."),
    ] = None
    folds: Annotated[
        int | None,
        typer.Option(
            "--folds", help="Instead of --validation: number of class-disjoint folds of the training classes."
        ),
    ] = None
    sampler: Annotated[str | None, typer.Option("--sampler", help="tpe, gp, cma (Optuna), halton, random or grid.")] = (
        None
    )
    metric: Annotated[
        str | None,
        typer.Option("--metric", help="Metric to optimise; default: the one that chooses steps, or the study's first."),
    ] = None
    prune: Annotated[bool, typer.Option("--prune", help="Stop weak trials early and try more settings.")] = False
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the sampler and of every trial.")] = 0
    ranges: Annotated[
        list[str] | None,
        typer.Option("--search", help="A range, e.g. 'hist.tau=[8, 64, log]' or 'common.lr=...'; repeatable."),
    ] = None


@dataclass(frozen=True)
class ModelOptions:
    """Where the model of a run computes, and where its images are."""

    workers: WorkersOption = None
    root: ImagesOption = None
    device: DeviceOption = "auto"
    trust_files: TrustOption = None


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of its groups as parameters of their own, for typer."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if isinstance(kind, type) and is_dataclass(kind)}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        if parameter.name not in groups:
            parameters.append(parameter.replace(annotation=hints[parameter.name]))
            continue
        group = groups[parameter.name]
        kinds = get_type_hints(group, include_extras=True)
        for option in fields(group):
            default = inspect.Parameter.empty if option.default is MISSING else option.default
            parameters.append(
                inspect.Parameter(option.name, parameter.kind, default=default, annotation=kinds[option.name])
            )

    @functools.wraps(command)
    def flat(**options: Any) -> None:
        values = {
            name: group(**{option.name: options.pop(option.name) for option in fields(group)})
            for name, group in groups.items()
        }
        command(**options, **values)

    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return flat
