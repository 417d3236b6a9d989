"""Choose the demo's hyperparameters: the same number of trials for every method, on validation classes.

A quarter of the training half's classes is for validation; the test classes are never used. Writes every trial to
choose_demo.log.json next to this file and prints the winners as lines for the study file.

    python benchmarks/choose_demo.py --jobs 2
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import yaml

from levelfield.files import write_json
from levelfield.studies import read_study
from levelfield.studies.execution.events import Event, RunsProgress
from levelfield.tuning import as_log, best, search

HERE = Path(__file__).parent


class Line(RunsProgress):
    """Show the last event in one line."""

    def on_event(self, event: Event) -> None:
        print(f"\r{event.kind:9} run {event.run:3} {event.text:20}", end="", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", default="demo")
    parser.add_argument("--trials", default=8, type=int)
    parser.add_argument("--validation", default=0.25, type=float, help="share of the training classes that judges")
    parser.add_argument("--metric", default="recall@1")
    parser.add_argument("--jobs", default=1, type=int)
    parser.add_argument("--out", default=None, type=Path, help="keep the runs here")
    parser.add_argument("--log", default=HERE / "choose_demo.log.json", type=Path)
    options = parser.parse_args()
    study = read_study(options.study, ["metrics=[recall@1, map@r]"])
    plain = study.model_copy(update={"methods": tuple(m.model_copy(update={"settings": {}}) for m in study.methods)})

    with tempfile.TemporaryDirectory() as scratch:
        trials = search(
            plain,
            trials=options.trials,
            validation=options.validation,
            jobs=options.jobs,
            progress=Line(),
            out=options.out or Path(scratch),
        )
    write_json(
        options.log,
        {
            "study": study.name,
            "trials_per_method": options.trials,
            "metric": options.metric,
            "validation": options.validation,
            "trials": as_log(trials),
        },
    )
    print()
    for label, trial in best(trials, options.metric).items():
        value = trial.values[options.metric]
        print(f"# {label}: {options.metric} {value:.4f} on validation classes, trial {trial.number}")
        print(yaml.safe_dump([{label: trial.settings}], default_flow_style=None).strip())


if __name__ == "__main__":
    main()
