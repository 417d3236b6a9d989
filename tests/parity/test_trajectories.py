"""The papers' studies train as the papers' released programs do: whole steps, in float64.

`LEVELFIELD_GOLDEN=DIR pytest tests/parity` checks another set. Mistakes of a release are imitated here, so that all
else is compared; docs/papers.md has the list, with the size of each difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from golden_set import OWN, Case, Outputs, folder, read, verdict
from trajectories import repeat

from levelfield.training import checkpoint
from one_process import make_networks_once

CASES = [pytest.param(case, id=case.name) for case in read(folder()) if case.kind == "trajectory"]
# Mistakes of releases that levelfield does not repeat: how far they move an array, relative to its largest entry.
KEPT = {
    "drml-proxy-anchor-bninception-cub": {"embedding": 0.51, "loss": 0.02},  # clips in the first step only
    "revisiting-arcface": {"embedding": 0.08, "loss": 0.06},  # clamps cosines
    "message-passing-resnet50-cub": {"probe": 0.64, "embedding": 0.0},  # updates BatchNorm's statistics twice
}


def without_gradients_of_a_resting_trunk(case: Case, answer: Outputs) -> None:
    """DRML's release computes the trunk's gradients in the warm-up, too, and does not use them."""
    resting = case.params["trunk_warmup"]
    of_trunk = np.array([str(name).startswith("trunk.") for name in case.arrays["names"]])
    norms = np.array(answer["grad_norm"])
    assert np.isnan(norms[:resting, of_trunk]).all()
    norms[:resting, of_trunk] = case.arrays["grad_norm"][:resting, of_trunk]
    of_groups = np.array(answer["module_norms_before_clipping"])
    of_groups[:resting, 0] = case.arrays["module_norms_before_clipping"][:resting, 0]
    answer |= {"grad_norm": norms, "module_norms_before_clipping": of_groups}


@pytest.fixture(scope="module", autouse=True)
def only_the_arithmetic() -> Iterator[None]:
    """One thread, each network made once, and no checkpoint of 600 MB at the end of each training."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        make_networks_once(patch)
        patch.setattr(checkpoint, "save", lambda path, state: None)
        yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("case", CASES)
def test_a_study_trains_as_the_release(case: Case, tmp_path: Path) -> None:
    answer = repeat(case, tmp_path)
    if case.what == "drml":
        without_gradients_of_a_resting_trunk(case, answer)
    assert verdict(case, answer) == []


@pytest.mark.parametrize("name", KEPT)
def test_a_difference_that_is_kept_has_the_size_in_the_docs(name: str, tmp_path: Path) -> None:
    [case] = [case for case in read(OWN / "training") if case.name == name]
    ours = case.right if case.status == "bug" else repeat(case, tmp_path, imitate=False)
    for array, size in KEPT[name].items():
        stored = case.arrays[array]
        assert np.abs(ours[array] - stored).max() / np.abs(stored).max() == pytest.approx(size, abs=0.005)
