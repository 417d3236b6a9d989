"""Set up a run: method, embedder, optimisers, batches, and the first check of the ledger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from levelfield.batching import Batching, Layout, check_fit
from levelfield.distributed.ranks import ALONE, Ranks
from levelfield.embedder import Embedder, Head, start_pca, start_random
from levelfield.methods import Group, Method, Setting, TrainingFeatures
from levelfield.methods._contract import registry as METHODS
from levelfield.methods._contract import wider_head
from levelfield.objectives._contract import registry as OBJECTIVES
from levelfield.objectives._create import buffers_of
from levelfield.objectives._parts.start import StartRows
from levelfield.progress import Progress
from levelfield.randomness import stream
from levelfield.registry import is_file_reference, is_pml_reference
from levelfield.studies.runs.folder.method_file import make_method
from levelfield.studies.runs.inputs import RunInputs
from levelfield.studies.runs.spec import RunSpec
from levelfield.training import Conditions
from levelfield.training.audit import Audit, check_process, process_settings
from levelfield.training.ledger import Measured, declared, forbid_other_optimisers, measure_setup, own_starts, settle
from levelfield.training.optimisers import build, check_groups

MAX_START_IMAGES = 500  # from which a head starts that is dropped: the rest of the network learns the most
WHITEN = {"pca": 0.5, "whitened": 1.0}  # exponent of the standard deviation that divides the components


@dataclass(frozen=True)
class Setup:
    """A run, ready to start. `measured`: the counts of the ledger so far."""

    method: Method
    embedder: Embedder
    optimisers: list[Optimizer]
    layout: Layout
    measured: Measured
    buffers: dict[str, Tensor]
    audit: Audit


def set_up(spec: RunSpec, inputs: RunInputs, device: str, progress: Progress, ranks: Ranks = ALONE) -> Setup:
    """Build everything, and refuse a method with undeclared deviations from the conditions."""
    conditions = spec.conditions
    settings = process_settings()
    method = inputs.shared.methods.pop(spec.identity, None) if ranks.size == 1 else None
    if method is None:  # not made while the study was resolved
        method = make_method(spec, num_classes=inputs.num_classes, ranks=ranks)
    setting = setting_of(method, conditions, inputs.width, spec.training_seed)
    features = inputs.start_features(progress, most=MAX_START_IMAGES if conditions.head == "dropped" else None)
    with forbid_other_optimisers([]):  # a head may be computed from training features, but only the loop may train it
        custom = method.head(features, setting)
        own_start = custom is not None and (
            not _start_own(custom, spec, inputs, features) or _is_custom(spec.method.name)
        )
    common = _start_head(method, spec, inputs, features)
    embedder = Embedder(
        inputs.new_trunk(), common if custom is None else custom, codes=conditions.codes, precision=conditions.precision
    ).to(device)
    if conditions.compile:
        embedder.trunk.compile_steps()
    method.to(device)
    if not method.trains:
        embedder.requires_grad_(False)
    groups = _groups(embedder, method, conditions) if method.trains else []
    check_groups(nn.ModuleList([embedder, method]), groups)
    optimisers = build(groups, conditions, lr=method.lr)
    audit = Audit(embedder)
    reference = sum(p.numel() for module in (embedder.trunk, common) for p in module.parameters() if p.requires_grad)
    reference -= wider_head(method, Setting(conditions.dim, inputs.width))  # not taken from the method's code
    measured = measure_setup(embedder, method, optimisers, conditions, reference_parameters=reference)
    measured.own_start = own_start
    settle(declared(method, conditions, setting), conditions, measured, trains=method.trains, before=True)
    if method.trains and conditions.proxies == "class_means":
        before = {name: parameter.detach().clone() for name, parameter in method.named_parameters()}
        if method.can_start_from_rows:
            rows = inputs.embed(embedder.eval(), inputs.fold.train, progress, coded=False)
            labels = own_labels(spec, method, inputs)
            method.start_from(StartRows(torch.from_numpy(rows), torch.from_numpy(labels)))
        measured.own_starts = own_starts(before, method)
    check_process(settings)
    layout, _ = conditions.batches(method)
    return Setup(method, embedder, optimisers, layout, measured, buffers_of(method), audit)


def own_labels(spec: RunSpec, method: Method, inputs: RunInputs) -> np.ndarray:
    """The training labels for the loss: classes, or this member's own labels."""
    return method.labels(inputs.train_labels, spec.member or 0, spec.seed)


