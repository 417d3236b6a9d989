"""The search: every method gets the same budget, and validation classes judge every trial.

Trials are proposed in rounds of a fixed size and reported to the sampler in order, so that the same seed gives the
same trials with any number of processes and after any interruption: a search that is started again repeats its
proposals, and finds their scores in the folders of finished runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from levelfield import methods
from levelfield.errors import BadSpecification, LevelfieldError
from levelfield.studies import Study
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
from levelfield.tuning.halving import BRACKET, best_third, bracket_cost, rungs_of, with_rung
from levelfield.tuning.outline import full_trial, is_searched, outline, resolve_trial
from levelfield.tuning.result import LOG, SearchResult, Tuned, write_tuned
from levelfield.tuning.space import Space, common_space, own_values, space_of
from levelfield.tuning.trials import (
    SILENT_TUNING,
    Attempt,
    How,
    Trial,
    TuningProgress,
    attempt,
    chosen,
    judged,
    write_log,
)

ROUND = 4  # trials of a method that are asked for together


@dataclass
class _Search:
    """The search for one method's settings (or for the common conditions, if `method` is None)."""

    label: str
    space: Space
    spent: Spent
    sampler: samplers.Sampler | None  # None: there is nothing to search
    trials: list[Trial] = field(default_factory=list)
    method: MethodSpec | None = None

    def propose(self, count: int) -> list[Trial]:
        """The next trials. Trial 0 has the study's own settings; a method without ranges repeats them."""
        first = len(self.trials)
        new = [Trial(self.label, first)] if first == 0 else []
        if self.sampler is None:
            return [Trial(self.label, first + k) for k in range(count)]
        asked = self.sampler.ask(count - len(new))
        return new + [Trial(self.label, first + len(new) + k, settings) for k, settings in enumerate(asked)]

    def learn(self, done: Sequence[Trial], own: Mapping[str, Any]) -> None:
        """Take in a round. A failed trial counts as the worst value known."""
        self.trials += done
        if self.sampler is None or self.spent.over:  # nothing is asked any more
            return
        worst = min((trial.value for trial in self.trials if trial.value is not None), default=0.0)
        values = [worst if trial.value is None else trial.value for trial in done]
        if done[0].number == 0:
            self.sampler.start_from(own, values[0])
            done, values = done[1:], values[1:]
        self.sampler.tell(values, pruned=[trial.pruned for trial in done])


