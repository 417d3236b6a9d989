"""Number formats of training: refusals, TF32, and the scaled gradients of fp16 (on the CPU, which can do both)."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from training_world import Run, Told, make, stored

from levelfield.embedder.trunk.trunk import Trunk
from levelfield.errors import BadSpecification, RunFailed
from levelfield.methods import Batch
from levelfield.training import Pace, checkpoint
from levelfield.training.checkpoint import CHECKPOINT
from levelfield.training.precision import Precision, check_precision


def test_a_format_that_the_device_does_not_have_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fp16", "tf32"):
        with pytest.raises(
            BadSpecification, match=rf"{name} needs an NVIDIA GPU .* on cpu\. Use precision: bf16 or float32"
        ):
            check_precision(name, "cpu")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "Old GPU")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (7, 5))
    with pytest.raises(BadSpecification, match=r"8\.0 or higher, but Old GPU has 7\.5\. Use precision: fp16"):
        check_precision("bf16", "cuda")
    check_precision("fp16", "cuda")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))
    check_precision("bf16", "cuda")
    check_precision("bf16", "cpu")


def test_gradients_are_clipped_as_if_they_had_not_been_scaled() -> None:
    weight = nn.Parameter(torch.ones(2))
    optimiser, precision = torch.optim.SGD([weight], lr=1.0), Precision("fp16")
    precision.scaled((weight * torch.tensor([3.0, 4.0])).sum()).backward()
    precision.unscale_([optimiser])
    assert weight.grad is not None
    assert weight.grad.tolist() == [3.0, 4.0]


def test_a_step_whose_gradients_overflow_changes_no_weight_and_halves_the_factor() -> None:
    weight, quiet = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))  # `quiet` has no gradient
    optimisers = [torch.optim.AdamW([one], lr=1.0, fused=True) for one in (weight, quiet)]
    precision = Precision("fp16")
    for factor, gradient in ((0.5, 1e38), (0.5, 1.0)):  # relative to the first factor
        weight.grad = None
        precision.scaled((weight * gradient).sum()).backward()
        precision.unscale_(optimisers)
        precision.step(optimisers)
        assert precision.state_dict()["scale"] == factor * Precision("fp16").state_dict()["scale"]
        assert torch.equal(weight, torch.ones(2)) == (gradient > 1)
    weight.grad = None
    precision.step(optimisers)  # a batch without pairs


def test_a_run_in_fp16_goes_on_with_the_factor_it_had(tmp_path: Path) -> None:
    def overflow_at_first(rows: Tensor, batch: Batch) -> Tensor:
        return rows.float().square().mean() * (1e36 if batch.step == 0 else 1.0)

    def stop(done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    def run() -> Run:
        return make(Told(overflow_at_first), precision="fp16", cut="last-1")

    often, whole, resumed = Pace(save_every_steps=1), run(), run()
    (tmp_path / "whole").mkdir()
    whole.train(tmp_path / "whole", pace=often)
    with pytest.raises(KeyboardInterrupt):
        run().train(tmp_path, pace=often, after_step=stop)
    resumed.train(tmp_path, pace=often)
    ends = [checkpoint.load(folder / CHECKPOINT) for folder in (tmp_path / "whole", tmp_path)]
    first = Precision("fp16").state_dict()["scale"]
    assert [end["precision"]["scale"] for end in ends if end is not None] == [first / 2, first / 2]
    now = resumed.weights()
    assert all(torch.equal(value, now[name]) for name, value in whole.weights().items())


@pytest.mark.parametrize("precision", ["float32", "tf32"])
def test_tf32_is_used_in_steps_only_and_only_if_the_conditions_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    def allowed() -> list[bool]:
        return [torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32]

    seen: dict[str, list[bool]] = {}

    def step(rows: Tensor, batch: object) -> Tensor:
        seen["step"] = allowed()
        return rows.square().mean()

    above = Trunk._above

    def watched(trunk: Trunk, *maps: Tensor, **how: object) -> Tensor:
        if not trunk.training:
            seen["evaluation"] = allowed()
        return above(trunk, *maps, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(Trunk, "_above", watched)
    before, run = allowed(), make(Told(step), precision=precision, select="map@r", validate_every=1, steps=1)
    run.train(tmp_path, validate=lambda: float(run.embedder.embed(stored("frozen")).mean()))
    assert seen == {"step": [precision == "tf32"] * 2, "evaluation": [False, False]}
    assert allowed() == before


def test_fp16_whose_gradients_overflow_in_every_step_ends_the_run() -> None:
    weight, precision = nn.Parameter(torch.ones(1)), Precision("fp16", "cpu")
    optimiser = torch.optim.SGD([weight], lr=0.1)
    precision.check()
    for _ in range(20):
        precision.scaled((weight * torch.nan).sum()).backward()
        precision.step([optimiser])
        optimiser.zero_grad()
    assert weight.item() == 1
    with pytest.raises(RunFailed, match=r"not finite in fp16, step after step .* Use precision: bf16 or float32"):
        precision.check()
