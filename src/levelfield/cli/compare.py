"""`levelfield compare` and `levelfield train`."""

from __future__ import annotations

import csv
import json
import os
import shlex
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from levelfield import methods
from levelfield.cli.console import StudyBars, console, is_quiet, looking
from levelfield.errors import BadSpecification, LevelfieldError, MissingData, unknown
from levelfield.reports import show, with_published, write_all
from levelfield.reports.figures import check_figures, draw_figures, figures_of
from levelfield.reports.leaks import crossings, with_leaks, write_crossings
from levelfield.reports.robustness import robustness, show_robustness, write_robustness
from levelfield.studies.compare import carry_out, prepare
from levelfield.studies.estimate import Estimate, estimate
from levelfield.studies.leaderboard import Leaderboard, gather
from levelfield.studies.own_data import demo_content, fit_to
from levelfield.studies.plan import needed_labels, with_needed
from levelfield.studies.reading import read_study
from levelfield.studies.run import Options
from levelfield.studies.runs import PlannedRun
from levelfield.studies.specification import Study, assign, parse_study
from levelfield.studies.store import is_finished, read_plan
from levelfield.studies.theory import count, countable, total

Overrides = Annotated[
    list[str] | None, typer.Argument(help="Overrides such as [cyan]conditions.dim=64 seeds=5[/cyan].")
]
OutOption = Annotated[Path, typer.Option("--out", help="Where results go.")]
DeviceOption = Annotated[str, typer.Option("--device", help="cpu, cuda, cuda:1, mps.")]
JobsOption = Annotated[int, typer.Option("--jobs", "-j", min=0, help="Runs side by side; 0 takes one per core.")]
WorkersOption = Annotated[int, typer.Option("--workers", min=0, help="Processes that decode images, per run.")]
CacheOption = Annotated[Path | None, typer.Option("--cache", help="Where computed features are kept.")]
RootOption = Annotated[Path | None, typer.Option("--root", help="Where the benchmark lies that the data names.")]
SkipOption = Annotated[bool, typer.Option("--skip-unreadable", help="Leave out images that cannot be read.")]
BoardOption = Annotated[bool, typer.Option("--tensorboard", help="Also write TensorBoard logs into each run.")]


def add_to(app: typer.Typer) -> None:
    app.command("compare", epilog="Example: levelfield compare studies/demo.yaml conditions.dim=64 seeds=5 --jobs 2")(
        compare
    )
    app.command("train", epilog="Example: levelfield train studies/demo.yaml --method best --all-classes")(train)


def compare(
    study: Annotated[str | None, typer.Argument(help="A study file; without one, the demo's methods.")] = None,
    overrides: Overrides = None,
    data: Annotated[
        Path | None, typer.Option("--data", help="Folder with one sub-folder per class, a CSV, or a benchmark's name.")
    ] = None,
    root: RootOption = None,
    out: OutOption = Path("runs"),
    device: DeviceOption = "cpu",
    jobs: JobsOption = 1,
    workers: WorkersOption = 0,
    cache: CacheOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show plan, cost and deviations; train nothing.")] = False,
    mini: Annotated[bool, typer.Option("--mini", help="The study's small form, on the embedded data.")] = False,
    on: Annotated[str | None, typer.Option("--on", help="The study's form for another dataset, as cars.")] = None,
    skip_unreadable: SkipOption = False,
    tensorboard: BoardOption = False,
) -> None:
    """Train every method of a study under equal conditions and say which is best, and how sure that is."""
    overrides = list(overrides or [])
    if study is not None and "=" in study and not Path(study).exists():
        overrides, study = [study, *overrides], None
    chosen = choose_study(study, overrides, data, skip_unreadable, root, mini=mini, on=on)
    check_figures(figures_of(chosen))
    try:
        with looking() as told:
            runs = prepare(chosen, device=device, progress=told)
    except MissingData as error:
        if not dry_run or not countable(chosen):
            raise
        print_counted(chosen, str(error))
        return
    folder = out / chosen.name
    jobs = jobs or os.cpu_count() or 1
    options = Options(device=usable(device), cache_folder=cache, workers=workers, tensorboard=tensorboard)
    if dry_run or data is not None:
        left = [run for run in runs if not is_finished(run.folder(folder), run.spec, chosen.metrics)]
        print_plan(chosen, runs, estimate(chosen, left, options=options, jobs=jobs), details=dry_run)
    if dry_run:
        return
    board = run_and_gather(chosen, runs, folder, jobs, options)
    crossing = crossings(board, runs, folder)
    leaks = write_crossings(crossing, folder)
    board = with_leaks(board, crossing, folder)
    robust = robustness(chosen, board, runs, folder)
    paths = write_all(board, folder) + write_robustness(robust, folder)
    paths += draw_figures(figures_of(chosen), board, runs, folder) + leaks
    show(board, console)
    show_robustness(robust, console)
    console.print(f"\nWritten: {', '.join(str(path) for path in paths)}", soft_wrap=True, highlight=False)
    _print_next(board, chosen, out, data)
    if board.missing:
        raise LevelfieldError(
            f"{len(board.missing)} of {len(runs)} runs did not finish; see error.txt in their folders under "
            f"{folder}. Start the same command again to retry them."
        )


