"""Gradients of pytorch-metric-learning's DistributedLossWrapper against those of one process, for scale.md.

`python tools/pml_processes.py` prints the table; tests/docs/test_pages_from_logs.py compares it with the page.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from levelfield.table import Table

CLASSES, DIM, EACH = 4, 8, 3
LOSSES = {"ProxyAnchorLoss": {"num_classes": CLASSES, "embedding_size": DIM}, "MultiSimilarityLoss": {}}

CASES = (("ProxyAnchorLoss", "default"), ("MultiSimilarityLoss", "default"), ("MultiSimilarityLoss", "efficient"))
# proxies do not support the efficient mode


def data() -> tuple[Tensor, Tensor]:
    labels = torch.arange(CLASSES * EACH) % CLASSES
    return torch.randn(len(labels), DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(0)), labels


def gradients(rank: int, size: int, name: str, wrapper: str) -> dict[str, Tensor]:
    """Gradients of the network (averaged by DistributedDataParallel, as its documentation asks) and of the proxies."""
    from pytorch_metric_learning import losses
    from pytorch_metric_learning.utils.distributed import DistributedLossWrapper

    torch.manual_seed(0)
    loss: Any = getattr(losses, name)(**LOSSES[name]).double()
    network = nn.Linear(DIM, DIM).double()
    images, labels = (part.chunk(size)[rank] for part in data())
    if size > 1:
        wrapped = DistributedLossWrapper(loss, efficient=wrapper == "efficient")
        averaged = DistributedDataParallel(network)
        wrapped(averaged(images), labels).backward()
    else:
        loss(network(images), labels).backward()
    found = {"network": network.weight.grad}
    return found | dict(zip(["proxies"], (parameter.grad for parameter in loss.parameters()), strict=False))


def measured(size: int) -> dict[tuple[str, str], dict[str, tuple[float, float]]]:
    """For each case and kind of parameter: length of the gradient against that of one process, and angle in degrees."""
    expected = {case: gradients(0, 1, *case) for case in CASES}
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        pipes = [fork.Pipe(duplex=False) for _ in range(size)]
        started = [
            fork.Process(target=_live, args=(rank, size, Path(folder) / "store", pipe))
            for rank, (_, pipe) in enumerate(pipes)
        ]
        for process in started:
            process.start()
        found, *_ = [ours.recv() for ours, _ in pipes]
        for process in started:
            process.join()
    return {
        case: {kind: _compared(found[case][kind], value) for kind, value in expected[case].items()} for case in CASES
    }


def table() -> str:
    rows = []
    told = {size: measured(size) for size in (2, 3)}
    for case in CASES:
        for size, known in told.items():
            shown = {kind: f"x {length:.2f}, {angle:.0f}°" for kind, (length, angle) in known[case].items()}
            rows.append([f"`{case[0]}`", case[1], size, *(shown.get(kind, "none") for kind in _KINDS)])
    columns = ["loss", "mode", "processes", "gradient of the network", "gradient of the proxies"]
    return Table(columns, rows).markdown()


_KINDS = ("network", "proxies")


def _compared(found: list[list[float]], expected: Tensor) -> tuple[float, float]:
    one, other = torch.tensor(found, dtype=torch.float64).flatten(), expected.flatten()
    sine, cosine = (
        (one / one.norm() - other / other.norm()).norm() / 2,
        (one / one.norm() + other / other.norm()).norm() / 2,
    )
    return float(one.norm() / other.norm()), float(torch.rad2deg(2 * torch.atan2(sine, cosine)))  # exact near 0


def _live(rank: int, size: int, store: Path, pipe: Connection) -> None:
    torch.set_num_threads(1)
    shared = distributed.FileStore(str(store), size)
    distributed.init_process_group("gloo", store=shared, rank=rank, world_size=size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {case: gradients(rank, size, *case) for case in CASES}
    pipe.send({case: {kind: value.tolist() for kind, value in kinds.items()} for case, kinds in found.items()})
    distributed.barrier()


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(table())
