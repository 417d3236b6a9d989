"""Options that several commands share."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer

from levelfield.cli.console import error_console, is_quiet
from levelfield.errors import BadInput, BadSpecification
from levelfield.trust import trust

Overrides = Annotated[
    list[str] | None, typer.Argument(help="Overrides such as [cyan]conditions.dim=64 seeds=5[/cyan].")
]
StudyArgument = Annotated[str | None, typer.Argument(help="Name or file of a study; or give --data.")]
BackbonesOption = Annotated[
    str | None,
    typer.Option("--backbones", help="With --data: compare networks, e.g. tf_efficientnet_lite0,mobilenetv2."),
]
OutOption = Annotated[Path, typer.Option("--out", help="Folder for results.")]


def _computes(context: typer.Context, device: str) -> str:
    """Models of finished runs compute on the device of the command."""
    from levelfield.embedder.devices import computing_on

    context.with_resource(computing_on(device))
    return device


DeviceOption = Annotated[
    str,
    typer.Option("--device", help="auto (CUDA, else MPS, else CPU), cpu, cuda, cuda:1, mps.", callback=_computes),
]
ProcessesOption = Annotated[
    int | None,
    typer.Option("--processes", min=1, help="Processes per run; each embeds its share of every batch."),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=0,
        help="Processes that decode images, per run; default: the cores that the runs leave.",
        callback=lambda workers: _decoding_with(workers),
    ),
]
RootOption = Annotated[Path | None, typer.Option("--root", help="Root folder of the benchmark.")]
ImagesOption = Annotated[
    Path | None, typer.Option("--root", help="Current folder of the run's images, if they or the run were moved.")
]
FullOption = Annotated[bool, typer.Option("--full", help="Print the comparisons of every row, not only of the best.")]
CompactOption = Annotated[
    bool, typer.Option("--compact", help="Also compare float32 with float16, int8, bits and fewer dimensions.")
]
TimeOption = Annotated[
    str | None, typer.Option("--time", help="With --data: time limit that chooses network, image size and trials: 30m.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace what exists.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SkipOption = Annotated[bool, typer.Option("--skip-unreadable", help="Skip images that cannot be read.")]
TensorboardOption = Annotated[
    bool, typer.Option("--tensorboard", help="Also write TensorBoard logs into each run folder.")
]

TrustOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--trust",
        help="Allow running this Python file, which a run or study folder names; repeatable.",
        callback=lambda files: _trusted(files or []),
        is_eager=True,  # before an argument reads its folder
    ),
]


def _decoding_with(workers: int | None) -> int | None:
    """Decode with this number of processes from here on: a command is a process."""
    if workers is not None:
        from levelfield.data.decoders import choose_decoders

        choose_decoders(workers)
    return workers


def _run_of(folder: Path | None) -> Path | None:
    """The run that a folder refers to; prints it if the folder is a study's or a method's."""
    from levelfield.embedder.best import run_folder

    if folder is None:
        return None
    if (folder / "index.json").is_file():  # an index of photos, which knows its run
        return folder
    run = _first_seed(folder) or run_folder(folder)
    if run != folder and not is_quiet():
        which = "the first seed" if run.parent == folder else f"the best of {run.parent.parent}"
        error_console.print(f"Run: {run} ({which})", soft_wrap=True)
    return run


def _first_seed(folder: Path) -> Path | None:
    """The first seed of a method, by the study's plan, if `folder` is the method's folder; else None."""
    if not folder.is_dir() or (folder / "run.yaml").exists() or not (folder.parent / "runs.json").is_file():
        return None
    from levelfield.studies.runs.folder.store import read_plan

    seeds = [run for run in read_plan(folder.parent) if run.label == folder.name and not run.spec.is_part]
    folders = [run.folder(folder.parent) for run in sorted(seeds, key=lambda run: run.spec.seed)]
    return next((folder for folder in folders if folder.is_dir()), None)


def _runs_of(folders: list[Path]) -> list[Path]:
    return [run for folder in folders if (run := _run_of(folder)) is not None]


RunArgument = Annotated[
    Path, typer.Argument(help="Run folder, study folder (its best run) or method folder.", callback=_run_of)
]
ModelArgument = Annotated[
    Path,
    typer.Argument(help="Run, study (its best run) or method folder, or an exported .onnx file.", callback=_run_of),
]
SearchedArgument = Annotated[
    Path,
    typer.Argument(help="Folder of an index; or, with --gallery, a run or an exported .onnx file.", callback=_run_of),
]
MaybeRunArgument = Annotated[
    Path | None,
    typer.Argument(help="Run or study folder; or give --embeddings and --labels.", callback=_run_of),
]
RunsArgument = Annotated[
    list[Path], typer.Argument(help="Run folders, or study folders (their best runs).", callback=_runs_of)
]


def _trusted(files: list[Path]) -> list[Path]:
    """Trust the files of --trust for the rest of this command."""
    for file in files:
        if not file.is_file() or file.suffix != ".py":
            raise BadInput(f"--trust {file}: Python file not found.")
    trust(*files)
    return files


def trusted_words(
    study: str | None, overrides: list[str] | None, data: Path | None, backbones: str | None = None
) -> tuple[str | None, list[str]]:
    """The study and its overrides, without a study if the first word is an override; trusts the files they name."""
    from levelfield.registry import references_in
    from levelfield.studies.specification.yaml_file import named_by

    overrides = list(overrides or [])
    if study is not None and "=" in study and not Path(study).exists():
        overrides, study = [study, *overrides], None
    named = [] if backbones is None else [name.strip() for name in backbones.split(",")]
    trust(*named_by(study, overrides), *references_in([str(data), *named]))
    return study, overrides


def root_override(root: Path | None) -> list[str]:
    """`--root` as an override of a study."""
    return [] if root is None else ["data.root=" + json.dumps(str(root), ensure_ascii=False)]


def processes_override(processes: int | None) -> list[str]:
    """`--processes`, or the number of processes that torchrun started, as an override of a study."""
    from levelfield.distributed.processes import torchrun_rank

    _, size = torchrun_rank()
    if size > 1 and processes not in (None, size):
        raise BadSpecification(f"--processes {processes} contradicts torchrun, which started {size}: leave it out.")
    chosen = size if size > 1 else processes
    return [] if chosen is None else [f"conditions.processes={chosen}"]


def quoted(path: Path | str) -> str:
    """The path, quoted for a shell."""
    return shlex.quote(str(path))
