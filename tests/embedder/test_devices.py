"""Devices by name, on a machine that pretends to have GPUs."""

from __future__ import annotations

import logging

import pytest
import torch

from levelfield.embedder import devices
from levelfield.embedder.devices import VISIBLE, capacity, description, environment_of, key_of, usable
from levelfield.errors import BadSpecification


@pytest.fixture
def four_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "Pretended GPU")
    monkeypatch.setattr(torch.version, "cuda", "12.4")
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 90100)
    monkeypatch.delenv(VISIBLE, raising=False)
    monkeypatch.setattr(devices, "_first_here", devices._first_here.__wrapped__)


@pytest.mark.usefixtures("four_gpus")
def test_auto_is_cuda_and_says_so_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "levelfield"):
        assert usable("auto") == "cuda"
    assert [record.getMessage() for record in caplog.records] == [
        "Device: cuda (4 x Pretended GPU). Another one: --device cpu"
    ]


def test_auto_is_mps_without_cuda_and_the_cpu_without_both(monkeypatch, caplog):
    monkeypatch.setattr(devices, "_first_here", devices._first_here.__wrapped__)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for there, chosen in ((False, "cpu"), (True, "mps")):
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda there=there: there)
        assert usable("auto") == chosen
    lines = [record.getMessage() for record in caplog.records]
    assert lines == ["Device: cpu", "Device: mps. Another one: --device cpu"]


def test_cuda_without_a_gpu_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for version, reason in ((None, "this PyTorch is built without CUDA"), ("12.4", "no NVIDIA GPU is visible")):
        monkeypatch.setattr(torch.version, "cuda", version)
        with pytest.raises(BadSpecification, match=rf"'cuda' cannot be used here: {reason}\. Usable here: .*cpu\."):
            usable("cuda")


@pytest.mark.usefixtures("four_gpus")
def test_jobs_0_is_one_run_per_gpu_or_per_group_of_gpus() -> None:
    assert [capacity("cuda"), capacity("cuda", 2), capacity("cuda", 8)] == [4, 2, 1]
    assert capacity("cuda:1") == capacity("mps") == 1
    with pytest.raises(BadSpecification, match=r"no device 'cuda:4': this machine has cuda:0, cuda:1, cuda:2, cuda:3"):
        usable("cuda:4")


@pytest.mark.usefixtures("four_gpus")
def test_workers_get_gpus_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def of(processes: int, workers: int, device: str = "cuda") -> list[str | None]:
        return [environment_of(slot, device, processes).get(VISIBLE) for slot in range(workers)]

    assert of(1, 6) == ["0", "1", "2", "3", "0", "1"]
    assert of(2, 3) == ["0,1", "2,3", "0,1"]
    assert of(3, 2) == ["0,1,2", "0,1,2"]
    assert of(1, 2, "cuda:1") == of(1, 2, "cpu") == of(4, 2) == [None, None]
    monkeypatch.setenv(VISIBLE, "GPU-a,GPU-b,GPU-c,GPU-d")  # the user's own choice is divided
    assert of(2, 2) == ["GPU-a,GPU-b", "GPU-c,GPU-d"]


@pytest.mark.usefixtures("four_gpus")
def test_stored_features_of_a_gpu_are_known_by_gpu_cuda_cudnn_and_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    key = key_of("cuda:1")
    assert key == "cuda gpu=Pretended GPU cuda=12.4 cudnn=90100 precision=float32"
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: True)
    assert key_of("cuda") == f"{key} deterministic"
    assert description("cuda:1") == "cuda:1 (Pretended GPU)"


@pytest.mark.usefixtures("four_gpus")
def test_a_device_that_cannot_compute_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("The NVIDIA driver is too old.\nUpdate it.")

    monkeypatch.setattr(torch, "zeros", fail)
    message = r"'cuda:1' cannot be used here: The NVIDIA driver is too old\. Usable here: cuda, .*cpu\."
    with pytest.raises(BadSpecification, match=message):
        usable("cuda:1")
    with pytest.raises(BadSpecification, match="no device 'cpu:'"):
        usable("cpu:")
