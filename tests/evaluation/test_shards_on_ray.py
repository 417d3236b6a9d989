"""Blocks of queries on Ray: the bits of this process, in order; addresses that do not answer."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import numpy as np
import pytest

from levelfield.distributed import ray_connection
from levelfield.errors import BadInput, MissingExtra
from levelfield.evaluation import evaluate
from levelfield.evaluation.shards import on_ray

ROWS = np.random.default_rng(0).normal(size=(400, 8)).astype(np.float16)
LABELS = np.arange(400) % 40


def test_a_local_ray_gives_the_same_bits(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    with on_ray() as here:
        found = evaluate(np.load(tmp_path / "rows.npy", mmap_mode="r"), LABELS, shards=here)
    right = evaluate(ROWS, LABELS)
    assert found.divided is not None
    assert found.divided.workers == here.workers
    assert dict(found) == dict(right)
    assert all(np.array_equal(found.per_query[name], right.per_query[name]) for name in right.per_query)


def test_an_address_that_does_not_answer_is_refused_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_connection, "PATIENCE", 0.5)
    with socket.socket() as free, socket.socket() as silent:
        for one in (free, silent):
            one.bind(("127.0.0.1", 0))
        silent.listen()
        for one in (free, silent):
            address = f"127.0.0.1:{one.getsockname()[1]}"
            with pytest.raises(BadInput, match=f"No Ray at {address}"), on_ray(address):
                pass
    with pytest.raises(BadInput, match="address of a Ray Client"), on_ray("ray://127.0.0.1:10001"):
        pass


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # importing it fails
    with pytest.raises(MissingExtra, match=r"levelfield\[ray\]"), on_ray():
        pass
