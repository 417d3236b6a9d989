"""`levelfield.compare`: from a study to its report, in Python."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from levelfield.embedder.devices import AUTO, computing_on, usable
from levelfield.reports.figures import check_figures, figures_of
from levelfield.reports.finish import finish
from levelfield.reports.report import Report
from levelfield.studies.execution.events import SILENT_RUNS, RunsProgress
from levelfield.studies.leaderboard.compact import check_metrics
from levelfield.studies.pipeline import run_study
from levelfield.studies.runs.run import Options
from levelfield.studies.specification.named_code import named_by
from levelfield.studies.specification.study import Study, parse_study
from levelfield.studies.specification.yaml_file import read_study
from levelfield.trust import trusting


def compare(
    study: Study | Path | str | dict[str, Any],
    *,
    out: Path | str = "runs",
    jobs: int = 0,
    device: str | None = None,
    options: Options | None = None,
    progress: RunsProgress = SILENT_RUNS,
    trust: Sequence[Path | str] = (),
    page: bool = True,
    compact: bool = False,
) -> Report:
    """Run a study (finished runs are skipped), write its tables, figures and page, and return its report.

    In Python: `levelfield.compare("demo")`, `levelfield.compare({"data": "emoji", "methods": ["margin", "triplet"]})`.

    Args:
        study: the name of a built-in study, a YAML file, its content as a dict, or a `Study`.
        out: the parent folder of the study's folder.
        jobs: number of worker processes. 0 runs in this process, unless a method is user code, which never runs in
            the process that evaluates other methods.
        device: "cpu", "cuda", "cuda:1", "mps" or "auto" (CUDA, else MPS, else the CPU); by default that of `options`,
            or "auto" without options.
        options: further options that do not change a run's identity.
        progress: progress of the runs; silent by default.
        trust: code files that may run besides those that the study names, such as the loss of a teacher.
        page: write report.html, a page with the images and what every method finds for them.
        compact: evaluate the embeddings in fewer bytes, too: a table of bytes per image against score.

    Returns:
        The `Report`: `.leaderboard` (rows, best first, and the comparisons between them), `.best`, `.text()`.
    """
    with trusting(*named_by(study), *trust):
        if isinstance(study, dict):
            study = parse_study(study)
        elif not isinstance(study, Study):
            study = read_study(study)
        check_figures(figures_of(study), study)
        if compact:
            check_metrics(study.metrics)
        folder = Path(out) / study.name
        options = options or Options(device=AUTO)
        options = replace(options, device=usable(device or options.device))
        runs = run_study(study, folder, jobs=jobs, options=options, progress=progress)
        with computing_on(options.device):
            report = finish(study, runs, folder, page=page, compact=compact, progress=progress)
    if report.not_drawn:
        logging.getLogger("levelfield").warning(report.missing_figures)
    return report
