"""The plan: the runs of a study, each after the runs that it needs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from levelfield import methods
from levelfield.batch_layout import Layout
from levelfield.errors import BadSpecification, unknown
from levelfield.files.writing import expanded
from levelfield.registry import references_in
from levelfield.studies.runs.spec import Needed, PlannedRun, RunSpec, recorded_identity
from levelfield.studies.specification.choices import Data, MethodSpec, ProtocolChoice, differing
from levelfield.studies.specification.study import Study, Variation, owner, variations
from levelfield.training import Conditions


def plan(
    study: Study,
    varied_studies: Iterable[tuple[Study, Variation]] | None = None,
    *,
    digest: Callable[[Data], str] = lambda data: "",
    device: str = "cpu",
) -> list[PlannedRun]:
    """All runs of a study, seed by seed, so that every method has a first result early. Needed runs come first.

    varied_studies: the variations of the study, if they are known. digest: returns the identity of the images.
    Without the rows of `left_out`.
    """
    planned: dict[tuple[str, str, int], PlannedRun] = {}
    idle: set[str] = set()
    for varied, variation in variations(study) if varied_studies is None else varied_studies:
        for run in _all_seeds(varied, variation, study.conditions, digest(varied.data), device.split(":")[0]):
            if _has_no_tuple(run) or any(need.name in idle for need in run.spec.needs):
                idle.add(run.spec.folder_name)
            else:  # a varied setting of one method does not affect the others
                planned.setdefault((run.row, run.spec.identity, run.spec.seed), run)
    return _trained_once(list(planned.values()))


def _trained_once(runs: list[PlannedRun]) -> list[PlannedRun]:
    """The runs; of those with the same trained network, the first trains it and the others use it."""
    first: dict[str, RunSpec] = {}
    planned = []
    for run in runs:
        spec = run.spec
        plain = methods.class_of(spec.method.name, spec.method.settings) is methods.Method
        if plain and not spec.joined:
            trainer = first.setdefault(spec.weights, spec)
            if trainer.identity != spec.identity:
                run = replace(run, spec=spec.model_copy(update={"weights_from": _as_needed(trainer)}))
        planned.append(run)
    return planned


def left_out(study: Study) -> list[str]:
    """Varied rows that are not run, because no batch of theirs has anything to compare.

    >>> sweep = {"data": "emoji", "methods": ["triplet", "proxy_nca"], "vary": {"conditions.batch": [2, 4]}}
    >>> left_out(Study.model_validate(sweep))
    ['triplet [batch=2]']
    """
    runs = (run for varied, variation in variations(study) for run in _all_seeds(varied, variation, study.conditions))
    return list(dict.fromkeys(run.row for run in runs if _has_no_tuple(run)))


def _has_no_tuple(run: PlannedRun) -> bool:
    """Whether a varied batch is too small for the objective: a triplet needs three images of two classes."""
    name = run.spec.method.name
    known = any(key.endswith(".batch") for key, _ in run.variation) and name in methods.names()
    least = getattr(methods.describe(name), "least", None) if known else None
    if least is None:
        return False
    layout = Layout.parse(str(run.spec.method.settings.get("batch") or run.spec.conditions.batch))
    classes, together = least
    return layout.batch_size < classes + together - 1 or (bool(layout.per_class) and layout.classes < classes)


def _all_seeds(
    study: Study, variation: Variation, unvaried: Conditions, digest: str = "", device: str = "cpu"
) -> Iterator[PlannedRun]:
    """The runs of one variation. Methods that need all seeds of another come last, with those that need them.

    unvaried: the conditions of the study as written, for conditions that a method sets itself.
    """
    planned: dict[str, dict[int, PlannedRun]] = {method.label: {} for method in study.methods}
    late: list[MethodSpec] = []
    for method in (ordered := in_order(study.methods)):
        needed = methods.requires(method.name, method.settings)
        if methods.joins_seeds(method.name, method.settings) or any(other.label in needed for other in late):
            late.append(method)
    rounds = [(seed, method) for seed in study.seeds for method in ordered if method not in late]
    for seed, method in [*rounds, *((seed, method) for method in late for seed in study.seeds)]:
        all_seeds = methods.joins_seeds(method.name, method.settings)
        if seed != study.seeds[0] and (all_seeds or not methods.class_of(method.name).seeded):
            continue
        fixed = {*method.conditions, *{"batch", "lr"} & method.settings.keys()}
        if not methods.trains(method.name) and not methods.class_of(method.name).joins:
            fixed.add("batch")  # it has none
        common = study.conditions.model_copy(update={key: getattr(unvaried, key) for key in fixed})
        conditions = _with_its_weights(method.under(common))
        spec = RunSpec(
            data=study.data,
            protocol=study.protocol,
            conditions=conditions,
            common=differing(_with_its_weights(common), conditions),
            method=method,
            seed=seed,
            needs=_needs(method, seed, planned, all_seeds=all_seeds),
            device=device,
            data_digest=digest,
            code_digest=_file_digest(method, conditions, study.protocol),
        )
        concerned = {None, *needed_labels(study.methods, method.label)}  # settings of other methods do not vary it
        varied = [(key, value) for key, value in variation if key.removeprefix("conditions.") not in fixed]
        variation_of_run = tuple((key, value) for key, value in varied if owner(key, planned) in concerned)
        seeded = methods.class_of(method.name).seeded and not all_seeds
        runs = [PlannedRun(part, method.label, variation_of_run, seeded) for part in _parts(spec, study.protocol.folds)]
        planned[method.label][seed] = runs[-1]
        yield from runs


def _with_its_weights(conditions: Conditions) -> Conditions:
    """The conditions with the weights of their backbone alone: those of other backbones do not change the run."""
    return conditions.model_copy(update={"weights": conditions.own_weights})


def _parts(spec: RunSpec, folds: int) -> list[RunSpec]:
    """The runs of a method at one seed: itself, or its folds and members, then the run that joins them."""
    name, settings = spec.method.name, spec.method.settings
    if methods.class_of(name).joins:
        return [spec.model_copy(update={"joined": True})]
    members = methods.members(name, settings)
    parts = [
        spec.model_copy(update={"fold": fold if folds > 1 else None, "member": member if members > 1 else None})
        for fold in range(folds)
        for member in range(members)
    ]
    if len(parts) == 1:
        return parts
    return [*parts, spec.model_copy(update={"joined": True, "needs": tuple(_as_needed(part) for part in parts)})]


def _needs(
    method: MethodSpec, seed: int, planned: dict[str, dict[int, PlannedRun]], *, all_seeds: bool
) -> tuple[Needed, ...]:
    """The runs that a method waits for: runs of a label at the same seed (or all seeds), or a finished run folder."""
    needed = []
    for name in methods.requires(method.name, method.settings):
        if (runs := planned.get(name)) is not None:
            seeds = [seed if seed in runs else min(runs)]
            if all_seeds:
                named = methods.class_of(method.name).joined_seeds(method.settings)
                seeds = list(runs) if isinstance(named, str) else list(named)
            if unplanned := [str(each) for each in seeds if each not in runs]:
                raise BadSpecification(
                    f"Method '{method.label}' joins seed {unplanned[0]}, but the study has the seeds "
                    f"{', '.join(map(str, runs))}."
                )
            needed += [_as_needed(runs[each].spec) for each in seeds]
        elif (identity := recorded_identity(expanded(name))) is not None:
            needed.append(Needed(name=name, identity=identity))
        else:
            wrong = unknown("label or finished run folder", name, planned.keys() - {method.label})
            raise BadSpecification(f"Method '{method.label}' needs another run: {wrong}")
    return tuple(needed)


def _as_needed(spec: RunSpec) -> Needed:
    return Needed(name=spec.folder_name, identity=spec.identity)


def in_order(
    competitors: Sequence[MethodSpec], labels: Iterable[str] | None = None, *, run_code: bool = True
) -> list[MethodSpec]:
    """Methods after those they need, otherwise in the order of the study. Cycles are refused.

    labels: only these methods and what they need, directly or indirectly. run_code: see `methods.requires`.
    """
    by_label = {method.label: method for method in competitors}
    done: dict[str, MethodSpec] = {}

    def add(method: MethodSpec, above: tuple[str, ...]) -> None:
        if method.label in above:
            circle = " -> ".join([*above[above.index(method.label) :], method.label])
            raise BadSpecification(f"These methods wait for each other: {circle}.")
        for name in methods.requires(method.name, method.settings, run_code=run_code):
            if name in by_label and name not in done:
                add(by_label[name], (*above, method.label))
        done.setdefault(method.label, method)

    for label in by_label if labels is None else labels:
        add(by_label[label], ())
    return list(done.values())


def needed_labels(competitors: Sequence[MethodSpec], label: str, *, run_code: bool = True) -> set[str]:
    """`label` and all labels that it needs, directly or indirectly."""
    return {method.label for method in in_order(competitors, [label], run_code=run_code)}


def with_needed(runs: Sequence[PlannedRun], last: PlannedRun) -> list[PlannedRun]:
    """`last` and all planned runs that it needs, in order."""
    names = {last.spec.folder_name}
    for run in reversed(runs):  # needed runs come first
        if run.spec.folder_name in names:
            names |= {need.name for need in run.spec.dependencies}
    return [run for run in runs if run.spec.folder_name in names]


def _file_digest(method: MethodSpec, conditions: Conditions, protocol: ProtocolChoice) -> str:
    """Digest of a user's own files: another loss or other weights under the same name make another run."""
    weights = conditions.own_weights
    parts = [method.settings, conditions.model_dump(mode="json"), protocol.model_dump(mode="json")]
    named = [reference.rpartition(":")[0] for reference in references_in(method.name)]
    named += [weights] if weights not in (None, "random") else []
    named += dict.fromkeys(reference.rpartition(":")[0] for reference in references_in(parts))
    paths = [expanded(name) for name in named]
    return "-".join(
        hashlib.blake2b(path.read_bytes(), digest_size=6).hexdigest() if path.is_file() else "missing" for path in paths
    )
