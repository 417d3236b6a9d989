"""Estimate the cost of a study by timing a few steps of each method on random inputs; nothing is trained or kept."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from levelfield.batching import Layout
from levelfield.data.loader import Loader
from levelfield.embedder import BLOCK, Embedder
from levelfield.embedder.devices import capacity, clock
from levelfield.evaluation.search.threads import torch_threads
from levelfield.methods import Batch, Deviation, Method, Setting, TrainingFeatures
from levelfield.progress import SILENT, Progress
from levelfield.randomness import isolated, numpy_stream, stream
from levelfield.studies.runs.evaluation import MAX_MONITORED_IMAGES
from levelfield.studies.runs.folder.method_file import make_method
from levelfield.studies.runs.inputs import RunInputs, inputs_for
from levelfield.studies.runs.run import Options
from levelfield.studies.runs.setup import common_head, setting_of
from levelfield.studies.runs.spec import PlannedRun
from levelfield.training import Conditions
from levelfield.training.ledger import declared
from levelfield.training.precision import Precision
from levelfield.wording import duration, plural

PROBES = 3
MOST_NUMBERS = 100 * 3 * 512**2  # of a timed batch; of a larger batch only a part is timed
PROBE_IMAGES, MAX_PROBE_SECONDS = 16, 0.5  # of the first probes; if a whole batch would take longer, none is timed
IN_CHECKPOINT = 3  # numbers per trained parameter: the weight and two moments
OVERHEAD = 2.0  # seconds per run besides its steps and embeddings: building, evaluating, writing


@dataclass
class MethodCost:
    """One row of the plan; seconds of one run, of one of its steps, and to embed one test image."""

    label: str
    runs: int
    seconds: float
    deviations: list[str]
    step: float = 0.0
    image: float = 0.0


@dataclass(frozen=True)
class Estimate:
    """Approximate seconds and bytes of a study. feature_seconds: to compute features that are not stored yet."""

    rows: list[MethodCost]
    feature_seconds: float
    feature_bytes: int
    run_bytes: int
    jobs: int

    @property
    def seconds(self) -> float:
        return (self.feature_seconds + sum(row.runs * row.seconds for row in self.rows)) / self.jobs

    @property
    def text(self) -> str:
        stored = self.feature_bytes and not self.feature_seconds
        features = "features are already stored" if stored else f"{duration(self.feature_seconds)} for features"
        return (
            f"Estimated time: about {duration(self.seconds)} with {plural(self.jobs, 'job', 'jobs')} ({features}). "
            f"Disk: {size_text(self.feature_bytes)} of features, {size_text(self.run_bytes)} of runs."
        )


def estimate(runs: list[PlannedRun], *, options: Options, jobs: int, progress: Progress = SILENT) -> Estimate:
    """Time the parts of a study once and scale."""
    networks: dict[RunInputs, _Network] = {}
    rows: dict[str, MethodCost] = {}
    dims: dict[str, int] = {}  # embedding size of each run
    run_bytes = in_checkpoint = 0
    stage = progress.stage("timing", len(runs))
    for run in runs:
        conditions = run.spec.conditions
        inputs = inputs_for(run.spec, options.cache_folder, options.device)
        whole = inputs.with_fold(0)  # folds share stored features
        with torch_threads(conditions.threads):
            if whole not in networks:
                networks[whole] = _network(whole)
            if run.row not in rows:
                rows[run.row] = _method(run, inputs, networks[whole])
        rows[run.row].runs += 1
        trunk, head = whole.frozen_trunk, inputs.width * conditions.dim
        numbers, weights = conditions.dim, sum(p.numel() for p in trunk.parameters()) + head
        in_checkpoint = max(in_checkpoint, IN_CHECKPOINT * (sum(p.numel() for _, p in trunk.trainable()) + head))
        if run.spec.joined:  # concatenated members; their weights are hard links, which take no space
            numbers, weights = sum(dims.get(need.name, conditions.dim) for need in run.spec.needs), 0
        dims[run.spec.folder_name] = numbers
        run_bytes += 4 * (len(inputs.fold.test) * numbers + weights)
        stage.advance()
    processes = max((run.spec.conditions.processes for run in runs), default=1)
    jobs = max(1, min(jobs, len(runs), capacity(options.device, processes)))
    return Estimate(
        list(rows.values()),
        sum(network.seconds_per_image * network.missing_images for network in networks.values()),
        sum(network.stored_images * network.bytes_per_image for network in networks.values()),
        run_bytes + 4 * jobs * in_checkpoint,  # a checkpoint is removed at the end of its run
        jobs,
    )


class _Network(NamedTuple):
    """Measurements of a network on one block of real images."""

    seconds_per_image: float
    bytes_per_image: int
    stored_images: int
    missing_images: int


def _network(inputs: RunInputs) -> _Network:
    """Time decoding and everything below the cut on one block of real images."""
    view, trunk = inputs.views[1], inputs.frozen_trunk
    next(iter(Loader(inputs.catalog.paths[:1], view)))  # the first image loads the decoder
    began = time.perf_counter()
    side = inputs.conditions.tested_side
    few = max(1, min(BLOCK, BLOCK * 512**2 // side**2))  # at most the pixels of a block of side 512, to limit memory
    [images] = next(iter(Loader(inputs.catalog.paths[:few], view, device=inputs.device)))
    each = (time.perf_counter() - began) / len(images)
    block = images[torch.arange(few) % len(images)]
    trunk.below(block)  # the first call prepares kernels
    began = clock(inputs.device)
    below = trunk.below(block)
    each += (clock(inputs.device) - began) / few
    stored, missing = _features(inputs) if inputs.is_cached else (0, 0)
    return _Network(each, 4 * sum(part[0].numel() for part in below), stored, missing)


def _features(inputs: RunInputs) -> tuple[int, int]:
    """How many images will be stored, each once per view, and how many of them are missing."""
    fold, (training, test) = inputs.fold, inputs.views
    trained, judged = fold.train, fold.validation
    if inputs.protocol.folds > 1:  # images held out in one fold train in another
        trained, judged = np.concatenate([trained, judged]), judged[:0]
    views = range(max(1, inputs.conditions.views) if training.random else 1)
    wanted = [(trained, training, number) for number in views]
    wanted += [(trained, test, 0)] if training.key != test.key else []
    wanted += [(judged, test, 0), (fold.test, test, 0)]
    return sum(len(images) for images, _, _ in wanted), sum(inputs.missing(*each) for each in wanted)


def _method(run: PlannedRun, inputs: RunInputs, network: _Network) -> MethodCost:
    conditions, fold = run.spec.conditions, inputs.fold
    if run.spec.joined:  # its members are runs of their own
        return MethodCost(run.row, 0, OVERHEAD, joined_deviations(run))
    with isolated(run.spec.seed, "estimate"):
        method = make_method(run.spec, num_classes=inputs.num_classes)
        setting = setting_of(method, conditions, inputs.width, 0)
        layout, drawn = conditions.batches(method)
        try:
            step, embedding = (
                _step_seconds(method, layout, inputs, setting, conditions) if method.trains else (0.0, 0.0)
            )
        except (Exception, SystemExit) as error:  # raised by user code: the plan reports it and continues
            return MethodCost(run.row, 0, 0.0, [f"the first step fails: {type(error).__name__}: {error}"])
    trains = method.trains and run.spec.weights_from is None  # else another run trains its network
    if trains:  # plan one batch, with random embeddings if the batching uses them
        batches = drawn.make(inputs.train_labels, layout, batches_per_epoch=PROBES)
        size = len(inputs.train_labels), conditions.dim
        rows = numpy_stream(0, "estimate").normal(size=size) if batches.needs_memory else None
        began = time.perf_counter()
        batches.plan(0, rows)
        step += (time.perf_counter() - began) / PROBES
    if not inputs.is_cached:
        smaller = (conditions.image / conditions.tested_side) ** 2  # images were timed as they are tested
        step += network.seconds_per_image * smaller * layout.batch_size
        embedding += network.seconds_per_image
    images = evaluated_images(conditions, trains, len(fold.train), len(fold.validation), len(fold.test))
    seconds = OVERHEAD + (step * conditions.steps if trains else 0.0) + embedding * images
    deviations = run.spec.with_deviations(declared(method, conditions, setting))
    return MethodCost(run.row, 0, seconds, [deviation.text for deviation in deviations], step, embedding)


def joined_deviations(run: PlannedRun) -> list[str]:
    """That a run joins others, unless they are the folds that all methods join."""
    usual, count = run.spec.protocol.folds, len(run.spec.needs)
    return [] if count == usual else [Deviation("members", usual, count).text]


def evaluated_images(conditions: Conditions, trains: bool, train: int, validation: int, test: int) -> int:
    """How many images a run embeds to evaluate them: validation images to choose a step, training and test images for
    `monitor: test`, test images at its end. Early stopping (patience) is ignored."""
    checks = math.ceil(conditions.steps / conditions.validate_every) if trains else 0
    images = test
    if conditions.select != "budget":
        images += (checks + (conditions.validate_start and trains)) * validation
    if conditions.monitor == "test" and trains:
        images += (checks + 1) * (min(train, MAX_MONITORED_IMAGES) + test)
    return images


def random_features(width: int, labels: np.ndarray) -> TrainingFeatures:
    """Random training features, for methods that compute their head from them."""
    size = (len(labels), width)
    return TrainingFeatures(width, labels, lambda: numpy_stream(0, "estimate").normal(size=size).astype(np.float32))


def _step_seconds(
    method: Method, layout: Layout, inputs: RunInputs, setting: Setting, conditions: Conditions
) -> tuple[float, float]:
    """Seconds of one training step, and of embedding one image above the cut, on random inputs: the best of a few.

    Of a long step, as of a deep network on a CPU, only a part is timed: a table of a paper has dozens of methods.
    """
    classes, precision = inputs.num_classes, Precision(conditions.precision, inputs.device)
    head = method.head(random_features(inputs.width, inputs.train_labels), setting)
    if head is None:
        head = common_head(method, conditions, inputs.width)
    embedder = Embedder(inputs.new_trunk(), head, precision=conditions.precision).to(inputs.device).train()
    method.to(inputs.device)
    if method.teacher_output is not None:  # the teacher is not trained yet
        width = classes if method.teacher_output == "logits" else setting.dim
        method.receive_teacher(np.zeros((classes, width), np.float32))
    shapes, tested = (embedder.trunk.stored_shapes(side) for side in (conditions.image, conditions.tested_side))
    each = max(1, layout.per_class)
    member_labels = torch.from_numpy(method.labels(np.arange(classes), 0, 0))  # the member's label of each class
    trained = [p for p in (*embedder.parameters(), *method.parameters()) if p.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=0.0, weight_decay=0.0, fused=True)

    def timed(most: int) -> float:
        """Seconds of a whole batch, from a batch with at most `most` images, or two classes."""
        size = min(layout.batch_size, max(2 * each, most // each * each))
        stored = tuple(torch.rand(size, *shape, device=inputs.device) for shape in shapes)
        labels = torch.arange(size) // each % classes
        batch = Batch(stored, member_labels[labels].to(inputs.device), labels.numpy(), None, 0, 0)
        began = clock(inputs.device)
        with precision.context():
            sum(method.step(embedder, batch, stream(0, "estimate")).values(), stored[0].new_zeros(())).backward()
            optimiser.step()
        return (clock(inputs.device) - began) * layout.batch_size / size

    def embedded() -> float:
        stored = tuple(torch.rand(PROBE_IMAGES, *shape, device=inputs.device) for shape in tested)
        began = clock(inputs.device)
        embedder.embed(stored)
        return (clock(inputs.device) - began) / PROBE_IMAGES

    timed(PROBE_IMAGES)  # the first step prepares kernels and imports modules
    step = timed(PROBE_IMAGES)
    if step > MAX_PROBE_SECONDS:
        return step, embedded()
    affordable = MOST_NUMBERS // max(1, sum(math.prod(shape) for shape in shapes))
    return min(timed(affordable) for _ in range(PROBES)), min(embedded() for _ in range(PROBES))


def size_text(count: int) -> str:
    return f"{count / 1e6:.0f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"
