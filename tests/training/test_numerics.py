"""What a run sets and reports about its device."""

from __future__ import annotations

import os

import pytest
import torch
from training_world import conditions

from levelfield.errors import RunFailed
from levelfield.training.precision import numerics


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
