"""`levelfield toy`: run and draw the line experiments of roth2020."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from levelfield.cli.console import bar, console, say
from levelfield.cli.options import option
from levelfield.errors import unknown

_COLUMNS = {"rho": "rho", "arc": "arc", "recall_002": "r1@0.02", "train_recall": "train r1"}


def toy(
    seeds: Annotated[int, option("--seeds", "Number of seeds; the figure shows the first.", min=1)] = 5,
    out: Annotated[Path, option("--out", "Figure file: .png, .pdf or .svg.")] = Path("toy.png"),
    form: Annotated[str, option("--form", "Orientation of the lines: diagonal, vertical or both.")] = "both",
    switch: Annotated[
        float, option("--switch", "Switch probability to compare with 0 and the published one.", min=0, max=1)
    ] = 0.7,  # equal to PREFERRED_SWITCH of the experiment, which a test checks
) -> None:
    """Run the line experiments of roth2020 (figures 6 and 12).

    They show whether an embedding keeps a direction that no training class needs.
    """
    import numpy as np

    from levelfield.papers.toy import FORMS, figures_of, settings, train
    from levelfield.reports.figures import check_name, draw_toy
    from levelfield.table import Table, numbers

    check_name(out)
    if form not in (*FORMS, "both"):
        raise unknown("form", form, [*FORMS, "both"])
    forms = list(FORMS) if form == "both" else [form]
    compared = settings(switch)
    drawn: dict[str, list[Any]] = {}  # of each form its settings, each with an outcome
    tables = []
    with bar("toy", transient=False) as progress:
        stage = progress.stage("training", len(forms) * len(compared) * seeds)
        for lines in forms:
            rows, drawn[lines] = [], []
            for setting in compared:
                outcomes = []
                for seed in range(seeds):
                    outcomes.append(train(lines, setting, seed))
                    stage.advance()
                drawn[lines].append((setting, outcomes[0]))
                measured = [figures_of(outcome) for outcome in outcomes]
                columns = ([getattr(each, name) for each in measured] for name in _COLUMNS)
                cells = [f"{_short(float(np.median(v)))} {min(v):.2f}-{max(v):.2f}" for v in columns]
                rows.append([setting.label, *cells])
            title = f"{lines}: median, range over {seeds} seeds"
            tables.append(Table(["loss", *numbers(*_COLUMNS.values())], rows, title))
    for table in tables:
        table.show(console)
    console.print(
        "rho: spectral decay of the training rows (0: both directions used equally). arc: the angle that the test rows "
        "span, in radians. r1@0.02: recall@1 of the test rows with noise of 0.02 radians (chance: 0.24)."
    )
    say(f"\nWritten: {draw_toy(drawn, out)}")


def _short(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"
