"""What a run needs before its first step: method, embedder, optimisers, batches, and the first look at the ledger."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from levelfield.batching import Batching, Choice, Layout, check_fit
from levelfield.embedder import Embedder
from levelfield.embedder.head.head import Head, start_pca, start_random
from levelfield.methods import Group, Method
from levelfield.objectives._buffers import buffers_of
from levelfield.randomness import stream
from levelfield.studies.runs.inputs import Ground, StartFeatures, Tell
from levelfield.studies.runs.method_file import make_method
from levelfield.studies.runs.own_code import is_own
from levelfield.studies.runs.spec import RunSpec
from levelfield.training import Conditions
from levelfield.training.guard import Guard, check_process, process_settings
from levelfield.training.ledger import Measured, measure_setup, only, settle
from levelfield.training.optimisers import build, check_groups

WHITEN = {"pca": 0.5, "whitened": 1.0}  # power of the standard deviation that components are divided by
KNOWN_BEFORE = {"extra_parameters", "head_norm", "batch", "batching", "lr", "weight_decay", "optimiser"}


@dataclass(frozen=True)
class Setup:
    """A run, ready to start. `measured` is what the ledger has counted so far."""

    method: Method
    embedder: Embedder
    optimisers: list[Optimizer]
    layout: Layout
    drawn: Choice
    measured: Measured
    buffers: dict[str, Tensor]
    guard: Guard


def set_up(spec: RunSpec, ground: Ground, device: str, tell: Tell) -> Setup:
    """Build everything, and refuse a method that departs from the conditions without saying so."""
    conditions = spec.conditions
    settings = process_settings()
    method = make_method(spec, num_classes=num_classes(ground), width=ground.width)
    features = ground.start_features(tell)
    with only([]):  # a head may be computed from the training features, but trained only by the loop
        own = method.head(features, conditions.dim, spec.draws)
        own_start = own is not None and (not _start_own(own, spec, ground, features) or is_own(spec.method.name))
    common = _start_head(method, conditions, ground, features, spec.draws)
    embedder = Embedder(ground.new_trunk(), common if own is None else own, codes=conditions.codes).to(device)
    method.to(device)
    if not method.trains:
        embedder.requires_grad_(False)
    groups = _groups(embedder, method, conditions) if method.trains else []
    check_groups(nn.ModuleList([embedder, method]), groups)
    optimisers = build(groups, conditions, lr=method.lr)
    guard = Guard(embedder, optimisers)
    layout, drawn = conditions.batches(method)
    reference = sum(p.numel() for module in (embedder.trunk, common) for p in module.parameters() if p.requires_grad)
    method.common_head = sum(parameter.numel() for parameter in common.parameters())
    method.wider_head = wider_head(method, conditions.dim, ground.width)
    reference -= method.wider_head
    measured = measure_setup(embedder, method, optimisers, conditions, reference_parameters=reference)
    measured.own_start = own_start
    settle(method, conditions, measured, only=KNOWN_BEFORE)
    if method.trains and conditions.proxies == "class_means" and method.proxies is not None:
        method.start_proxies(_class_means(ground, embedder, own_labels(spec, method, ground), tell))
    check_process(settings)
    return Setup(method, embedder, optimisers, layout, drawn, measured, buffers_of(method), guard)


def own_labels(spec: RunSpec, method: Method, ground: Ground) -> np.ndarray:
    """What the loss is told of the training images: their classes, or what this member of the method makes of them."""
    return method.labels(ground.train_labels, spec.member or 0, spec.seed)


def num_classes(ground: Ground) -> int:
    return int(ground.train_labels.max()) + 1


def planner(setup: Setup, ground: Ground, conditions: Conditions, seed: int) -> Batching:
    """The batching of a run over its training images."""
    epoch = conditions.batches_per_epoch
    made = setup.drawn.make(ground.train_labels, setup.layout, seed=seed, batches_per_epoch=epoch)
    check_fit(made, setup.method.objective)
    return made


def wider_head(method: Method, dim: int, width: int) -> int:
    """Parameters that the common head has more than the conditions say, because the method asks for more numbers.

    What a narrower head saves pays for nothing else.
    """
    return max(0, method.dim_for(dim) - dim) * (width + 1) if method.trains else 0  # weights and bias of each number


def _start_head(method: Method, conditions: Conditions, ground: Ground, features: StartFeatures, seed: int) -> Head:
    """The common head, at random or from the training features. The PCA is the same for all seeds and done once."""
    dim = method.dim_for(conditions.dim)
    head = Head(
        features.width,
        dim,
        layer_norm=conditions.layer_norm,
        dropout=conditions.dropout,
        output_norm=method.norm_rows,
    )
    if conditions.head_init == "random":
        start_random(head, stream(seed, "head"))
        return head
    key = f"head {conditions.head_init} {dim} {conditions.layer_norm} {ground.features_key}"

    def solve() -> dict[str, np.ndarray]:
        start_pca(head, torch.from_numpy(features.rows()), whiten=WHITEN[conditions.head_init])
        return {name: tensor.detach().numpy() for name, tensor in head.state_dict().items()}

    solved = ground.cache.array(key, solve)
    head.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in solved.items()})
    return head


def _start_own(head: nn.Module, spec: RunSpec, ground: Ground, features: StartFeatures) -> bool:
    """Start a method's own head where the conditions say. False: it has a start of its own."""
    start = spec.conditions.head_init
    if start == "random":
        return True
    solve = getattr(head, "principal_start", None)
    if solve is None:
        return False
    state = head.state_dict()
    kind = f"{type(head).__module__}.{type(head).__qualname__} {spec.code_digest}"
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    key = f"own head {start} {kind} {shapes} {ground.features_key}"
    solved = ground.cache.array(key, lambda: solve(features.rows(), whiten=WHITEN[start]))
    head.load_state_dict({**state, **{name: torch.from_numpy(array.copy()) for name, array in solved.items()}})
    return True


def _groups(embedder: Embedder, method: Method, conditions: Conditions) -> list[Group]:
    trunk = [parameter for parameter in embedder.trunk.parameters() if parameter.requires_grad]
    found = [Group("head", [p for p in embedder.head.parameters() if p.requires_grad]), *method.groups()]
    return [Group("trunk", trunk, lr=conditions.trunk_lr, warm=False), *found] if trunk else found


def _class_means(ground: Ground, embedder: Embedder, given: np.ndarray, tell: Tell) -> torch.Tensor:
    """Mean unit embedding of each training class before the first step."""
    embedder.eval()
    start = ground.embed(embedder, ground.fold.train, tell, coded=False)
    rows = nn.functional.normalize(torch.from_numpy(start), dim=1)
    labels = torch.from_numpy(given)
    sums = torch.zeros(int(labels.max()) + 1, rows.shape[1]).index_add_(0, labels, rows)
    return sums / torch.bincount(labels).unsqueeze(1)
