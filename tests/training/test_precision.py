"""Number formats and device of a run: refusals, TF32, scaled gradients of fp16, memory, deterministic kernels."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from training_world import Told, conditions, make, stored

from levelfield.embedder.trunk.trunk import Trunk
from levelfield.errors import BadSpecification, RunFailed
from levelfield.training.precision import Precision, check_precision, numerics


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
    assert weight.grad.tolist() == [3.0, 4.0]


def test_a_step_whose_gradients_overflow_changes_no_weight_and_halves_the_factor() -> None:
    weight, quiet = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))  # `quiet` has no gradient
    optimisers = [torch.optim.AdamW([parameter], lr=1.0, fused=True) for parameter in (weight, quiet)]
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


@pytest.mark.parametrize(("pieces", "more"), [(1, 2), (2, 6), (3, 6)])  # 4 does not divide a batch of 6
def test_too_little_memory_names_batch_image_size_and_accumulate(pieces: int, more: int) -> None:
    expected = (
        r"memory of cuda is not enough for a batch of 6 images \(3x2\) of 32 pixels, "
        rf".*conditions\.accumulate={more}\), a smaller conditions\.batch, a smaller conditions\.image"
    )
    with pytest.raises(RunFailed, match=expected), numerics(conditions(accumulate=pieces), "cuda"):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")


@pytest.mark.parametrize(
    ("device", "text"),
    [("mps", "MPS backend out of memory (MPS allocated: 8 GB)"), ("cpu", "DefaultCPUAllocator: can't allocate memory")],
)
def test_too_little_memory_has_one_message_on_every_device(device: str, text: str) -> None:
    with pytest.raises(RunFailed, match=f"memory of {device} is not enough"), numerics(conditions(), device):
        raise RuntimeError(text)


def test_a_kernel_that_is_not_deterministic_is_named() -> None:
    text = "cumsum_cuda_kernel does not have a deterministic implementation, but you set ..."
    with (
        pytest.raises(RunFailed, match=r"deterministic: true cannot be kept: cumsum_cuda_kernel has no"),
        numerics(conditions(deterministic=True), "cuda"),
    ):
        raise RuntimeError(text)
    with pytest.raises(RuntimeError, match="another error"), numerics(conditions(), "cuda"):
        raise RuntimeError("another error")


def test_kernels_are_deterministic_on_cuda_if_the_conditions_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")

    def settings() -> tuple[bool, bool]:
        return torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.deterministic

    for deterministic, device, expected in ((True, "cuda:1", True), (False, "cuda", False), (True, "cpu", False)):
        with numerics(conditions(deterministic=deterministic), device):
            assert settings() == (expected, expected)
    assert settings() == (False, False)
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
