"""One run: from a specification to a folder with a usable model and its figures."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

from levelfield.embedder import Embedder
from levelfield.embedder.model import save_model
from levelfield.errors import MissingExtra
from levelfield.evaluation import evaluate
from levelfield.files import write_whole
from levelfield.methods import Method
from levelfield.studies import spectra
from levelfield.studies.ground import Ground, Tell, ground_for
from levelfield.studies.items import refined, test_items
from levelfield.studies.joining import join
from levelfield.studies.leaderboard import ranking
from levelfield.studies.measuring import measure
from levelfield.studies.monitor import watcher
from levelfield.studies.run_files import write_training
from levelfield.studies.runs import RunSpec, needed_folder
from levelfield.studies.setup import Setup, num_classes, own_labels, planner, set_up
from levelfield.studies.store import claim
from levelfield.studies.stored_method import save_method
from levelfield.studies.teacher import teach
from levelfield.training import Conditions, Pace, Progress, train
from levelfield.training.feed import Feed
from levelfield.training.ledger import changed, only, settle
from levelfield.training.memory import sees_unit_rows
from levelfield.trust import as_trusted


@dataclass(frozen=True)
class Options:
    """How runs are done. Nothing here can change a weight."""

    device: str = "cpu"
    cache_folder: Path | None = None
    workers: int = 0
    tensorboard: bool = False
    pace: Pace = field(default_factory=Pace)
    trust: tuple[str, ...] | None = None
    """Whose code the runs may run, as `levelfield.trust.trusted` says it; None: that of any file they name."""


def execute(
    spec: RunSpec,
    folder: Path,
    metrics: tuple[str, ...],
    *,
    options: Options,
    tell: Tell = lambda text, done, total: None,
) -> None:
    """Train, embed the test images once, measure, write. Continues where an earlier attempt was cut off."""
    with as_trusted(options.trust):
        _execute(spec, folder, metrics, options, tell)


def _execute(spec: RunSpec, folder: Path, metrics: tuple[str, ...], options: Options, tell: Tell) -> None:
    claim(folder, spec, versions())
    if spec.joined:
        needed = [needed_folder(folder, need) for need in spec.needs]
        join(needed, folder, metrics, about={"method": spec.method.label}, under=spec, tell=tell)
        return
    torch.set_num_threads(spec.conditions.threads)
    ground = ground_for(spec, options.cache_folder, options.device)
    if not (folder / "training.json").exists():
        _train_and_embed(spec, ground, folder, metrics, options, tell)
    tested = ground.fold.test
    measure(folder, ground.catalog.labels[tested] if len(tested) else None, metrics, tell)


def _train_and_embed(
    spec: RunSpec, ground: Ground, folder: Path, metrics: tuple[str, ...], options: Options, tell: Tell
) -> None:
    setup = set_up(spec, ground, options.device, tell)
    taught = teach(setup.method, spec, ground, folder, tell)
    progress = _train(spec, setup, ground, folder, metrics, options, tell) if setup.method.trains else Progress()
    tested = len(ground.fold.test) > 0
    if not tested:
        setup.method.refinement = None  # messages pass among test images, and there are none
    raw = ground.embed(setup.embedder, ground.fold.test if tested else ground.fold.train[:1], tell)
    with only([]):
        embeddings = refined(setup.method, raw.copy(), test_items(ground).queries if tested else None)
    measured = setup.measured
    measured.images, measured.steps = progress.images, progress.step
    measured.rows_through_trunk, measured.rows_changed = progress.rows_through_trunk, progress.rows_changed
    measured.memory_rows, measured.monitored = progress.memory_rows, len(progress.monitored)
    if progress.images != progress.step * setup.layout.batch_size:  # what was seen counts, not what was said
        measured.layout = f"{progress.images / progress.step:g}"
    measured.dim, measured.bits = embeddings.shape[1], 1 if (np.abs(embeddings) == 1).all() else 32
    measured.learned_buffers = changed(setup.buffers, setup.method)
    if embeddings.dtype != raw.dtype or not np.array_equal(embeddings, raw, equal_nan=True):
        measured.refined = setup.method.refines
    measured.teacher = setup.method.learns_from if taught else ""
    deviations = spec.with_departures(settle(setup.method, spec.conditions, measured))
    _write_model(spec, ground, setup.embedder, folder, embeddings if tested else None)
    save_method(folder, setup.method, num_classes=num_classes(ground))
    internal = ("checks_since_best", "checks_since_drop")
    summary = {key: value for key, value in asdict(progress).items() if key not in internal}
    summary["best"] = progress.best if progress.history else None
    if setup.method.trains:
        rows = ground.embed(setup.embedder, ground.fold.train, tell, "training embeddings")
        summary["rho_train"] = spectra.record(rows, ground.train_labels, folder)
    told = [{**asdict(deviation), "text": deviation.text} for deviation in deviations]
    write_training(folder, {"summary": summary, "measured": asdict(measured), "deviations": told})


def _train(
    spec: RunSpec, setup: Setup, ground: Ground, folder: Path, metrics: tuple[str, ...], options: Options, tell: Tell
) -> Progress:
    conditions = spec.conditions
    feed = Feed(
        ground.source(spec.draws, options.workers, tell),
        planner(setup, ground, conditions, spec.draws),
        own_labels(spec, setup.method, ground),
        device=options.device,
        names=[str(ground.catalog.paths[i]) for i in ground.fold.train],
        embed=lambda: ground.embed(setup.embedder, ground.fold.train, tell, "memory of embeddings", coded=False),
        unit_rows=sees_unit_rows(setup.method.objective),
    )
    monitored = conditions.monitor == "test"
    watch = watcher(ground, setup.embedder, ranking(metrics)[0], tell) if monitored else None
    with _board(folder, options) as board:
        progress = train(
            setup.embedder,
            setup.method,
            feed,
            setup.optimisers,
            conditions,
            seed=spec.draws,
            folder=folder,
            pace=options.pace,
            validate=_validation(ground, setup.method, setup.embedder, conditions, tell),
            watch=watch,
            board=board,
            tell=lambda done, total: tell("training", done, total),
        )
    setup.measured.epoch = feed.epoch_facts(max(0, progress.step - 1))
    return progress


def _validation(
    ground: Ground, method: Method, embedder: Embedder, conditions: Conditions, tell: Tell
) -> Callable[[], float] | None:
    if conditions.select == "budget":
        return None

    def validate() -> float:
        embedder.eval()
        rows = method.refine(ground.embed(embedder, ground.fold.validation, tell))
        labels = ground.catalog.labels[ground.fold.validation]
        return evaluate(rows, labels, metrics=(conditions.select,))[conditions.select]

    return validate


@contextmanager
def _board(folder: Path, options: Options) -> Iterator[Callable[[str, float, int], None] | None]:
    if not options.tensorboard:
        yield None
        return
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtra('TensorBoard is not installed: pip install "levelfield[tensorboard]"') from error
    with SummaryWriter(str(folder / "tensorboard")) as writer:  # closed: the last lines are written too
        yield lambda name, value, step: writer.add_scalar(name, value, step)


def _write_model(
    spec: RunSpec, ground: Ground, embedder: Embedder, folder: Path, embeddings: np.ndarray | None
) -> None:
    about = {"method": spec.method.label, "data": ground.catalog.name}
    save_model(folder, embedder, {**ground.views[1].description, **about})
    if embeddings is None:
        return
    test_items(ground).write(folder)
    write_whole(folder / "embeddings.npy", lambda file: np.save(file, embeddings))


def versions() -> dict[str, str]:
    """What the figures were made with."""
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in ("levelfield", "torch", "timm", "numpy")},
    }
