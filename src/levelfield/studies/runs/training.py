"""Train a method on its inputs and write the model."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from levelfield.data.decoders import decoding
from levelfield.distributed.ranks import ALONE, Ranks
from levelfield.embedder import Embedder, Head, Model, load, save_model
from levelfield.embedder.model_files import read_weights
from levelfield.errors import import_extra
from levelfield.evaluation.metrics.registry import ranking
from levelfield.evaluation.search.threads import torch_threads
from levelfield.files.writing import link_whole
from levelfield.methods import Method
from levelfield.objectives._create import changed
from levelfield.progress import SILENT, Progress
from levelfield.studies.runs.evaluation import monitor, validation
from levelfield.studies.runs.folder.files import read_training
from levelfield.studies.runs.folder.method_file import load_method, make_method, save_method
from levelfield.studies.runs.inputs import RunInputs, inputs_for
from levelfield.studies.runs.setup import Setup, own_labels, planner, set_up
from levelfield.studies.runs.spec import RunSpec
from levelfield.studies.runs.teacher import teach
from levelfield.training import Observer, Pace, TrainingState, train
from levelfield.training.feed import Feed, Source, sees_unit_rows
from levelfield.training.ledger import Measured, frozen_in
from levelfield.training.log import LOG
from levelfield.training.precision import numerics
from levelfield.training.shards import Shards
from levelfield.trust import as_trusted

_INTERNAL = ("checks_since_best", "checks_since_drop", "without_gradient", "class_sample")


@dataclass(frozen=True)
class Options:
    """How runs are executed. No option can change a weight."""

    device: str = "cpu"
    cache_folder: Path | None = None
    workers: int | None = None  # processes that decode images; None: the cores that runs at the same time leave
    tensorboard: bool = False
    pace: Pace = field(default_factory=Pace)
    trust: tuple[str, ...] | None = None  # files that runs may execute, see `trust.trusted`; None: any that they name
    keep_state: bool = False  # after the last step, so that a longer run can go on from there
    home: Path | None = None  # where the folder of the run will be, if it is made elsewhere (on a node of a cluster)


@dataclass(frozen=True)
class Task:
    """One run to execute: its specification, its folder, the metrics of its evaluation, and how to execute it."""

    spec: RunSpec
    folder: Path
    metrics: tuple[str, ...]
    options: Options


@dataclass(frozen=True)
class Trained:
    """A trained method and its head, whose model is written: cost, and counts of the ledger."""

    method: Method
    head: nn.Module
    summary: dict[str, Any]
    measured: Measured


@contextmanager
def computing(task: Task) -> Iterator[None]:
    """Context of all computations of a run, in each of its processes."""
    conditions, options = task.spec.conditions, task.options
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)  # code of an earlier run may have changed it
    try:
        with (
            torch_threads(conditions.threads),
            as_trusted(options.trust),
            decoding(options.workers),
            numerics(conditions, options.device),
            torch.enable_grad(),
        ):
            yield
    finally:
        torch.set_default_dtype(before)


def train_run(task: Task, inputs: RunInputs, progress: Progress, *, ranks: Ranks = ALONE) -> Trained:
    """Train, and write the model and the method. Continues an interrupted attempt.

    ranks: the processes that train together, of which this is the first; the others call `take_part`.
    """
    spec, folder = task.spec, task.folder
    setup, state, weights = _set_up_and_train(task, inputs, progress, ranks)
    method, measured = setup.method, setup.measured
    if spec.conditions.head == "dropped" and method.trains and isinstance(setup.embedder.head, Head):
        setup.embedder.head = nn.Identity()
    _save(folder, spec, inputs, setup.embedder, weights)
    setup.audit.check_saved(read_weights(folder))
    measured.images, measured.steps = state.images, state.step
    measured.rows_through_trunk, measured.rows_changed = state.rows_through_trunk, state.rows_changed
    measured.memory_rows, measured.monitored = state.memory_rows, len(state.monitored)
    measured.processes, measured.class_sample = ranks.size, state.class_sample
    if state.images != state.step * setup.layout.batch_size:  # the images seen count, not the declared layout
        measured.layout = f"{state.images / state.step:g}"
    measured.learned_buffers = changed(setup.buffers, method)
    measured.frozen_parameters = frozen_in(setup.buffers, method) if method.trains else 0
    summary = {key: value for key, value in asdict(state).items() if key not in _INTERNAL}
    summary["best"] = state.best if state.history else None
    return Trained(method, setup.embedder.head, summary, measured)


def trained_before(spec: RunSpec, inputs: RunInputs, folder: Path, before: Path) -> Trained:
    """The network that the run in `before` trained, written again as this run's: only the refinement differs."""
    stored, model = read_training(before), load(before, device=inputs.device)
    assert isinstance(model, Model)
    weights = load_method(before).state_dict()
    method = make_method(spec, num_classes=inputs.num_classes).to(inputs.device).eval()
    method.load_state_dict(weights)
    _save(folder, spec, inputs, model.embedder, weights)
    if (before / LOG).exists():
        link_whole(before / LOG, folder / LOG)
    measured = replace(Measured(**stored["measured"]), refined="")
    return Trained(method, model.embedder.head, stored["summary"], measured)


