"""Output of `--dry-run`: the plan of a study and its cost, measured on this machine or only counted."""

from __future__ import annotations

from pathlib import Path

from levelfield import methods
from levelfield.cli.console import bar, console
from levelfield.errors import MissingData
from levelfield.reports.leaderboard import cells
from levelfield.studies import ResolvedStudy, Study
from levelfield.studies.planning.cost_counted import count, missing_weights, total
from levelfield.studies.planning.cost_measured import estimate, size_text
from levelfield.studies.planning.foresight import foresee
from levelfield.studies.planning.plan import left_out
from levelfield.studies.runs.folder.store import is_finished
from levelfield.studies.runs.training import Options
from levelfield.table import Table, numbers
from levelfield.tuning.outline import Outline, cost
from levelfield.wording import duration, plural


def print_plan(resolved: ResolvedStudy, folder: Path, jobs: int, *, details: bool, trials: int = 1) -> None:
    """Time a few steps of every method and print what the unfinished runs of a study will cost.

    details: print deviations, too. trials: of every method that trains, before the comparison.
    """
    study, runs = resolved.study, resolved.runs
    unfinished = [run for run in runs if not is_finished(run.folder(folder), run.spec, study.metrics)]
    with bar("timing a few steps of each method") as progress, resolved.in_use():
        cost = estimate(unfinished, options=resolved.options, jobs=jobs, progress=progress)
        prospect = foresee(runs)
    if details:
        rows = [[row.label, row.runs, f"{row.seconds:.0f}", ", ".join(row.deviations) or "none"] for row in cost.rows]
        columns = numbers("runs", "seconds each")
        title = f"{study.name}: {len(runs)} runs"
        Table(["method", *columns, "deviations (conditions)"], rows, title).show(console)
    _print_left_out(study)
    console.print(cost.text)
    trained = {run.row for run in runs if methods.trains(run.spec.method.name)}
    searched = [row for row in cost.rows if row.label in trained]
    if trials > 1 and searched:
        seconds = trials * sum(row.seconds for row in searched) / cost.jobs
        search = f"{trials} trials of {plural(len(searched), 'method', 'methods')}"
        console.print(f"Before it, {search}: at most about {duration(seconds)}.")
    console.print(prospect)


def print_search(outline: Outline, options: Options, jobs: int) -> None:
    """Time a few steps of every method and print what a search would try."""
    settings, measured, missing = outline.settings, None, ""
    try:
        with bar("timing a few steps of each method") as progress:
            measured = cost(outline, options=options, progress=progress)
    except MissingData as error:
        missing = f"Time unknown: {error}"
    about = settings.plain
    title = (
        f"{outline.study.name}: {about['budget']}, sampler {settings.sampler}, {settings.metric}, "
        f"judged by {about['judged_by']}"
    )
    rows: list[list[str]] = []
    total, seconds, shared = 0.0, 0.0, 0.0
    for label, space in outline.spaces.items():
        trial = None if measured is None else measured[label]
        each = None if trial is None else trial.seconds
        trials = outline.trials(label, each)
        runs = trials * (settings.judge.folds if trial is None else trial.runs)
        total, seconds, shared = total + runs, seconds + trials * (each or 0.0), shared + (each or 0.0)
        spans = ", ".join(f"{key} {span.text}" for key, span in space.items()) or "nothing: as many seeds instead"
        per_run = "-" if trial is None else f"{trial.seconds / max(1, trial.runs):.0f}"
        rows.append([label, f"{runs:,.0f}", per_run, spans])
    Table(["method", *numbers("runs", "seconds each"), "searched"], rows, title).show(console)
    if outline.common:
        spans = ", ".join(f"{key} {span.text}" for key, span in outline.common.items())
        console.print(f"Before it, once for all methods: {spans}.")
        seconds += outline.trials("", shared) * shared
    if measured is not None:
        features = max(trial.features for trial in measured.values())
        time = duration((seconds + features) / max(1, jobs))
        console.print(
            f"Estimated time: about {time} with {plural(jobs, 'job', 'jobs')} for "
            f"{plural(round(total), 'run', 'runs')} ({duration(features)} for features)."
        )
    if missing:
        console.print(missing)


def print_counted(study: Study, reason: str) -> None:
    """Print the plan of a study whose data or weights are missing: only costs that can be counted, and all that is
    missing. reason: what was found missing first."""
    runs, counted = count(study)
    reasons = "\n".join(dict.fromkeys([*reason.splitlines(), *missing_weights(runs)]))
    letters = cells.letters(text for row in counted for text in row.deviations)
    rows = []
    for row in [*counted, total(counted)]:
        costs = _in_short(row.images), _in_short(row.rows), f"{row.operations:.2e}".replace("+", "")
        deviations = "".join(letters[text] for text in row.deviations)
        rows.append([row.label, row.runs, *costs, size_text(row.bytes), deviations or "-"])
    columns = numbers("runs", "images", "passes", "FLOPs", "bytes")
    Table(["method", *columns, "dev"], rows, f"{study.name}: {len(runs)} runs").show(console)
    _print_left_out(study)
    notes = "; ".join(f"{letter}: {text}" for text, letter in letters.items())
    console.print(f"Deviations from the conditions (the common value in brackets): {notes or 'none'}.")
    console.print(
        "Images: seen in training. Passes: images through the trunk, for training, selection and monitoring "
        "(if no run ends early) and the test. FLOPs: multiplications and additions. Computed from the official "
        "numbers of images. Hours: unknown, since nothing was measured on this device.\n"
        f"Counted, not measured, because: {reasons}"
    )


def _print_left_out(study: Study) -> None:
    if rows := left_out(study):
        console.print(f"Left out, since a batch is too small to compare anything: {', '.join(rows)}.")


def _in_short(count: int) -> str:
    """A large number in short form.

    >>> _in_short(5_924), _in_short(8_899_480)
    ('5,924', '8.9 M')
    """
    return f"{count:,}" if count < 1e6 else f"{count / 1e6:,.1f} M"
