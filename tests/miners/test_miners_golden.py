"""Witness 1: the tuples and laws of other people's miners."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from levelfield import miners
from levelfield.geometry import Geometry

GOLDEN = Path(__file__).parents[1] / "golden" / "objectives"
DESCRIPTIVE = {"normalize", "dtype"}


def cases() -> list[Any]:
    index = json.loads((GOLDEN / "index.json").read_text())
    return [
        pytest.param(case, np.load(GOLDEN / case["file"]), id=case["name"])
        for case in index["cases"]
        if case["kind"] == "miner"
    ]


def ours(case: dict[str, Any], arrays: Any) -> dict[str, torch.Tensor]:
    params = case["params"]
    dtype = getattr(torch, params.get("dtype", "float64"))
    labels = torch.from_numpy(arrays["labels"])
    geometry = Geometry(torch.from_numpy(arrays["embeddings"]).to(dtype), normalize=params.get("normalize", True))
    settings = {key: value for key, value in params.items() if key not in DESCRIPTIVE}
    miner = miners.create(case["what"], **settings)
    if any(name.startswith("prob_") for name in case["outputs"]):
        law = miner.probabilities(geometry, labels)
        return {**law, **{f"prob_{name}": value for name, value in law.items()}}
    tuples = miner(geometry, labels, generator=torch.Generator())
    if isinstance(tuples, tuple):
        return {"positive_pairs": tuples[0], "negative_pairs": tuples[1]}
    negative = torch.full((len(labels), len(labels)), -1)
    negative[tuples[:, 0], tuples[:, 1]] = tuples[:, 2]
    return {"triplets": tuples, "negative": negative}


@pytest.mark.parametrize(("case", "arrays"), cases())
def test_tuples_or_laws_are_the_golden_ones(case: dict[str, Any], arrays: Any) -> None:
    found = ours(case, arrays)
    for name in case["outputs"]:
        stored, got = arrays[name], found[name].numpy()
        assert got.shape == stored.shape, name
        if np.issubdtype(stored.dtype, np.integer):
            np.testing.assert_array_equal(got, stored, err_msg=name)
        else:
            np.testing.assert_allclose(got, stored, rtol=case["rtol"], atol=case["atol"], err_msg=name)
