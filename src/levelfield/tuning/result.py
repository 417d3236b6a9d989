"""The result of a search: a study with the chosen settings and their origin, and the log of all trials."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from levelfield import methods
from levelfield.files.writing import temporary_path, write_text
from levelfield.studies import Study
from levelfield.studies.specification.choices import MethodSpec
from levelfield.studies.specification.tuning import TunedMethod, TuningRecord
from levelfield.tuning.space import Space, applied
from levelfield.tuning.trials import How, Trial, chosen, write_log

LOG = "trials.json"
TUNED = "tuned.yaml"
JOURNAL = "optuna.log"


@dataclass(frozen=True)
class SearchResult:
    """The searched space of a method (or of the common conditions) and every trial."""

    space: Space
    trials: list[Trial]


@dataclass(frozen=True)
class Tuned:
    """A finished search. study: with the chosen settings, and with `tuning`, which says how they were chosen."""

    study: Study
    trials: list[Trial]
    paths: tuple[Path, ...]

    @property
    def record(self) -> TuningRecord:
        assert self.study.tuning is not None
        return self.study.tuning


def write_tuned(
    study: Study, how: How, results: Mapping[str, SearchResult], common: SearchResult | None, folder: Path
) -> Tuned:
    """Write trials.json, tuned.yaml and, where Optuna is installed, its journal for optuna-dashboard."""
    records = {label: _record(one) for label, one in results.items()}
    record = TuningRecord(**how.plain, methods=records, common=None if common is None else _record(common))
    counts = {label: len(one.trials) + _earlier(study, label) for label, one in results.items() if one.space}
    usual = max(counts.values(), default=0)
    tuned = [_chosen(method, records.get(method.label), counts.get(method.label, 0)) for method in study.methods]
    tuned_study = study.model_copy(
        update={
            "name": f"{study.name}-tuned",
            "methods": tuple(tuned),
            "conditions": study.conditions.model_copy(update={"tuning_trials": usual}),
            "tuning": record,
        }
    )
    trials = [trial for one in results.values() for trial in one.trials]
    write_log(folder / LOG, trials, **how.plain)
    write_text(folder / TUNED, as_yaml(tuned_study))
    paths = [folder / TUNED, folder / LOG, *_write_journal(folder / JOURNAL, results, how)]
    return Tuned(tuned_study, trials, tuple(paths))


def _earlier(study: Study, label: str) -> int:
    """The trials of a method before this search, if the study is itself the result of one."""
    if study.tuning is None:
        return 0
    return next((int(method.settings.get("trials", 0)) for method in study.methods if method.label == label), 0)


def _record(one: SearchResult) -> TunedMethod:
    best = chosen(one.trials) if one.space else None
    return TunedMethod(
        trial=None if best is None else best.number,
        chosen={} if best is None else best.settings,
        values=tuple(trial.value for trial in one.trials),
        pruned=tuple(trial.number for trial in one.trials if trial.pruned),
        ranges={key: span.plain for key, span in one.space.items()},
        settings=tuple(trial.settings for trial in one.trials) if one.space else (),
        seconds=round(sum(trial.seconds for trial in one.trials), 3),
        images=sum(trial.images for trial in one.trials),
    )


def _chosen(method: MethodSpec, record: TunedMethod | None, trials: int) -> MethodSpec:
    """The method with its chosen settings, and with the number of its trials for the ledger."""
    if record is None or not trials or not methods.class_of(method.name, method.settings).tunable:
        return method
    return applied(method, {**record.chosen, "trials": trials})


def as_yaml(study: Study) -> str:
    """A study file that a person can read: what has its default is left out."""
    plain = study.model_dump(mode="json", exclude_defaults=True)
    plain["methods"] = [_written(method) for method in study.methods]
    ordered = {key: plain.pop(key) for key in ("name", "about", "data", "protocol") if key in plain} | plain
    if ordered.get("data", {}).keys() == {"name"}:
        ordered["data"] = ordered["data"]["name"]
    if "tuning" in ordered:
        ordered["tuning"] = ordered.pop("tuning")  # last: it is long
    head = "# Written by `levelfield tune`. Compare: levelfield compare FILE. `tuning` says how settings were chosen.\n"
    return head + yaml.dump(ordered, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


class _Dumper(yaml.SafeDumper):
    """Lists and small mappings of plain values in one line."""

    def represent_sequence(self, tag: str, sequence: Any, flow_style: bool | None = None) -> Any:
        plain = all(not isinstance(entry, dict | list) for entry in sequence)
        return super().represent_sequence(tag, sequence, flow_style=True if plain else flow_style)

    def represent_mapping(self, tag: str, mapping: Any, flow_style: bool | None = None) -> Any:
        plain = len(mapping) <= 6 and all(not isinstance(entry, dict | list) for entry in mapping.values())
        return super().represent_mapping(tag, mapping, flow_style=True if plain else flow_style)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _written(method: MethodSpec) -> dict[str, Any]:
    inner = {**method.settings, **({"conditions": method.conditions} if method.conditions else {})}
    plain = method.name.rpartition(":")[2]
    return ({} if method.label == plain else {"label": method.label}) | {method.name: inner}


def _write_journal(path: Path, results: Mapping[str, SearchResult], how: How) -> list[Path]:
    """All trials as an Optuna journal, one study for each method: `optuna-dashboard FILE` shows it."""
    try:
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend
    except ImportError:
        return []
    from levelfield.tuning.samplers import distributions, for_optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    half = temporary_path(path)
    half.unlink(missing_ok=True)
    storage = JournalStorage(JournalFileBackend(str(half)))
    for label, one in results.items():
        if not one.space:
            continue
        study = optuna.create_study(study_name=label, storage=storage, direction="maximize")
        kinds = distributions(one.space)
        for trial in one.trials:
            params = {key: for_optuna(value) for key, value in trial.settings.items() if key in kinds}
            state = _state(trial)
            study.add_trial(
                optuna.create_trial(
                    params=params,
                    distributions={key: kinds[key] for key in params},
                    value=trial.value if state == optuna.trial.TrialState.COMPLETE else None,
                    intermediate_values={0: trial.value} if trial.pruned and trial.value is not None else None,
                    user_attrs={"metric": how.metric, "seconds": trial.seconds, "error": trial.error},
                    state=state,
                )
            )
    if half.exists():
        os.replace(half, path)
        return [path]
    return []


def _state(trial: Trial) -> Any:
    from optuna.trial import TrialState

    if trial.value is None:
        return TrialState.FAIL
    return TrialState.PRUNED if trial.pruned else TrialState.COMPLETE