def train(
    study: Annotated[str, typer.Argument(help="The study file.")],
    overrides: Overrides = None,
    method: Annotated[
        str, typer.Option("--method", help="A method's label, or [cyan]best[/cyan]: the leaderboard's winner.")
    ] = "best",
    all_classes: Annotated[
        bool, typer.Option("--all-classes", help="Train on every class, none left to test.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed")] = 0,
    root: RootOption = None,
    out: OutOption = Path("runs"),
    device: DeviceOption = "cpu",
    workers: WorkersOption = 0,
    cache: CacheOption = None,
    tensorboard: BoardOption = False,
) -> None:
    """Train one method of a study, by default the winner. The compared models saw only half of the classes."""
    whole = read_study(study, [*_root(root), *(overrides or [])])
    content = whole.model_dump(mode="json") | {"vary": {}}
    label = method
    if method == "best":
        winner = _winner(whole, out)
        label = winner.label
        for key, value in winner.variation:
            assign(content, key, value)
    labels = [m.label for m in whole.methods]
    if label not in labels:
        raise unknown("method of the study", label, [*labels, "best"])
    needed = needed_labels(whole.methods, label)
    content["methods"] = [m for m in content["methods"] if m["label"] in needed]
    if not any(methods.joins_seeds(m.name, m.settings) for m in whole.methods if m.label in needed):
        content["seeds"] = [seed]
    if all_classes:
        content |= {"name": f"{whole.name}-all-classes", "protocol": {"name": "all-classes"}}
        if whole.conditions.select != "budget":
            raise BadSpecification("With --all-classes no class is left to validate: set conditions.select=budget.")
    chosen = parse_study(content)
    with looking() as told:
        planned = prepare(chosen, tested=False, device=device, progress=told)
    own = [run for run in planned if run.label == label and (run.spec.seed == seed or not run.seeded)]
    if not own:
        there = ", ".join(map(str, chosen.seeds))
        raise BadSpecification(f"'{label}' needs all seeds of the study: --seed {seed} is none of them ({there}).")
    runs = with_needed(planned, own[-1])  # the last one joins the others, if there are members
    folder = out / chosen.name
    options = Options(device=usable(device), cache_folder=cache, workers=workers, tensorboard=tensorboard)
    with StudyBars([run.title for run in runs]) as bars:
        known = (folder / "study.yaml").exists() and not all_classes  # the compared study keeps its description
        outcome = carry_out(chosen, runs, folder, jobs=1, options=options, listen=bars.listen, describe=not known)
    if outcome.failed:
        raise LevelfieldError(f"The run failed: {next(iter(outcome.failed.values()))}")
    run_folder = runs[-1].folder(folder)  # after all that it needs
    console.print(
        f"Trained '{label}'" + (" on every class" if all_classes else "") + f": {run_folder}", highlight=False
    )
    console.print(f"  levelfield embed {_quoted(run_folder)} FOLDER --out embeddings.npy", soft_wrap=True)


def choose_study(
    study: str | None,
    overrides: list[str],
    data: Path | None,
    skip_unreadable: bool,
    root: Path | None = None,
    *,
    mini: bool = False,
    on: str | None = None,
) -> Study:
    """The study to run: a file, or the demo's methods fitted to the user's photos."""
    if study is not None:
        # quoted, since a folder's name may look like YAML; the settings of the study's own data do not fit another
        extra = ["data=" + json.dumps({"name": str(data)}, ensure_ascii=False)] if data is not None else []
        extra += _root(root) + (["data.skip_unreadable=true"] if skip_unreadable else [])
        return read_study(study, [*extra, *overrides], mini=mini, on=on)
    if mini or on:
        raise BadSpecification("--mini and --on choose a form of a study file: name one.")
    if data is None:
        raise BadSpecification(
            "Name a study file (levelfield compare studies/demo.yaml) or photos (levelfield compare --data FOLDER)."
        )
    wished = parse_study(demo_content() | {"data": str(data)}, overrides, origin="the study made for your photos")
    fixed = {override.partition("=")[0] for override in overrides}
    with looking() as told:
        content, changes = fit_to(
            data,
            root=root,
            allow_incomplete=bool(wished.data.settings.get("allow_incomplete")),
            skip_unreadable=skip_unreadable,
            fixed=fixed,
            protocol=wished.protocol,
            progress=told,
        )
    if not is_quiet():
        for change in changes:
            console.print(f"- {change}", highlight=False)
    return parse_study(content, overrides, origin="the study made for your photos")


