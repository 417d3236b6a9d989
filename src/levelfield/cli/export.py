"""`levelfield export`: the model of a run as one file for other programs, measured again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levelfield.cli.console import bar, console, say
from levelfield.cli.option_groups import ModelOptions, with_groups
from levelfield.cli.options import ForceOption, RunArgument
from levelfield.errors import unknown

if TYPE_CHECKING:
    from rich.table import Table

    from levelfield.shipping import Exported
    from levelfield.shipping.measuring import Measured


FORMATS = ("onnx", "torchscript", "safetensors")  # those of levelfield.shipping.formats, known without torch


@with_groups
def export(
    run: RunArgument,
    out: Annotated[Path, typer.Option("--out", help="Folder for the files.")],
    to: Annotated[str, typer.Option("--to", help="Format: onnx, torchscript or safetensors.")] = "onnx",
    int8: Annotated[bool, typer.Option("--int8", help="Store the weights in 8 bits (onnx).")] = False,
    measured: Annotated[
        bool, typer.Option("--measure/--no-measure", help="Measure the exported model on the run's test images.")
    ] = True,
    force: ForceOption = False,
    *,
    model: ModelOptions,
) -> None:
    """Write a run's model for other programs; measure it again."""
    if to not in FORMATS:
        raise unknown("format", to, FORMATS)

    from levelfield.embedder.devices import usable
    from levelfield.shipping import export as export_run
    from levelfield.studies.specification.locations import images_in

    usable(model.device)
    with bar("measuring") as progress, images_in(model.root):
        done = export_run(run, out, to=to, int8=int8, measured=measured, force=force, progress=progress)
    if done.measured is None:
        console.print("Not measured: the figures of the exported model are not known.")
    else:
        console.print(_table(done.measured))
        images = f"{done.measured.original.n_queries:,} test images"
        say(f"{images}. {done.measured.difference_text}")
    say(f"Written: {_files(done)}")


def _table(measured: Measured) -> Table:
    from rich.table import Table

    table = Table("figure", "run", "exported", "difference")
    for name, (before, now) in measured.figures.items():
        table.add_row(name, f"{before:.4f}", f"{now:.4f}", f"{now - before:+.4f}")
    return table


def _files(done: Exported) -> str:
    return ", ".join(f"{done.folder / name} ({_size(count)})" for name, count in done.files.items())


def _size(count: int) -> str:
    """Bytes for people.

    >>> _size(800), _size(13_500_000)
    ('1 kB', '13.5 MB')
    """
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{max(1, round(count / 1e3))} kB"