def _save(folder: Path, spec: RunSpec, inputs: RunInputs, embedder: Embedder, weights: Mapping[str, Any]) -> None:
    about = {"method": spec.method.label, "data": inputs.catalog.name}
    save_model(folder, embedder, {**inputs.views[1].description, **about})
    save_method(folder, weights, num_classes=inputs.num_classes, width=inputs.width)


def take_part(task: Task, ranks: Ranks) -> None:
    """Train together with the first process, which calls `train_run`; writes no file."""
    options = replace(task.options, tensorboard=False)
    with computing(task):
        inputs = inputs_for(task.spec, options.cache_folder, options.device)
        _set_up_and_train(replace(task, options=options), inputs, SILENT, ranks)


def _set_up_and_train(
    task: Task, inputs: RunInputs, progress: Progress, ranks: Ranks
) -> tuple[Setup, TrainingState, dict[str, Any]]:
    """The parts after training, its state, and the method's weights with all shards, which only the first one has."""
    spec = task.spec
    with ranks.in_turn():  # the first process computes and stores what the others then read
        setup = set_up(spec, inputs, task.options.device, progress, ranks)
        if teach(setup.method, spec, inputs, task.folder, progress):
            setup.measured.teacher = setup.method.learns_from
        source = inputs.source(spec.training_seed, progress) if setup.method.trains else None
    state, share = TrainingState(), spec.conditions.start_share
    start = copy.deepcopy(setup.embedder.state_dict()) if share else {}
    if source is not None:
        state = _train(task, setup, inputs, source, progress, ranks)
        mix_in(setup.embedder, start, share)
    return setup, state, Shards(setup.method, ranks).whole(setup.method.state_dict())


@torch.no_grad()
def mix_in(network: nn.Module, start: Mapping[str, Tensor], share: float) -> None:
    """Replace every weight w by (1 - share) w + share w0, with its start weight w0."""
    weights = network.state_dict()
    for name, first in start.items():
        if first.is_floating_point():
            weights[name].lerp_(first, share)


def _train(
    task: Task, setup: Setup, inputs: RunInputs, source: Source, progress: Progress, ranks: Ranks
) -> TrainingState:
    spec, options, conditions = task.spec, task.options, task.spec.conditions
    feed = Feed(
        source,
        planner(setup.method, inputs.train_labels, conditions, spec.training_seed),
        own_labels(spec, setup.method, inputs),
        device=torch.device(options.device),
        names=[str(inputs.catalog.paths[i]) for i in inputs.fold.train],
        embed=lambda: inputs.embed(setup.embedder, inputs.fold.train, progress, "memory of embeddings", coded=False),
        unit_rows=sees_unit_rows(setup.method.objective),
        ranks=ranks,
    )
    watch = validate = None
    if conditions.monitor == "test":
        watch = monitor(inputs, setup.embedder, ranking(task.metrics)[0], progress)
    if conditions.select != "budget":
        validate = validation(inputs, setup.method, setup.embedder, conditions.select, progress)
    with _tensorboard(task.folder, options) as tensorboard:
        state = train(
            setup.embedder,
            setup.method,
            feed,
            setup.optimisers,
            conditions,
            seed=spec.training_seed,
            folder=task.folder,
            pace=options.pace,
            observer=Observer(validate, watch, progress, tensorboard),
            audit=setup.audit,
            ranks=ranks,
        )
    setup.measured.epoch = feed.epoch_facts(max(0, state.step - 1))
    return state


@contextmanager
def _tensorboard(folder: Path, options: Options) -> Iterator[Callable[[str, float, int], None] | None]:
    if not options.tensorboard:
        yield None
        return
    tensorboard = import_extra("torch.utils.tensorboard", "tensorboard", "TensorBoard is not installed")
    with tensorboard.SummaryWriter(str(folder / "tensorboard")) as writer:  # closing writes the last lines
        yield lambda name, value, step: writer.add_scalar(name, value, step)