def planner(method: Method, labels: np.ndarray, conditions: Conditions, seed: int = 0) -> Batching:
    """The batching of a method over training images with these labels; refuses one that its loss cannot use."""
    layout, choice = conditions.batches(method)
    batching = choice.make(labels, layout, seed=seed, batches_per_epoch=conditions.batches_per_epoch)
    check_fit(batching, method.objective)
    return batching


def setting_of(method: Method, conditions: Conditions, width: int, seed: int) -> Setting:
    """The setting that a method receives under these conditions, for features of `width`."""
    common = common_head(method, conditions, width)
    return Setting(
        conditions.dim,
        width,
        seed,
        common_head=sum(parameter.numel() for parameter in common.parameters()),
        decay=conditions.decay,
        output_norm=conditions.output_norm,
    )


def common_head(method: Method, conditions: Conditions, width: int) -> Head:
    return Head(
        width,
        method.dim_for(conditions.dim),
        layer_norm=conditions.layer_norm,
        dropout=conditions.dropout,
        output_norm=conditions.output_norm or method.norm_rows,
    )


def _start_head(method: Method, spec: RunSpec, inputs: RunInputs, features: TrainingFeatures) -> Head:
    """The common head, random or from the training features. The PCA is computed once for all seeds."""
    conditions = spec.conditions
    head, start = common_head(method, conditions, features.width), conditions.head_init
    if start not in WHITEN:
        start_random(head, stream(spec.training_seed, "head"), form=start)
        return head

    def solve() -> dict[str, np.ndarray]:
        start_pca(head, torch.from_numpy(features.rows()), whiten=WHITEN[start])
        return {name: tensor.detach().numpy() for name, tensor in head.state_dict().items()}

    few = f" of {MAX_START_IMAGES}" if conditions.head == "dropped" else ""
    _load_solved(head, f"head {start} {head.dim} {conditions.layer_norm}{few}", solve, inputs)
    return head


def _start_own(head: nn.Module, spec: RunSpec, inputs: RunInputs, features: TrainingFeatures) -> bool:
    """Initialise a method's own head as the conditions say. False: it keeps its own initialisation."""
    start = spec.conditions.head_init
    if start not in WHITEN:
        return True
    solve = getattr(head, "principal_start", None)
    if solve is None:
        return False
    kind = f"{type(head).__module__}.{type(head).__qualname__} {spec.code_digest}"
    shapes = {name: tuple(tensor.shape) for name, tensor in head.state_dict().items()}
    _load_solved(
        head, f"own head {start} {kind} {shapes}", lambda: solve(features.rows(), whiten=WHITEN[start]), inputs
    )
    return True


def _load_solved(head: nn.Module, key: str, solve: Callable[[], dict[str, np.ndarray]], inputs: RunInputs) -> None:
    """Load what `solve` computes from the training features, stored for all runs with the same features."""
    solved = inputs.cache.array(f"{key} {inputs.features_key}", solve)
    head.load_state_dict({**head.state_dict(), **{k: torch.from_numpy(array.copy()) for k, array in solved.items()}})


def _is_custom(method: str) -> bool:
    """Whether a method is code outside levelfield: `file.py:Name`, `pml:Name` or a plugin's.

    >>> [_is_custom(name) for name in ("my_losses.py:MyLoss", "pml:CircleLoss", "margin", "lda")]
    [True, True, False, False]
    """
    registry = OBJECTIVES if method in OBJECTIVES else METHODS
    return is_file_reference(method) or is_pml_reference(method) or registry.is_plugin(method)


def _groups(embedder: Embedder, method: Method, conditions: Conditions) -> list[Group]:
    trunk = [parameter for parameter in embedder.trunk.parameters() if parameter.requires_grad]
    head = Group("head", [p for p in embedder.head.parameters() if p.requires_grad], kind="network")
    groups = [head, *method.groups()]
    return [Group("trunk", trunk, lr=conditions.trunk_lr, warm=False, kind="network"), *groups] if trunk else groups
