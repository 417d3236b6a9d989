"""Objectives, miners and evaluation on a pretended GPU: the values of the CPU, within a budget of waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from pretended_gpu import OnDevice, waits, without_float64
from torch import Tensor, nn

from levelfield import evaluate, miners, objectives
from levelfield.errors import BadInput
from levelfield.geometry import WITHOUT_FLOAT64
from levelfield.labels import on_device
from levelfield.objectives import CrossBatchMemory

CLASSES, DIM = 6, 16
LABELS = torch.arange(24) % CLASSES
ROWS = torch.randn(24, DIM, generator=torch.Generator().manual_seed(0))

# Waits in one call. A miner or an objective that is not here has none: its labels keep their copy on the host.
WAITS_OF_MINERS = {
    "distance_weighted, empty=skip": 1,  # which anchors have a negative depends on distances
    "multi_similarity": 2,  # positive and negative pairs chosen by similarity
    "semihard, mode=all": 3,  # triplets chosen by distance, in one block per positive of an anchor
}
WAITS_OF_OBJECTIVES = {"structured_clustering": 1}  # its medoids are searched on the host
WAITS_FOR_PLAIN_LABELS = 1  # labels without a copy on the host are copied, once

MINERS: dict[str, Mapping[str, Any]] = {name: {} for name in miners.names()} | {
    "distance_weighted, empty=skip": {"empty": "skip"},
    "distance_weighted, per_anchor=positives": {"per_anchor": "positives"},
    "random, mode=triplets": {"mode": "triplets"},
    "random, switch=0.5": {"switch": 0.5},
    "semihard, mode=all": {"mode": "all"},
    "semihard, mode=closest": {"mode": "closest"},
}
FORMS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in objectives.names()),
    *((name, {"miner": miner}) for name in objectives.names() for miner in objectives.describe(name).miners),
    *((name, {"form": form}) for name in ("angular", "n_pair") for form in ("all", "pairs")),
    *(("hist", {"preset": f"lim2022/cub/{form}"}) for form in ("attention", "baseline", "positives")),
    *((name, {"num_classes": 5000}) for name in ("arcface", "proxy_anchor", "proxy_nca", "hist")),  # in chunks
    *((name, {"memory": 48}) for name in ("contrastive", "triplet", "margin")),
    ("message_passing", {"masked": True}),
    ("normalized_softmax", {"dropout": 0.5}),
    ("snr", {"form": "contrastive", "miner": "all"}),
    ("triplet", {"switch": 0.5, "miner": "random"}),
]


def created(name: str, settings: Mapping[str, Any]) -> nn.Module:
    how = {"num_classes": CLASSES, "dim": DIM, **settings}
    memory = how.pop("memory", None)
    objective = objectives.create(name, generator=torch.Generator().manual_seed(0), **how)
    return objective if memory is None else CrossBatchMemory(objective, dim=DIM, size=memory)


def steps(objective: nn.Module, device: str, labels: Tensor) -> tuple[list[Tensor], list[str]]:
    """Loss and gradients of the second of two calls, and its waits."""
    objective.to(device)
    for _ in range(2):
        rows = ROWS.clone().to(device).requires_grad_()
        objective.zero_grad()
        with waits() as waited:
            loss = objective(rows, labels, generator=torch.Generator().manual_seed(1))
            loss.backward()
    slopes = [parameter.grad for parameter in objective.parameters() if parameter.grad is not None]
    return [result.detach().cpu() for result in (loss, rows.grad, *slopes)], waited


def check_waits(waited: list[str], budget: int) -> None:
    assert len(waited) <= budget, f"{len(waited)} waits, and the budget is {budget}: {'; '.join(waited)}"


@pytest.mark.parametrize(("name", "settings"), FORMS, ids=str)
def test_an_objective_has_the_values_of_the_cpu_and_waits_within_its_budget(name: str, settings: dict) -> None:
    expected, _ = steps(created(name, settings), "cpu", LABELS)
    result, waited = steps(created(name, settings), "cuda", on_device(LABELS, "cuda"))
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-6)
    budget = WAITS_OF_OBJECTIVES.get(name, WAITS_OF_MINERS.get(str(settings.get("miner")), 0))
    check_waits(waited, budget)
    rows, labels, objective = ROWS.to("cuda"), LABELS.to("cuda"), created(name, settings).to("cuda")
    objective(rows, LABELS.to("cuda"))
    with waits() as waited:
        objective(rows, labels)
    check_waits(waited, budget + WAITS_FOR_PLAIN_LABELS)


@pytest.mark.parametrize("name", MINERS)
def test_a_miner_alone_chooses_the_tuples_of_the_cpu_and_waits_within_its_budget(name: str) -> None:
    miner = miners.create(name.split(",")[0], **MINERS[name])
    expected = miner(ROWS, LABELS, generator=torch.Generator().manual_seed(1))
    with waits() as waited:
        result = miner(ROWS.to("cuda"), on_device(LABELS, "cuda"), generator=torch.Generator().manual_seed(1))
    check_waits([wait for wait in waited if not wait.startswith("outside")], WAITS_OF_MINERS.get(name, 0))
    pairs = (
        zip([result], [expected], strict=True) if isinstance(expected, Tensor) else zip(result, expected, strict=True)
    )
    for mine, theirs in pairs:
        assert isinstance(mine, OnDevice)
        assert torch.equal(mine.cpu(), theirs)


@pytest.mark.parametrize(("name", "settings"), [form for form in FORMS if "num_classes" not in form[1]], ids=str)
def test_an_objective_needs_no_float64_on_the_device(name: str, settings: dict) -> None:
    WITHOUT_FLOAT64.add("cuda")
    try:
        with without_float64():
            steps(created(name, settings), "cuda", on_device(LABELS, "cuda"))
    finally:
        WITHOUT_FLOAT64.remove("cuda")


@pytest.mark.parametrize("name", [n for n in objectives.names() if "num_classes" in objectives.describe(n).needs])
@pytest.mark.parametrize("label", [-1, CLASSES])
def test_a_label_out_of_range_is_refused_on_a_device(name: str, label: int) -> None:
    labels = LABELS.clone()
    labels[3] = label
    for there in (on_device(labels, "cuda"), labels.to("cuda")):
        with pytest.raises(BadInput, match=f"6 classes but got the label {label}: labels must be 0 to 5"):
            created(name, {}).to("cuda")(ROWS.to("cuda"), there)


@pytest.mark.parametrize("called", [miners.create("random"), objectives.create("contrastive")])
def test_rows_and_labels_on_two_devices_are_refused_in_one_sentence(called: Any) -> None:
    with pytest.raises(BadInput, match=r"embeddings on cuda:0 but labels on cpu: move the labels"):
        called(ROWS.to("cuda"), LABELS)


@pytest.mark.parametrize("rows", ["cpu", "cuda"])
@pytest.mark.parametrize("labels", ["cpu", "cuda"])
@pytest.mark.parametrize("gallery", [None, "cpu", "cuda"])
def test_evaluate_takes_rows_and_labels_of_any_device(rows: str, labels: str, gallery: str | None) -> None:
    def scores(rows: str, labels: str, gallery: str | None) -> Any:
        how: dict[str, Any] = {"metrics": ["recall@1", "map@r", "nmi"]}
        if gallery is not None:
            how |= {"gallery": ROWS.flip(1).to(gallery), "gallery_labels": LABELS.to(labels)}
            how["query_ids"] = torch.full((24,), -1).to(rows)
        return evaluate(ROWS.to(rows), LABELS.to(labels), **how)

    expected = scores("cpu", "cpu", None if gallery is None else "cpu")
    assert dict(scores(rows, labels, gallery)) == pytest.approx(dict(expected), abs=1e-6)
