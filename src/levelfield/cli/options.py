"""Options and arguments that several commands share."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from levelfield.cli.console import note
from levelfield.distributed.processes import torchrun_rank
from levelfield.errors import BadInput, BadSpecification
from levelfield.trust import trust


def option(*flags_and_help: str, panel: str | None = None, **settings: Any) -> Any:
    """A typer option: its flags, then its help text. panel: its group in the help."""
    *flags, text = flags_and_help
    return typer.Option(*flags, help=text, rich_help_panel=panel, **settings)


def _compute_on(context: typer.Context, device: str) -> str:
    """Models of finished runs compute on the device of the command."""
    from levelfield.embedder.devices import computing_on

    context.with_resource(computing_on(device))
    return device


def _images_below(context: typer.Context, root: Path | None) -> Path | None:
    """The images of finished runs are below this folder for the rest of the command."""
    from levelfield.studies.specification.locations import images_in

    context.with_resource(images_in(root))
    return root


def _decode_with(context: typer.Context, workers: int | None) -> int | None:
    """Decode with this number of processes for the rest of the command."""
    if workers is not None:
        from levelfield.data.decoders import decoding

        context.with_resource(decoding(workers))
    return workers


def _trust_files(files: list[Path] | None) -> list[Path]:
    """Trust the files of --trust for the rest of the command."""
    for file in files or []:
        if not file.is_file() or file.suffix != ".py":
            raise BadInput(f"--trust {file}: Python file not found.")
    trust(*files or [])
    return files or []


def _run_of(folder: Path | None) -> Path | None:
    """The run that a folder refers to; prints it if the folder is a study's or a method's."""
    from levelfield.embedder.best import run_folder

    if folder is None or (folder / "index.json").is_file():  # an index of photos, which names its run
        return folder
    run = _first_seed(folder) or run_folder(folder)
    if run != folder:
        note(f"Run: {run} ({'the first seed' if run.parent == folder else f'the best of {run.parent.parent}'})")
    return run


def _first_seed(folder: Path) -> Path | None:
    """The first seed of a method, by the study's plan, if `folder` is the method's folder; else None."""
    if not folder.is_dir() or (folder / "run.yaml").exists() or not (folder.parent / "runs.json").is_file():
        return None
    from levelfield.studies.runs.folder.store import read_plan

    seeds = [run for run in read_plan(folder.parent) if run.label == folder.name and not run.spec.part]
    folders = [run.folder(folder.parent) for run in sorted(seeds, key=lambda run: run.spec.seed)]
    return next((folder for folder in folders if folder.is_dir()), None)


def _runs_of(folders: list[Path]) -> list[Path]:
    return [run for folder in folders if (run := _run_of(folder)) is not None]


Overrides = Annotated[
    list[str] | None, typer.Argument(help="Overrides such as [cyan]conditions.dim=64 seeds=5[/cyan].")
]
StudyArgument = Annotated[str | None, typer.Argument(help="Name or file of a study; or give --data.")]
RunArgument = Annotated[
    Path, typer.Argument(help="Run folder, study folder (its best run) or method folder.", callback=_run_of)
]
ModelArgument = Annotated[
    Path,
    typer.Argument(help="Run, study (its best run) or method folder, or an exported .onnx file.", callback=_run_of),
]
RunOrIndexArgument = Annotated[
    Path,
    typer.Argument(help="Folder of an index; or, with --gallery, a run or an exported .onnx file.", callback=_run_of),
]
RunsArgument = Annotated[
    list[Path], typer.Argument(help="Run folders, or study folders (their best runs).", callback=_runs_of)
]
MaybeRunArgument = Annotated[
    Path | None, typer.Argument(help="Run or study folder; or give --embeddings and --labels.", callback=_run_of)
]

CompactOption = Annotated[
    bool, option("--compact", "Also compare float32 with float16, int8, bits and fewer dimensions.")
]
DeviceOption = Annotated[
    str, option("--device", "auto (CUDA, else MPS, else CPU), cpu, cuda, cuda:1, mps.", callback=_compute_on)
]
ForceOption = Annotated[bool, option("--force", "Replace what exists.")]
FullOption = Annotated[bool, option("--full", "Print the comparisons of every row, not only of the best.")]
ImagesOption = Annotated[
    Path | None,
    option("--root", "Current folder of the run's images, if they or the run were moved.", callback=_images_below),
]
JsonOption = Annotated[bool, option("--json", "Print JSON.")]
OutOption = Annotated[Path, option("--out", "Folder for results.")]
ProcessesOption = Annotated[
    int | None, option("--processes", "Processes per run; each embeds its share of every batch.", min=1)
]
RootOption = Annotated[Path | None, option("--root", "Root folder of the benchmark.")]
SkipOption = Annotated[bool, option("--skip-unreadable", "Skip images that cannot be read.")]
TensorboardOption = Annotated[bool, option("--tensorboard", "Also write TensorBoard logs into each run folder.")]
TimeOption = Annotated[str | None, option("--time", "With --data: time for everything, e.g. 30m or 2h.")]
TrustOption = Annotated[
    list[Path] | None,
    option(
        "--trust",
        "Allow running this Python file, which a run or study folder names; repeatable.",
        callback=_trust_files,
        is_eager=True,  # before an argument reads its folder
    ),
]
WorkersOption = Annotated[
    int | None,
    option(
        "--workers",
        "Processes that decode images, per run; default: the cores that the runs leave.",
        min=0,
        callback=_decode_with,
    ),
]


def trusted_words(
    study: str | None, overrides: list[str] | None, data: Path | None, backbones: str | None = None
) -> tuple[str | None, list[str]]:
    """The study and its overrides, without a study if the first word is an override; trusts the files they name."""
    from levelfield.registry import references_in
    from levelfield.studies.specification.yaml_file import named_by

    overrides = list(overrides or [])
    if study is not None and "=" in study and not Path(study).exists():
        overrides, study = [study, *overrides], None
    networks = [name.strip() for name in (backbones or "").split(",")]
    trust(*named_by(study, overrides), *references_in([str(data), *networks]))
    return study, overrides


def keys_and_values(words: Iterable[str], *, kind: str, example: str) -> dict[str, Any]:
    """The values, in YAML, of words such as `margin=0.1`. kind, example: for the message about another word."""
    from levelfield.files.plain_yaml import read_yaml

    values = {}
    for word in words:
        key, _, value = word.partition("=")
        if not key.strip() or not value.strip():
            raise BadSpecification(f"'{word}' is not a {kind}: write it as KEY=VALUE, such as {example}.")
        values[key.strip()] = read_yaml(value, origin=f"'{word}'")
    return values


def trust_named(*words: object) -> None:
    """Trust the files that the words of options name, such as `my_losses.py:MyLoss`."""
    from levelfield.registry import references_in

    trust(*references_in(words))


def root_override(root: Path | None) -> list[str]:
    """`--root` as an override of a study."""
    return [] if root is None else ["data.root=" + json.dumps(str(root), ensure_ascii=False)]


def processes_override(processes: int | None) -> list[str]:
    """`--processes`, or the number of processes that torchrun started, as an override of a study."""
    _, size = torchrun_rank()
    if size > 1 and processes not in (None, size):
        raise BadSpecification(f"--processes {processes} contradicts torchrun, which started {size}: leave it out.")
    count = size if size > 1 else processes
    return [] if count is None else [f"conditions.processes={count}"]


def quoted(path: Path | str) -> str:
    """The path, quoted for a shell."""
    return shlex.quote(str(path))