def tune(
    study: Study,
    folder: Path,
    how: How,
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
        how = outline(study, how).how
        work = _Work(study, folder, how, jobs, replace(options, trust=trusted()), progress, executor)
        work.check()
        how = work.how
        common = work.search_common()
        if common is not None:
            study = work.study
        searches = [_begin(study, method, how) for method in study.methods if is_searched(method)]
        progress.on_methods([search.label for search in searches])
        work.carry_out(searches)
        results = {search.label: SearchResult(search.space, search.trials) for search in searches}
        shared = None if common is None else SearchResult(common.space, common.trials)
        return write_tuned(study, how, results, shared, folder)


def _begin(study: Study, method: MethodSpec, how: How) -> _Search:
    space = space_of(study, method)
    sampler = samplers.create(how.sampler, space, seed=how.seed, trials=(how.budget.trials or 0)) if space else None
    return _Search(method.label, space, _purse(study, how), sampler, method=method)


def _purse(study: Study, how: How) -> Spent:
    return Spent(how.budget, full_trial(study, how), pruning=how.prune)


@dataclass
class _Work:
    """Everything that the rounds of a search share."""

    study: Study
    folder: Path
    how: How
    jobs: int
    options: Options
    progress: TuningProgress
    executor: Executor | None = None
    _digest: str = ""
    _charged: set[tuple[str, str]] = field(default_factory=set)  # see `judged`

    def search_common(self) -> _Search | None:
        """Search conditions once for all methods, where the study asks for it; the mean of their figures decides."""
        space = common_space(self.study)
        if not space:
            return None
        if not self._training_methods:
            raise BadSpecification("search: no method of the study trains, so `common` has nothing to decide.")
        sampler = samplers.create(self.how.sampler, space, seed=self.how.seed, trials=self.how.budget.trials or 0)
        search = _Search("common conditions", space, _purse(self.study, self.how), sampler)
        self.progress.on_methods([search.label])
        own = {key: getattr(self.study.conditions, key) for key in space}
        while not search.spent.over:
            self._common_round(search, own)
        best = chosen(search.trials)
        if best is not None and best.settings:
            conditions = {**self.study.conditions.model_dump(mode="json"), **best.settings}
            self.study = self.study.model_copy(update={"conditions": Conditions.model_validate(conditions)})
        return search

    @property
    def _training_methods(self) -> list[MethodSpec]:
        return [method for method in self.study.methods if methods.trains(method.name) and is_searched(method)]

    def _common_attempt(self, trial: Trial, method: MethodSpec) -> Attempt:
        """One method under the common conditions of a trial. Conditions that are refused make a failed trial."""
        one = Trial(f"{method.label} common", trial.number)
        try:
            conditions = Conditions.model_validate({**self.study.conditions.model_dump(mode="json"), **trial.settings})
        except (LevelfieldError, ValueError) as error:
            return Attempt(replace(one, error=str(error)))
        study = self.study.model_copy(update={"conditions": conditions})
        return self._attempt(study, one, method, seed=self.how.seed)

    def _common_round(self, search: _Search, own: Mapping[str, Any]) -> None:
        trained = self._training_methods
        proposed = search.propose(ROUND)
        results = self._run([self._common_attempt(trial, method) for trial in proposed for method in trained])
        done = []
        for k, trial in enumerate(proposed):
            parts = results[k * len(trained) : (k + 1) * len(trained)]
            wrong = next((part.error for part in parts if part.error), "")
            mean = None if wrong else sum(part.value or 0.0 for part in parts) / len(parts)
            seconds, images = sum(part.seconds for part in parts), sum(part.images for part in parts)
            done.append(replace(trial, value=mean, error=wrong, seconds=seconds, images=images))
        self._take_in(search, done, own, charge=1 / len(trained))

    def carry_out(self, searches: list[_Search]) -> None:
        """Rounds of all methods side by side, until every budget is spent."""
        while open_ones := [search for search in searches if self._goes_on(search)]:
            if self.how.prune:
                self._bracket(open_ones)
            else:
                self._round(open_ones)
            write_log(self.folder / LOG, [trial for search in searches for trial in search.trials], **self.how.plain)

    def _goes_on(self, search: _Search) -> bool:
        """Whether the budget allows another round. A bracket is begun only if all of it fits, except the first one."""
        if search.spent.over or not (self.how.prune and search.trials and self._can_be_shorter(search)):
            return not search.spent.over
        return search.spent.left >= bracket_cost(self.study.conditions.steps) - 1e-9

    def _round(self, searches: list[_Search]) -> None:
        proposed = [(search, trial) for search in searches for trial in search.propose(self._count(search))]
        results = self._run([self._attempt_of(search, trial, None) for search, trial in proposed])
        for search in searches:
            done = [trial for (one, _), trial in zip(proposed, results, strict=True) if one is search]
            self._take_in(search, done, self._own(search))

    def _count(self, search: _Search) -> int:
        """The size of the round; of the last one only as many trials as the budget has left."""
        if self.how.budget.trials is None or self.how.prune:
            return ROUND
        return min(ROUND, self.how.budget.trials - search.spent.trials)

    def _bracket(self, searches: list[_Search]) -> None:
        """Successive halving: many settings train for few steps, and the best third of them goes on, twice."""
        rungs = rungs_of(self.study.conditions.steps)
        done = {search.label: search.propose(BRACKET) for search in searches}
        left = {label: list(trials) for label, trials in done.items()}
        for steps in [*rungs, None]:
            asked = [
                (search, trial)
                for search in searches
                for trial in left[search.label]
                if steps is None or self._can_be_shorter(search)
            ]
            results = self._run([self._attempt_of(search, trial, steps) for search, trial in asked])
            for search in searches:
                mine = [trial for (one, _), trial in zip(asked, results, strict=True) if one is search]
                before = {trial.number: trial for trial in done[search.label]}
                mine = [with_rung(before[trial.number], trial, pruned=steps is not None) for trial in mine]
                done[search.label] = [{t.number: t for t in mine}.get(t.number, t) for t in done[search.label]]
                if steps is not None and mine:
                    left[search.label] = best_third(mine)
        for search in searches:
            self._take_in(search, done[search.label], self._own(search))

    @staticmethod
    def _can_be_shorter(search: _Search) -> bool:
        return search.method is not None and search.sampler is not None and methods.trains(search.method.name)

    def _own(self, search: _Search) -> dict[str, Any]:
        return own_values(self.study, search.method, search.space) if search.method is not None else {}

    def _take_in(self, search: _Search, done: list[Trial], own: Mapping[str, Any], *, charge: float = 1.0) -> None:
        """Charge the trials in order. Those that would have begun after the budget was spent do not count."""
        kept = []
        for trial in done:
            if search.spent.over:
                break
            search.spent.charge(
                seconds=trial.seconds * charge,
                images=round(trial.images * charge),
                unknown=bool(trial.error) and not trial.seconds,
            )
            self.progress.on_trial(trial, spent=min(1.0, search.spent.share))
            kept.append(trial)
        search.learn(kept, own)

    def _attempt_of(self, search: _Search, trial: Trial, steps: int | None) -> Attempt:
        assert search.method is not None
        seed = self.how.seed if search.sampler is not None else self.how.seed + trial.number
        return self._attempt(self.study, trial, search.method, seed=seed, steps=steps)

    def _attempt(
        self, study: Study, trial: Trial, method: MethodSpec, *, seed: int, steps: int | None = None
    ) -> Attempt:
        return attempt(
            study,
            self.how.judge,
            self.how.metric,
            trial,
            method,
            seed=seed,
            steps=steps,
            digest=self._digest,
            device=self.options.device,
        )

    def check(self) -> None:
        """Raise errors of the study itself before the first trial, and describe the data that judges."""
        shared = SharedInputs()
        for method in self.study.methods:
            if is_searched(method):
                trial = self.how.judge.trial_study(self.study, self.how.metric, method, seed=self.how.seed, steps=None)
                spec = resolve_trial(trial, method, self.options, shared, self.progress).runs[-1].spec
                if not self._digest:
                    catalog = shared.catalog(spec.data, spec.data_digest)
                    description = self.how.judge.describe(catalog, shared.divided(catalog, spec.protocol)[0])
                    self.how = replace(self.how, judged_by=description)
                self._digest = spec.data_digest

    def _run(self, attempts: list[Attempt]) -> list[Trial]:
        """Carry out the runs of all attempts together; a run that several of them need is done once."""
        runs = list({(run.label, run.spec.folder_name): run for one in attempts for run in one.runs}.values())
        self.progress.on_round([run.title for run in runs])
        outcome = run_all(
            runs,
            self.folder,
            (self.how.metric,),
            jobs=self.jobs,
            options=self.options,
            progress=self.progress,
            executor=self.executor,
        )
        failed = {runs[number].title: reason for number, reason in outcome.failed.items()}
        return [judged(one, self.folder, self.how.metric, failed, self._charged) for one in attempts]
