"""The search: every method gets the same budget, and validation classes judge every trial.

Trials are proposed in rounds of a fixed size and reported to the sampler in order, so that the same seed gives the
same trials with any number of processes and after any interruption: a search that is started again repeats its
proposals, and finds their scores in the folders of finished runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from levelfield import methods
from levelfield.errors import BadSpecification, LevelfieldError
from levelfield.studies import Study, plan
from levelfield.studies.execution.executor import Executor
from levelfield.studies.execution.workers import run_all
from levelfield.studies.runs.run import Options
from levelfield.studies.runs.shared import SharedInputs
from levelfield.studies.specification.choices import MethodSpec
from levelfield.studies.specification.yaml_file import named_by
from levelfield.training import Conditions
from levelfield.trust import trusted, trusting
from levelfield.tuning import samplers
from levelfield.tuning.budget import Spent
from levelfield.tuning.outline import outline
from levelfield.tuning.result import LOG, SearchResult, Tuned, write_tuned
from levelfield.tuning.space import Space, applied, common_space, own_values, space_of
from levelfield.tuning.trials import (
    SILENT_TUNING,
    Attempt,
    SearchSettings,
    Trial,
    TuningProgress,
    best_trial,
    is_searched,
    write_log,
)

ROUND = 4  # trials of a search that are proposed together


@dataclass(kw_only=True)
class _Search(SearchResult):
    """A search that is under way.

    methods: one method; or, for conditions that all methods share (`common`), all that train, whose mean decides.
    sampler: None if there is nothing to search. study_values: what the study's own settings are in the space.
    """

    methods: list[MethodSpec]
    spent: Spent
    sampler: samplers.Sampler | None
    study_values: dict[str, Any]
    common: bool = False

    def propose(self, count: int) -> list[Trial]:
        """The next trials. Trial 0 has the study's own settings; a method without ranges repeats them."""
        first = len(self.trials)
        if self.sampler is None:
            return [Trial(self.label, first + k) for k in range(count)]
        new = [Trial(self.label, first)] if first == 0 else []
        asked = self.sampler.ask(count - len(new))
        return new + [Trial(self.label, first + len(new) + k, settings) for k, settings in enumerate(asked)]

    def learn(self, done: Sequence[Trial]) -> None:
        """Add the trials of a round. A failed trial counts as the worst known value."""
        self.trials += done
        if self.sampler is None or self.spent.over:  # nothing is proposed any more
            return
        worst = min((trial.value for trial in self.trials if trial.value is not None), default=0.0)
        values = [worst if trial.value is None else trial.value for trial in done]
        if done[0].number == 0:
            self.sampler.start_from(self.study_values, values[0])
            done, values = done[1:], values[1:]
        self.sampler.tell(values)


def tune(
    study: Study,
    folder: Path,
    settings: SearchSettings,
    *,
    jobs: int = 1,
    options: Options | None = None,
    progress: TuningProgress = SILENT_TUNING,
    executor: Executor | None = None,
) -> Tuned:
    """Search the settings of every method of `study`; write trials and `tuned.yaml` into `folder`.

    Started again, it continues; with a larger budget, it goes on where the smaller one ended.
    executor: who executes the trials; by default `jobs` worker processes.
    """
    options = options or Options()
    with trusting(*named_by(study)):
        settings = outline(study, settings).settings
        work = _Work(study, folder, settings, jobs, replace(options, trust=trusted()), progress, executor)
        work.check_trials()
        common = work.search_common()
        searches = []
        for method in filter(is_searched, study.methods):
            space = space_of(work.study, method)
            searches.append(work.begin(method.label, [method], space, own_values(work.study, method, space)))
        work.carry_out(searches)
        return write_tuned(work.study, work.settings, searches, common, folder)


