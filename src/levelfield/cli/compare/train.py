"""`levelfield train`: train one method of a study, by default the leaderboard's winner."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from levelfield.cli.console import StudyBars, console, looking
from levelfield.cli.options import (
    CacheOption,
    DeviceOption,
    OutOption,
    Overrides,
    ProcessesOption,
    RootOption,
    TensorboardOption,
    TrustOption,
    WorkersOption,
    processes_override,
    quoted,
    root_override,
)
from levelfield.distributed.processes import torchrun_rank
from levelfield.errors import BadSpecification, LevelfieldError, unknown
from levelfield.trust import trust

if TYPE_CHECKING:
    from levelfield.studies.runs.spec import PlannedRun
    from levelfield.studies.specification.study import Study


def add_to(app: typer.Typer, panel: str) -> None:
    app.command("train", epilog="Example: levelfield train demo --method best --all-classes", rich_help_panel=panel)(
        train
    )


def train(
    study: Annotated[str, typer.Argument(help="Name or file of the study.")],
    overrides: Overrides = None,
    method: Annotated[
        str, typer.Option("--method", help="Label of a method, or [cyan]best[/cyan]: the leaderboard's winner.")
    ] = "best",
    all_classes: Annotated[
        bool, typer.Option("--all-classes", help="Train on every class, with none left for the test.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed")] = 0,
    root: RootOption = None,
    out: OutOption = Path("runs"),
    device: DeviceOption = "auto",
    processes: ProcessesOption = None,
    workers: WorkersOption = None,
    cache: CacheOption = None,
    tensorboard: TensorboardOption = False,
    trust_files: TrustOption = None,
) -> None:
    """Train one method of a study, by default the winner.

    Compared models trained on only half of the classes: see --all-classes.
    """
    from levelfield.studies.specification.method_names import check_embedded, check_method_names
    from levelfield.studies.specification.named_code import named_by
    from levelfield.studies.specification.study import assign, parse_study
    from levelfield.studies.specification.yaml_file import read_study

    if torchrun_rank()[1] > 1:
        raise BadSpecification(
            f"`levelfield train` does not work under torchrun: use --processes {torchrun_rank()[1]}."
        )
    trust(*named_by(study, overrides or []))
    whole = read_study(study, [*(overrides or []), *root_override(root), *processes_override(processes)])
    check_method_names(whole)
    check_embedded(whole)
    labels = [m.label for m in whole.methods]
    if method not in (*labels, "best"):
        raise unknown("method of the study", method, [*labels, "best"])
    from levelfield.distributed.processes import warm_up

    warm_up()  # in parallel with this process's imports and checks

    from levelfield import methods
    from levelfield.embedder.devices import usable
    from levelfield.studies.pipeline import carry_out, prepare
    from levelfield.studies.planning.all_classes import chosen_steps, without_validation
    from levelfield.studies.planning.plan import needed_labels, with_needed
    from levelfield.studies.runs.run import Options

    device = usable(device)
    content = whole.model_dump(mode="json") | {"vary": {}}
    label = method
    if method == "best":
        winner = _winner(whole, out, device)
        label = winner.label
        for key, value in winner.variation:
            assign(content, key, value)
    if label not in labels:
        raise unknown("method of the study", label, [*labels, "best"])
    needed = needed_labels(whole.methods, label)
    content["methods"] = [m for m in content["methods"] if m["label"] in needed]
    if not any(methods.joins_seeds(m.name, m.settings) for m in whole.methods if m.label in needed):
        content["seeds"] = [seed]
    if all_classes:
        content |= {"name": f"{whole.name}-all-classes", "protocol": {"name": "all-classes"}, "figures": []}
        if whole.conditions.select != "budget":
            trains = any(methods.trains(m["name"]) for m in content["methods"])
            steps = chosen_steps(out / whole.name, needed) if trains else whole.conditions.steps
            content["conditions"] = without_validation(content["conditions"], steps)
            label = _say_steps(label, steps, content) if trains else label
    chosen = parse_study(content)
    with looking() as progress:
        planned = prepare(chosen, tested=False, device=device, progress=progress)
    own = [run for run in planned if run.label == label and (run.spec.seed == seed or not run.seeded)]
    if not own:
        there = ", ".join(map(str, chosen.seeds))
        raise BadSpecification(f"'{label}' needs all seeds of the study ({there}): --seed {seed} is not one of them.")
    runs = with_needed(planned, own[-1])  # the last run joins the others, if there are members
    folder = out / chosen.name
    options = Options(device=device, cache_folder=cache, workers=workers, tensorboard=tensorboard)
    with StudyBars([run.title for run in runs]) as bars:
        known = (folder / "study.yaml").exists() and not all_classes  # the compared study keeps its description
        outcome = carry_out(chosen, runs, folder, jobs=1, options=options, progress=bars, describe=not known)
    if outcome.failed:
        raise LevelfieldError(f"The run failed: {next(iter(outcome.failed.values()))}")
    run_folder = runs[-1].folder(folder)  # the runs that it needs come first
    console.print(
        f"Trained '{label}'" + (" on every class" if all_classes else "") + f": {run_folder}", highlight=False
    )
    console.print(f"  levelfield embed {quoted(run_folder)} FOLDER --out embeddings.npy", soft_wrap=True)
    if outcome.unmeasured:
        reason = next(iter(outcome.unmeasured.values()))
        raise LevelfieldError(f"The run could not be evaluated on corrupted images: {reason}")


def _say_steps(label: str, steps: int, content: dict[str, Any]) -> str:
    """Print the number of steps chosen on validation classes; returns the label to train, `start` for 0 steps."""
    if steps:
        console.print(f"Steps: {steps}, the median of the steps chosen on validation classes in the compared runs.")
        return label
    console.print(f"No step of '{label}' was better than its start on the validation classes, so the start is used.")
    content["methods"] = [{"name": "start", "label": "head at its start"}]
    return "head at its start"


def _winner(study: Study, out: Path, device: str) -> PlannedRun:
    from levelfield.studies.leaderboard.board import gather
    from levelfield.studies.pipeline import prepare
    from levelfield.studies.runs.folder.store import read_plan

    planned = (out / study.name / "runs.json").exists()
    runs = read_plan(out / study.name) if planned else prepare(study, device=device)
    board = gather(study.name, runs, out / study.name, study.metrics)
    metric, best = board.metrics[0], board.winner
    kind = "trained method" if best.trained else "row (none of them trained)"
    console.print(f"Best {kind} by {metric}: {best.label} ({best.cells[metric].mean:.3f}).")
    above = [row.label for row in board.rows[: board.rows.index(best)]]
    if above:
        console.print(f"Untrained rows above it: {', '.join(above)}.")
    if board.as_good:
        console.print(f"Ties with: {', '.join(board.as_good)}.")
    return next(run for run in runs if run.row == best.label)
