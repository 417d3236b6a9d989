"""One run: from a specification to a folder with a usable model and its figures."""

from __future__ import annotations

import csv
import io
import json
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from levelfield import batching, methods
from levelfield.batching import Layout
from levelfield.embedder import Embedder
from levelfield.embedder.head import Head, start_pca, start_random
from levelfield.embedder.model import save_model
from levelfield.errors import MissingExtra
from levelfield.evaluation import evaluate
from levelfield.files import write_json, write_text, write_whole
from levelfield.methods import Group, Method
from levelfield.randomness import isolated, stream
from levelfield.studies.ground import Ground, StartFeatures, Tell, ground_for
from levelfield.studies.plan import RunSpec
from levelfield.studies.store import FINISHED, claim, read_result
from levelfield.training import Conditions, Pace, Progress, train
from levelfield.training.feed import Feed
from levelfield.training.ledger import measure_setup, settle
from levelfield.training.optimisers import build, check_groups

BEFORE = {"extra_parameters", "batch", "batching", "lr", "weight_decay", "optimiser"}


@dataclass(frozen=True)
class Options:
    """How runs are done. Nothing here can change a weight."""

    device: str = "cpu"
    cache_folder: Path | None = None
    workers: int = 0
    tensorboard: bool = False
    pace: Pace = field(default_factory=Pace)


def execute(
    spec: RunSpec,
    folder: Path,
    metrics: tuple[str, ...],
    *,
    options: Options,
    tell: Tell = lambda text, done, total: None,
) -> None:
    """Train, embed the test images once, measure, write. Continues where an earlier attempt was cut off."""
    claim(folder, spec, versions())
    torch.set_num_threads(spec.conditions.threads)
    ground = ground_for(spec, options.cache_folder, options.device)
    if not (folder / "training.json").exists():
        _train_and_embed(spec, ground, folder, options, tell)
    _measure(ground, folder, metrics, tell)


def _train_and_embed(spec: RunSpec, ground: Ground, folder: Path, options: Options, tell: Tell) -> None:
    conditions = spec.conditions
    with isolated(spec.seed, "method"):
        method = methods.create(
            spec.method.name,
            num_classes=int(ground.train_labels.max()) + 1,
            dim=conditions.dim,
            generator=stream(spec.seed, "proxies"),
            **spec.method.settings,
        )
    method.bf16, method.width = conditions.precision == "bf16", ground.width
    features = ground.start_features(tell)
    own = method.head(features, conditions.dim, spec.seed)
    common = _start_head(conditions, ground, features, spec.seed)
    embedder = Embedder(ground.new_trunk(), common if own is None else own).to(options.device)
    method.to(options.device)
    groups = _groups(embedder, method, conditions) if method.trains else []
    if not method.trains:
        embedder.requires_grad_(False)
    check_groups(nn.ModuleList([embedder, method]), groups)
    optimisers = build(groups, conditions, lr=method.lr)
    layout = method.layout or conditions.layout
    reference = sum(p.numel() for module in (embedder.trunk, common) for p in module.parameters() if p.requires_grad)
    measured = measure_setup(embedder, method, optimisers, layout, conditions, reference_parameters=reference)
    settle(method, conditions, measured, only=BEFORE)

    progress = Progress()
    if method.trains:
        if conditions.proxies == "class_means" and method.proxies is not None:
            method.start_proxies(_class_means(ground, embedder, tell))
        feed = Feed(
            ground.source(spec.seed, options.workers, tell),
            _planner(method, layout, ground, conditions, spec.seed),
            ground.train_labels,
            device=options.device,
            names=[str(ground.catalog.paths[i]) for i in ground.fold.train],
        )
        progress = train(
            embedder,
            method,
            feed,
            optimisers,
            conditions,
            seed=spec.seed,
            folder=folder,
            pace=options.pace,
            validate=_validation(ground, embedder, conditions, tell),
            board=_board(folder, options),
            tell=lambda done, total: tell("training", done, total),
        )
    embedder.eval()
    embeddings = method.refine(ground.embed(embedder, ground.fold.test, tell)) if len(ground.fold.test) else None
    measured.images, measured.steps = progress.images, progress.step
    measured.rows_through_trunk = progress.rows_through_trunk
    if progress.images != progress.step * layout.batch_size:  # what was seen counts, not what was said
        measured.layout = f"{progress.images / progress.step:g}"
    shown = embeddings if embeddings is not None else method.refine(ground.embed(embedder, ground.fold.train[:1], tell))
    measured.dim = shown.shape[1]
    deviations = settle(method, conditions, measured)
    _write_model(spec, ground, embedder, folder, embeddings)
    summary = {
        key: value for key, value in asdict(progress).items() if key not in ("checks_since_best", "checks_since_drop")
    }
    summary["best"] = progress.best if progress.history else None
    write_json(
        folder / "training.json",
        {
            "summary": summary,
            "measured": asdict(measured),
            "deviations": [{**asdict(d), "text": d.text} for d in deviations],
        },
    )


