"""`levelfield export`: the model of a run as one file for other programs, measured again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from levelfield.cli.console import bar, console, say
from levelfield.cli.option_groups import ModelOptions, with_groups
from levelfield.cli.options import ForceOption, RunArgument, option
from levelfield.errors import unknown

FORMATS = ("onnx", "torchscript", "safetensors")  # those of levelfield.shipping.formats, known without torch


@with_groups
def export(
    run: RunArgument,
    out: Annotated[Path, option("--out", "Folder for the files.")],
    to: Annotated[str, option("--to", "Format: onnx, torchscript or safetensors.")] = "onnx",
    int8: Annotated[bool, option("--int8", "Store the weights in 8 bits (onnx).")] = False,
    measured: Annotated[
        bool, option("--measure/--no-measure", "Measure the exported model on the run's test images.")
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
    from levelfield.table import Table, numbers

    usable(model.device)
    with bar("measuring") as progress:
        done = export_run(run, out, to=to, int8=int8, measured=measured, force=force, progress=progress)
    if done.measured is None:
        console.print("Not measured: the figures of the exported model are not known.")
    else:
        figures = [
            [name, f"{before:.4f}", f"{now:.4f}", f"{now - before:+.4f}"]
            for name, (before, now) in done.measured.figures.items()
        ]
        Table(["figure", *numbers("run", "exported", "difference")], figures).show(console)
        images = f"{done.measured.original.n_queries:,} test images"
        say(f"{images}. {done.measured.difference_text}")
    say(f"Written: {', '.join(f'{done.folder / name} ({_size(count)})' for name, count in done.files.items())}")


def _size(count: int) -> str:
    """Bytes for people.

    >>> _size(800), _size(13_500_000)
    ('1 kB', '13.5 MB')
    """
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{max(1, round(count / 1e3))} kB"