def _root(root: Path | None) -> list[str]:
    return [] if root is None else ["data.root=" + json.dumps(str(root), ensure_ascii=False)]


def run_and_gather(study: Study, runs: list[PlannedRun], folder: Path, jobs: int, options: Options) -> Leaderboard:
    with StudyBars([run.title for run in runs]) as bars:
        outcome = carry_out(study, runs, folder, jobs=jobs, options=options, listen=bars.listen)
    if len(outcome.failed) == len(runs):
        raise LevelfieldError(f"Every run failed; the first: {next(iter(outcome.failed.values()))}")
    return with_published(gather(study.name, runs, folder, study.metrics, claims=study.claims), runs)


def print_plan(study: Study, runs: list[PlannedRun], cost: Estimate, *, details: bool) -> None:
    """What would be done and what it would cost; figures that are not known are said to be not known."""
    if details:
        table = Table(title=f"{study.name}: {len(runs)} runs", title_justify="left", pad_edge=False)
        for name in ("method", "runs", "seconds each", "deviations (conditions)"):
            table.add_column(name, justify="right" if name in ("runs", "seconds each") else "left", overflow="fold")
        for row in cost.rows:
            table.add_row(row.label, str(row.runs), f"{row.seconds:.0f}", ", ".join(row.deviations) or "none")
        console.print(table)
    console.print(cost.text, highlight=False)


def print_counted(study: Study, reason: str) -> None:
    """The plan of a study whose data or weights are not here: what can be counted, and nothing else."""
    runs, rows = count(study)
    table = Table(title=f"{study.name}: {len(runs)} runs", title_justify="left", pad_edge=False, box=SIMPLE_HEAD)
    for name in ("method", "runs", "images", "trunk passes", "FLOPs", "bytes"):
        table.add_column(name, justify="left" if name == "method" else "right", overflow="fold")
    for row in [*rows, total(rows)]:
        table.add_row(
            row.label, str(row.runs), f"{row.images:,}", f"{row.rows:,}", f"{row.operations:.2e}", f"{row.bytes:.1e}"
        )
    console.print(table)
    console.print(
        "Images: seen in training. Trunk passes: images through the trunk, in training, for selection and monitoring "
        "(if nothing ends a run early), and for the test. FLOPs: multiplications "
        "and additions. By the official numbers of images. Hours: not known, since nothing was measured on this "
        f"device.\nCounted only, because: {reason}",
        highlight=False,
    )


def usable(device: str) -> str:
    """The device, once something could be put there."""
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise BadSpecification(f"The device '{device}' cannot be used here: {str(error).splitlines()[0]}") from error
    return device


def _print_next(board: Leaderboard, study: Study, out: Path, data: Path | None) -> None:
    """The next three commands, with real paths. The study is named as it was run, overrides and all."""
    run = _quoted(board.winner.first_run)
    with (Path(board.winner.first_run) / "items.csv").open(encoding="utf-8", newline="") as items:
        example = Path(list(csv.DictReader(items))[-1]["path"])
    named = data or Path(study.data.name)
    photos = _quoted(named if named.exists() else example.parent)
    place = "" if out == Path("runs") else f" --out {_quoted(out)}"
    console.print("\nNext:")
    for command in (
        f"levelfield search {run} --gallery {photos} {_quoted(example)}",
        f"levelfield embed {run} {photos} --out embeddings.npy",
        f"levelfield train {_quoted(out / study.name / 'study.yaml')} --method best --all-classes{place}",
    ):
        console.print(f"  {command}", soft_wrap=True)


def _quoted(path: Path | str) -> str:
    return shlex.quote(str(path))


def _winner(study: Study, out: Path) -> PlannedRun:
    runs = prepare(study) if not (out / study.name / "runs.json").exists() else read_plan(out / study.name)
    board = gather(study.name, runs, out / study.name, study.metrics)
    metric, best = board.metrics[0], board.winner
    console.print(f"Best trained method by {metric}: {best.label} ({best.cells[metric].mean:.3f}).")
    above = [row.label for row in board.rows[: board.rows.index(best)]]
    if above:
        console.print(f"Without training stand above it: {', '.join(above)}.")
    level = [
        one.second if one.first == best.label else one.first
        for one in board.comparisons
        if best.label in (one.first, one.second) and not one.real()
    ]
    if level:
        console.print(f"It cannot be told from: {', '.join(level)}.")
    return next(run for run in runs if run.row == best.label)
