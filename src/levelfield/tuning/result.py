"""The result of a search: a study with the chosen settings and their origin, and the log of all trials."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from levelfield import methods
from levelfield.files.writing import temporary_path, write_text
from levelfield.studies import Study
from levelfield.studies.specification.choices import MethodSpec, TunedMethod, TuningRecord
from levelfield.tuning.samplers import distributions, for_optuna, import_optuna
from levelfield.tuning.space import Space, applied
from levelfield.tuning.trials import SearchSettings, Trial, best_trial

LOG = "trials.json"
TUNED = "tuned.yaml"
JOURNAL = "optuna.log"
_HEAD = "# Written by `levelfield tune`. Compare: levelfield compare FILE. `tuning` says how settings were chosen.\n"


@dataclass(kw_only=True)
class SearchResult:
    """The searched space of a method (or of the common conditions) and every trial."""

    label: str
    space: Space
    trials: list[Trial] = field(default_factory=list)


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
    study: Study, settings: SearchSettings, results: Sequence[SearchResult], common: SearchResult | None, folder: Path
) -> Tuned:
    """Write tuned.yaml and, where Optuna is installed, its journal for optuna-dashboard."""
    records = {one.label: _record(one) for one in results}
    record = TuningRecord(**settings.plain, methods=records, common=None if common is None else _record(common))
    earlier = {} if study.tuning is None else {one.label: one.settings.get("trials", 0) for one in study.methods}
    counts = {one.label: len(one.trials) + int(earlier.get(one.label, 0)) for one in results if one.space}
    tuned = study.model_copy(
        update={
            "name": f"{study.name}-tuned",
            "methods": tuple(_chosen(one, records.get(one.label), counts.get(one.label, 0)) for one in study.methods),
            "conditions": study.conditions.model_copy(update={"tuning_trials": max(counts.values(), default=0)}),
            "tuning": record,
        }
    )
    trials = [trial for one in results for trial in one.trials]
    plain = tuned.model_dump(mode="json", exclude_defaults=True)  # for a person to read
    if plain["data"].keys() == {"name"}:
        plain["data"] = plain["data"]["name"]
    plain["methods"] = [_written(method) for method in tuned.methods]
    plain["tuning"] = plain.pop("tuning")  # last: it is long
    dumped = yaml.dump(plain, Dumper=_Dumper, default_flow_style=None, sort_keys=False, allow_unicode=True, width=120)
    write_text(folder / TUNED, _HEAD + dumped)
    journal = [folder / JOURNAL] if _write_journal(folder / JOURNAL, results, settings) else []
    return Tuned(tuned, trials, (folder / TUNED, folder / LOG, *journal))


def _record(one: SearchResult) -> TunedMethod:
    best = best_trial(one.trials) if one.space else None
    return TunedMethod(
        trial=None if best is None else best.number,
        chosen={} if best is None else best.settings,
        values=tuple(trial.value for trial in one.trials),
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


class _Dumper(yaml.SafeDumper):
    """Writes equal values in full."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _written(method: MethodSpec) -> dict[str, Any]:
    inner = {**method.settings, **({"conditions": method.conditions} if method.conditions else {})}
    plain = method.name.rpartition(":")[2]
    return ({} if method.label == plain else {"label": method.label}) | {method.name: inner}


def _write_journal(path: Path, results: Sequence[SearchResult], settings: SearchSettings) -> bool:
    """Write all trials as an Optuna journal, one study for each method: `optuna-dashboard FILE` shows it."""
    optuna = import_optuna()
    searched = [one for one in results if one.space]
    if optuna is None or not searched:
        return False
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    half = temporary_path(path)
    half.unlink(missing_ok=True)
    storage = JournalStorage(JournalFileBackend(str(half)))
    for one in searched:
        study = optuna.create_study(study_name=one.label, storage=storage, direction="maximize")
        kinds = distributions(one.space)
        for trial in one.trials:
            params = {key: for_optuna(value) for key, value in trial.settings.items() if key in kinds}
            state = "FAIL" if trial.value is None else "COMPLETE"
            study.add_trial(
                optuna.create_trial(
                    params=params,
                    distributions={key: kinds[key] for key in params},
                    value=trial.value,
                    user_attrs={"metric": settings.metric, "seconds": trial.seconds, "error": trial.error},
                    state=optuna.trial.TrialState[state],
                )
            )
    os.replace(half, path)
    return True
