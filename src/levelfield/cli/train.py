"""`levelfield train`: train one method of a study, by default the best one of the leaderboard that trains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from levelfield import studies
from levelfield.cli import options
from levelfield.cli.console import StudyBars, bars, checking_images, console
from levelfield.cli.option_groups import Environment, with_groups
from levelfield.cli.options import option, processes_override, quoted, root_override
from levelfield.distributed.processes import torchrun_rank
from levelfield.errors import BadSpecification, LevelfieldError, unknown
from levelfield.trust import trust

if TYPE_CHECKING:
    from levelfield.studies.runs.training import Options


@with_groups
def train(
    study: Annotated[str, typer.Argument(help="Name or file of the study.")],
    overrides: options.Overrides = None,
    *,
    method: Annotated[
        str, option("--method", "Label of a method, or [cyan]best[/cyan]: the best row that trains.")
    ] = "best",
    all_classes: Annotated[bool, option("--all-classes", "Train on every class, with none left for the test.")] = False,
    seed: Annotated[int, typer.Option("--seed", min=0)] = 0,
    root: options.RootOption = None,
    environment: Environment,
    processes: options.ProcessesOption = None,
    tensorboard: options.TensorboardOption = False,
    trust_files: options.TrustOption = None,
) -> None:
    """Train one method of a study, by default the best one of the leaderboard that trains.

    Compared models trained on only half of the classes: see --all-classes.
    """
    if (size := torchrun_rank()[1]) > 1:
        raise BadSpecification(f"`levelfield train` does not work under torchrun: use --processes {size}.")
    words = [*(overrides or []), *root_override(root), *processes_override(processes)]
    whole = _read_study(study, words, method)
    from levelfield.distributed.processes import warm_up

    warm_up()  # in parallel with this process's imports and checks

    from levelfield.studies.planning.one_method import one_method

    run_options = environment.options(tensorboard=tensorboard)
    best = _best_trained_run(whole, environment, run_options) if method == "best" else None
    label, variation = (method, ()) if best is None else (best.label, best.variation)
    compared = environment.out / whole.name if all_classes else None
    chosen = one_method(whole, label, seed=seed, variation=variation, all_classes=compared)
    if chosen.steps:
        console.print(f"Steps: {chosen.steps}, the median of the steps chosen on validation classes in compared runs.")
    elif chosen.steps == 0:
        console.print(f"No step of '{label}' was better than its start on the validation classes: the start is used.")
    with checking_images() as checked:
        resolved = studies.resolve(chosen.study, options=run_options, tested=False, progress=checked)
    runs, folder = chosen.runs(resolved), environment.out / chosen.study.name
    with bars() as drawn:
        progress = StudyBars(drawn, [run.title for run in runs])
        describe = all_classes or not (folder / "study.yaml").exists()  # the compared study keeps its description
        outcome = studies.execute_study(resolved, folder, jobs=1, runs=runs, progress=progress, describe=describe)
    if outcome.failed:
        raise LevelfieldError(f"The run failed: {next(iter(outcome.failed.values()))}")
    trained = runs[-1].folder(folder)  # the runs that it needs come first
    where = " on every class" if all_classes else ""
    console.print(f"Trained '{chosen.label}'{where}: {trained}")
    console.print(f"  levelfield embed {quoted(trained)} FOLDER --out embeddings.npy", soft_wrap=True)
    if outcome.unmeasured:
        reason = next(iter(outcome.unmeasured.values()))
        raise LevelfieldError(f"The run could not be evaluated on corrupted images: {reason}")


def _read_study(study: str, overrides: list[str], method: str) -> studies.Study:
    """The study, checked as far as that needs no torch."""
    from levelfield.studies.specification.methods import check_names
    from levelfield.studies.specification.yaml_file import named_by

    trust(*named_by(study, overrides))
    whole = studies.read_study(study, overrides)
    check_names(whole)
    labels = [method_spec.label for method_spec in whole.methods]
    if method not in (*labels, "best"):
        raise unknown("method of the study", method, [*labels, "best"])
    return whole


def _best_trained_run(study: studies.Study, environment: Environment, options: Options) -> studies.PlannedRun:
    """A run of the best row that trained."""
    from levelfield.studies.runs.folder.store import read_plan

    folder = environment.out / study.name
    runs = read_plan(folder) if (folder / "runs.json").exists() else studies.resolve(study, options=options).runs
    board = studies.gather(study.name, runs, folder, study.metrics)
    metric, best = board.metrics[0], board.best_trained
    kind = "trained method" if best.trained else "row (none of them trained)"
    console.print(f"Best {kind} by {metric}: {best.label} ({best.cells[metric].mean:.3f}).")
    above = [row.label for row in board.rows[: board.rows.index(best)]]
    if above:
        console.print(f"Untrained rows above it: {', '.join(above)}.")
    if ties := board.ties(best.label):
        console.print(f"Ties with: {', '.join(tie.second for tie in ties)}.")
    return next(run for run in runs if run.row == best.label)
