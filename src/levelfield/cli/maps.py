"""`levelfield maps`: activation maps of finished runs (lim2022 D.1)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from levelfield.cli.console import say
from levelfield.cli.options import DeviceOption, RunsArgument, TrustOption, option
from levelfield.errors import BadInput


def maps(
    runs: RunsArgument,
    images: Annotated[list[Path], option("--image", "Image file; repeatable.")],
    channels: Annotated[int, option("--channels", "Number of strongest channels to draw.", min=1, max=100)] = 3,
    out: Annotated[Path, option("--out", "Figure file: .png, .pdf or .svg.")] = Path("maps.png"),
    device: DeviceOption = "auto",
    trust_files: TrustOption = None,
) -> None:
    """Draw activation maps of runs over images.

    One row per run, the baseline first.
    """
    from levelfield.embedder.model import Model, load
    from levelfield.reports.figures import check_name
    from levelfield.reports.figures.activation_maps import activations, draw_activation_maps

    check_name(out)
    models = []
    for run in runs:
        model = load(run, device=device)
        if not isinstance(model, Model):
            raise BadInput(f"{run} joins several networks: name its member runs instead.")
        models.append(model)
    labels = [str(model.about.get("method", run.name)) for run, model in zip(runs, models, strict=True)]
    if len(set(labels)) < len(labels):
        labels = [f"{label} ({run.name})" for run, label in zip(runs, labels, strict=True)]
    pictures, activation_maps = activations(dict(zip(labels, models, strict=True)), images)
    path = draw_activation_maps(pictures, activation_maps, out, channels=channels)
    say(f"Written: {path}")