def _start_head(conditions: Conditions, ground: Ground, features: StartFeatures, seed: int) -> Head:
    """The common head, at random or from the training features. The PCA is the same for all seeds and done once."""
    head = Head(features.width, conditions.dim, layer_norm=conditions.layer_norm, dropout=conditions.dropout)
    if conditions.head_init == "random":
        start_random(head, stream(seed, "head"))
        return head
    key = f"head {conditions.head_init} {conditions.dim} {conditions.layer_norm} {ground.features_key}"

    def solve() -> dict[str, np.ndarray]:
        start_pca(head, torch.from_numpy(features.rows()), whiten=0.5 if conditions.head_init == "pca" else 1.0)
        return {name: tensor.detach().numpy() for name, tensor in head.state_dict().items()}

    solved = ground.cache.array(key, solve)
    head.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in solved.items()})
    return head


def _groups(embedder: Embedder, method: Method, conditions: Conditions) -> list[Group]:
    trunk = [parameter for parameter in embedder.trunk.parameters() if parameter.requires_grad]
    found = [Group("head", [p for p in embedder.head.parameters() if p.requires_grad]), *method.groups()]
    return [Group("trunk", trunk, lr=conditions.trunk_lr, warm=False), *found] if trunk else found


def _planner(method: Method, layout: Layout, ground: Ground, conditions: Conditions, seed: int) -> Any:
    return batching.create(
        method.batching or layout.batching,
        ground.train_labels,
        batch_size=layout.batch_size,
        seed=seed,
        batches_per_epoch=conditions.batches_per_epoch,
        **layout.settings,
    )


def _class_means(ground: Ground, embedder: Embedder, tell: Tell) -> torch.Tensor:
    """Mean unit embedding of each training class before the first step."""
    embedder.eval()
    rows = nn.functional.normalize(torch.from_numpy(ground.embed(embedder, ground.fold.train, tell)), dim=1)
    labels = torch.from_numpy(ground.train_labels)
    sums = torch.zeros(int(labels.max()) + 1, rows.shape[1]).index_add_(0, labels, rows)
    return sums / torch.bincount(labels).unsqueeze(1)


def _validation(ground: Ground, embedder: Embedder, conditions: Conditions, tell: Tell) -> Callable[[], float] | None:
    if conditions.select == "budget":
        return None

    def validate() -> float:
        embedder.eval()
        rows = ground.embed(embedder, ground.fold.validation, tell)
        labels = ground.catalog.labels[ground.fold.validation]
        return evaluate(rows, labels, metrics=(conditions.select,))[conditions.select]

    return validate


def _board(folder: Path, options: Options) -> Callable[[str, float, int], None] | None:
    if not options.tensorboard:
        return None
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtra('TensorBoard is not installed: pip install "levelfield[tensorboard]"') from error
    writer = SummaryWriter(str(folder / "tensorboard"))
    return lambda name, value, step: writer.add_scalar(name, value, step)


def _write_model(
    spec: RunSpec, ground: Ground, embedder: Embedder, folder: Path, embeddings: np.ndarray | None
) -> None:
    seen = ground.views[1]
    save_model(
        folder,
        embedder,
        {
            "image": seen.image,
            "crop": seen.crop,
            "mean": list(seen.mean),
            "std": list(seen.std),
            "interpolation": seen.interpolation,
            "method": spec.method.label,
            "data": ground.catalog.name,
        },
    )
    if embeddings is None:
        return
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(["path", "class"])
    for index in ground.fold.test:
        writer.writerow([ground.catalog.paths[index], ground.catalog.class_names[ground.catalog.labels[index]]])
    write_text(folder / "items.csv", table.getvalue())
    write_whole(folder / "embeddings.npy", lambda file: np.save(file, embeddings))


def _measure(ground: Ground, folder: Path, metrics: tuple[str, ...], tell: Tell) -> None:
    """Every metric from the stored embeddings: a new metric trains nothing."""
    trained = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    before = read_result(folder)
    metrics = tuple(dict.fromkeys([*(before.values if before else ()), *metrics]))  # what was measured stays
    values: dict[str, float] = {}
    signatures: dict[str, Any] = {}
    if len(ground.fold.test):
        tell("measuring", 0, 1)
        result = evaluate(np.load(folder / "embeddings.npy"), ground.catalog.labels[ground.fold.test], metrics=metrics)
        values = {name: float(result[name]) for name in result}
        signatures = {name: asdict(result.signature(name)) for name in result}
        arrays = {**result.per_query, "lone": result.lone, "labels": ground.catalog.labels[ground.fold.test]}
        write_whole(folder / "per_query.npz", lambda file: np.savez(file, **arrays))
    write_json(folder / FINISHED, {"values": values, "signatures": signatures, **trained})


def versions() -> dict[str, str]:
    """What the figures were made with."""
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in ("levelfield", "torch", "timm", "numpy")},
    }
