"""The harness itself: it must detect every error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from adapters import Unexpressed, UnknownKey
from golden_set import Case, read
from test_parity import check

PARAMS = {"margin": 0.2, "squared": False, "smooth": False, "swap": False, "normalize": True, "reduction": "mean"}
TWO = {"embeddings": np.eye(3), "labels": np.array([0, 0, 1])}
RIGHT = {"value": np.array(0.2), "grad_embeddings": np.zeros((3, 3))}
S = np.sqrt(0.5)
# d(0, 1) = d(0, 2) = d(1, 2) = sqrt 2: both triplets cost the margin; the pull on each pair is +-1/2 of a unit vector
RIGHT["grad_embeddings"] = np.array([[0, -S, S / 2], [-S, 0, S / 2], [S / 2, S / 2, 0]])


def case(place: Path, arrays: dict[str, Any], *, status: str = "normative", **entry: Any) -> Case:
    np.savez(place / "c.npz", **arrays)
    told = {"name": "c", "kind": "loss", "what": "triplet", "source": "loop", "status": status, "params": PARAMS}
    told |= {"file": "c.npz", "inputs": [*TWO], "outputs": [*RIGHT], "rtol": 1e-9, "atol": 1e-12} | entry
    (place / "index.json").write_text(json.dumps({"format": 1, "cases": [told]}))
    return read(place)[0]


def test_right_numbers_pass(tmp_path: Path) -> None:
    assert check(case(tmp_path, TWO | RIGHT)) is None


@pytest.mark.parametrize("name", RIGHT)
def test_a_wrong_number_or_shape_fails(tmp_path: Path, name: str) -> None:
    for wrong in (RIGHT[name] + 1e-6, RIGHT[name][None], np.full_like(RIGHT[name], np.nan)):
        with pytest.raises(AssertionError, match=name):
            check(case(tmp_path, TWO | RIGHT | {name: wrong}))


@pytest.mark.parametrize("status", ["normative", "variant"])
def test_unknown_keys_inputs_and_outputs_fail(tmp_path: Path, status: str) -> None:
    with pytest.raises(UnknownKey, match="colour"):
        check(case(tmp_path, TWO | RIGHT, status=status, params=PARAMS | {"colour": "red"}))
    with pytest.raises(UnknownKey, match="extra"):
        check(case(tmp_path, TWO | RIGHT | {"extra": np.eye(2)}, status=status, inputs=[*TWO, "extra"]))
    with pytest.raises(AssertionError, match="no such output"):
        check(case(tmp_path, TWO | RIGHT | {"extra": np.eye(2)}, status=status, outputs=["extra"]))


def test_the_right_arrays_of_a_bug_are_matched_and_the_wrong_ones_are_not(tmp_path: Path) -> None:
    right = {f"{name}_right": value for name, value in RIGHT.items()}
    wrong = {"value": np.array(np.nan), "grad_embeddings": RIGHT["grad_embeddings"]}
    assert check(case(tmp_path, TWO | right | wrong, status="bug")) is None
    with pytest.raises(AssertionError, match="numbers of the source"):
        check(case(tmp_path, TWO | right | RIGHT, status="bug"))
    with pytest.raises(AssertionError, match="value"):
        check(case(tmp_path, TWO | RIGHT | {"value_right": np.array(0.3)}, status="bug"))


def test_only_a_variant_may_be_out_of_reach(tmp_path: Path) -> None:
    arrays = TWO | RIGHT | {"proxies": np.eye(3)}
    params = {"temperature": 0.05, "label_smoothing": 0.0, "include_true": False}
    entry: dict[str, Any] = {"what": "normalized_softmax", "params": params, "inputs": [*TWO, "proxies"]}
    assert "include_true" in str(check(case(tmp_path, arrays, status="variant", **entry)))
    with pytest.raises(Unexpressed, match="include_true"):
        check(case(tmp_path, arrays, **entry))
