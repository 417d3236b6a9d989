"""Witness 1: numbers from other people's code. A new objective needs no line here unless its inputs are named oddly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from levelfield import objectives

GOLDEN = Path(__file__).parents[1] / "golden"
TUPLES = {"triplets"}  # inputs that are explicit tuples
DESCRIPTIVE = {"include_true", "dtype"}  # params with one possible value, or about the case itself


def cases() -> list[Any]:
    found = []
    for area in ("objectives", "proxies"):
        for case in json.loads((GOLDEN / area / "index.json").read_text())["cases"]:
            if case["kind"] == "loss":
                found.append(pytest.param(case, np.load(GOLDEN / area / case["file"]), id=case["name"]))
    return found


def ours(case: dict[str, Any], arrays: Any) -> dict[str, np.ndarray]:
    """Value and gradients of our objective called with exactly the case's inputs and params."""
    dtype = getattr(torch, case["params"].get("dtype", "float64"))
    inputs = {name: torch.from_numpy(arrays[name]) for name in case["inputs"]}
    inputs = {name: value.to(dtype) if value.is_floating_point() else value for name, value in inputs.items()}
    embeddings, labels = inputs.pop("embeddings").requires_grad_(), inputs.pop("labels")
    tuples = next((inputs.pop(name) for name in TUPLES & set(inputs)), None)
    settings = {key: value for key, value in case["params"].items() if key not in DESCRIPTIVE}
    takes = objectives.describe(case["what"]).defaults
    if "miner" in takes:
        settings["miner"] = "all"
    if case["what"] == "margin":
        settings["beta_per_class"] = len(inputs["beta"]) > 1
    num_classes = max((len(value) for value in inputs.values()), default=None)  # what is left has one row a class
    objective = objectives.create(case["what"], dim=embeddings.shape[1], num_classes=num_classes, **settings).to(dtype)
    with torch.no_grad():
        for name, value in inputs.items():
            objective.get_parameter(name).copy_(value)
    value = objective(embeddings, labels, tuples=tuples)
    value.backward()
    found = {"value": value, "grad_embeddings": embeddings.grad}
    found |= {f"grad_{name}": objective.get_parameter(name).grad for name in inputs}
    return {name: tensor.detach().numpy() for name, tensor in found.items() if tensor is not None}


@pytest.mark.parametrize(("case", "arrays"), cases())
def test_value_and_gradients_are_the_golden_ones(case: dict[str, Any], arrays: Any) -> None:
    found = ours(case, arrays)
    suffix = "_right" if case["status"] == "bug" else ""
    expected = [name for name in case["outputs"] if not name.endswith("_right")]
    for name in expected:
        stored = arrays[name + suffix]
        assert found[name].shape == stored.shape
        np.testing.assert_allclose(found[name], stored, rtol=case["rtol"], atol=case["atol"], err_msg=name)
        assert np.isfinite(found[name]).all()
    if suffix:
        tolerances = {"rtol": case["rtol"], "atol": case["atol"]}
        assert any(not np.allclose(found[name], arrays[name], **tolerances) for name in expected)