@dataclass
class _Work:
    """Everything that the rounds of a search share."""

    study: Study
    folder: Path
    settings: SearchSettings
    jobs: int
    options: Options
    progress: TuningProgress
    executor: Executor | None = None
    _digest: str = ""
    _charged: set[tuple[str, str]] = field(default_factory=set)  # see `Attempt.score`

    def check_trials(self) -> None:
        """Raise errors of the study itself before the first trial, and describe the data that judges."""
        shared = SharedInputs()
        for method in filter(is_searched, self.study.methods):
            resolved = self.settings.resolve_trial(self.study, method, self.options, shared, self.progress)
            spec = resolved.runs[-1].spec
            if not self._digest:
                catalog = shared.catalog(spec.data, spec.data_digest)
                description = self.settings.judge.describe(catalog, shared.divided(catalog, spec.protocol)[0])
                self.settings = replace(self.settings, judged_by=description)
            self._digest = spec.data_digest

    def begin(
        self, label: str, searched: list[MethodSpec], space: Space, values: dict[str, Any], *, common: bool = False
    ) -> _Search:
        settings = self.settings
        trials = settings.budget.trials or 0
        sampler = samplers.create(settings.sampler, space, seed=settings.seed, trials=trials) if space else None
        spent = Spent(settings.budget, settings.full_trial(self.study))
        return _Search(
            label=label, space=space, methods=searched, spent=spent, sampler=sampler, study_values=values, common=common
        )

    def search_common(self) -> _Search | None:
        """Search conditions once for all methods, where the study asks for it, and use the best ones."""
        space = common_space(self.study)
        if not space:
            return None
        trained = [method for method in self.study.methods if methods.trains(method.name) and is_searched(method)]
        if not trained:
            raise BadSpecification("search: no method of the study trains, so `common` has nothing to decide.")
        values = {key: getattr(self.study.conditions, key) for key in space}
        search = self.begin("common conditions", trained, space, values, common=True)
        self.carry_out([search], log=False)
        best = best_trial(search.trials)
        if best is not None:
            self.study = _with_conditions(self.study, best.settings)
        return search

    def carry_out(self, searches: list[_Search], *, log: bool = True) -> None:
        """Rounds of all searches side by side, until every budget is spent."""
        self.progress.on_methods([search.label for search in searches])
        while unfinished := [search for search in searches if not search.spent.over]:
            self._round(unfinished)
            if log:
                write_log(self.folder / LOG, [trial for search in searches for trial in search.trials], self.settings)

    def _round(self, searches: list[_Search]) -> None:
        """Propose trials of every search and train them."""
        asked = [(search, trial) for search in searches for trial in search.propose(self._count(search))]
        trained = list(zip(asked, self._train(asked), strict=True))
        for search in searches:
            self._charge(search, [trial for (owner, _), trial in trained if owner is search])

    def _count(self, search: _Search) -> int:
        """The size of the round; of the last one only as many trials as the budget has left."""
        budget = self.settings.budget.trials
        return ROUND if budget is None else min(ROUND, budget - search.spent.trials)

    def _train(self, asked: list[tuple[_Search, Trial]]) -> list[Trial]:
        """Execute the runs of several trials; a run that several of them need is executed once.

        A trial of several methods has their mean score and all costs.
        """
        attempts = [[self._attempt(search, trial, m) for m in search.methods] for search, trial in asked]
        every_run = [run for together in attempts for one in together for run in one.runs]
        runs = list({(run.label, run.spec.folder_name): run for run in every_run}.values())
        self.progress.on_round([run.title for run in runs])
        outcome = run_all(
            runs,
            self.folder,
            (self.settings.metric,),
            jobs=self.jobs,
            options=self.options,
            progress=self.progress,
            executor=self.executor,
        )
        failed = {runs[number].title: reason for number, reason in outcome.failed.items()}
        results = []
        for (_, trial), together in zip(asked, attempts, strict=True):
            parts = [one.score(self.folder, self.settings.metric, failed, self._charged) for one in together]
            error = next((part.error for part in parts if part.error), "")
            value = None if error else sum(part.value or 0.0 for part in parts) / len(parts)
            seconds, images = sum(part.seconds for part in parts), sum(part.images for part in parts)
            results.append(replace(trial, value=value, seconds=seconds, images=images, error=error))
        return results

    def _attempt(self, search: _Search, trial: Trial, method: MethodSpec) -> Attempt:
        """Plan the runs of one method in a trial. Settings that are refused make a failed trial, not an error."""
        new = Trial(f"{method.label} common" if search.common else method.label, trial.number, trial.settings)
        seed = self.settings.seed + (trial.number if search.sampler is None else 0)
        try:
            study, candidate = self.study, method
            if search.common:
                study = _with_conditions(study, trial.settings)
            else:
                candidate = applied(method, trial.settings)
            methods.create(candidate.name, num_classes=2, dim=study.conditions.dim, **candidate.settings)
            tried = self.settings.trial_study(study, candidate, seed=seed)
            runs = plan(tried, digest=lambda _: self._digest, device=self.options.device)
        except Exception as error:  # a user's class may raise anything; the search goes on
            message = str(error) if isinstance(error, LevelfieldError) else f"{type(error).__name__}: {error}"
            return Attempt(replace(new, error=message))
        name = f"{method.label} {trial.number}"
        return Attempt(new, tuple(replace(run, label=name) if run.label == method.label else run for run in runs))

    def _charge(self, search: _Search, done: list[Trial]) -> None:
        """Charge the trials in order. Those that would have begun after the budget was spent do not count."""
        charged = []
        for trial in done:
            if search.spent.over:
                break
            search.spent.charge(
                seconds=trial.seconds / len(search.methods),
                images=round(trial.images / len(search.methods)),
                unknown=bool(trial.error) and not trial.seconds,
            )
            self.progress.on_trial(trial, spent=min(1.0, search.spent.share))
            charged.append(trial)
        search.learn(charged)


def _with_conditions(study: Study, values: dict[str, Any]) -> Study:
    conditions = Conditions.model_validate({**study.conditions.model_dump(mode="json"), **values})
    return study.model_copy(update={"conditions": conditions})
