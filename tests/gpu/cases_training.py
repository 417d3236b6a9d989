"""Training on a pretended GPU: every method of the five papers, and resuming to the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pretended_gpu import waits, without_float64
from safetensors.torch import load_file
from small_world import carry_out, make_photos, run_one, small_study
from torch import Tensor

from levelfield.geometry import WITHOUT_FLOAT64
from levelfield.methods import Batch, Method
from levelfield.studies.runs.run import Options
from levelfield.studies.specification.yaml_file import read_study
from levelfield.training import Pace
from levelfield.training.recorder import StepRecord

TABLES = ("zheng2021/table1", "fehervari2019/table2", "roth2020/table4", "lim2022/table4", "seidenschwarz2021/table1")

FIVE: list[dict[str, Any]] = [
    {"drml": {"objective": "proxy_anchor"}},
    {"triplet": {"preset": "fehervari2019"}},
    {"margin": {"preset": "roth2020/cub/rho"}},
    {"hist": {"preset": "lim2022/cub"}},
    {"message_passing": {"preset": "seidenschwarz2021/cub"}},
]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_photos(tmp_path_factory.mktemp("data") / "photos", classes=26, each=4)


def methods_of_papers() -> list[dict[str, Any]]:
    """The methods of the papers' main tables, each once: without batches and learning rates."""
    result: dict[str, dict[str, Any]] = {}
    for table in TABLES:
        for method in read_study(table, mini=True).model_dump(mode="json")["methods"]:
            settings = {k: v for k, v in method["settings"].items() if k != "batch" and "lr" not in k}
            label = f"{table.split('/')[0]} {method['label']}"
            result.setdefault(repr((method["name"], settings)), method | {"label": label, "settings": settings})
    return list(result.values())


def options(photos: Path, **pace: Any) -> Options:
    """On the device; the features of the photos are computed once for all tests."""
    return Options(device="cuda", cache_folder=photos.parent / "cache", pace=Pace(**pace))


def rarely(photos: Path) -> Options:
    """Only the first and the last step log."""
    return options(photos, log_every=100, save_every_seconds=1e9)


@contextmanager
def at_every_step(act: Callable[[], None]) -> Iterator[None]:
    """Call `act` whenever a step embeds its batch."""
    embed = Method.embed

    def embedding(self: Method, *args: Any, **kwargs: Any) -> Tensor:
        act()
        return embed(self, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Method, "embed", embedding)
        yield


@pytest.mark.parametrize("conditions", [{}, {"cut": "last-1", "precision": "fp16"}], ids=str)
def test_a_run_that_was_interrupted_resumes_to_the_same_bits(
    photos: Path, tmp_path: Path, conditions: dict[str, Any]
) -> None:
    study = small_study(photos, [{"margin": {"miner": "distance_weighted"}}], steps=6, **conditions)
    whole = run_one(study, tmp_path / "whole", options(photos))
    steps = count(1)

    def interrupt() -> None:
        if next(steps) == 5:
            raise RuntimeError("interrupted")

    with at_every_step(interrupt):
        _, outcome = carry_out(study, tmp_path / "resumed", options(photos, save_every_steps=3))
        assert outcome.failed
        resumed = run_one(study, tmp_path / "resumed", options(photos))
    assert next(steps) == 5 + 3 + 1, "it goes on after the third step"
    expected, result = (load_file(folder / "model.safetensors") for folder in (whole, resumed))
    assert expected.keys() == result.keys()
    assert all(torch.equal(expected[name], result[name]) for name in expected)


STEPS = 3  # the first and the last log
WAITS_OF_A_STEP = 1
"""In a step that neither logs nor saves."""


def check_steps(waited: list[str], begins: list[int]) -> None:
    """begins: how many waits there were when each step of each run embedded its batch."""
    for begin, end in zip(begins[1::STEPS], begins[2::STEPS], strict=True):
        step = waited[begin:end]
        assert len(step) <= WAITS_OF_A_STEP, f"{len(step)} waits in a step: {'; '.join(step)}"


def test_every_method_of_the_papers_trains_and_waits_at_most_once_in_a_step(photos: Path, tmp_path: Path) -> None:
    study = small_study(photos, methods_of_papers(), proxies="class_means", steps=STEPS, batch="3x4")
    begins: list[int] = []
    with waits() as waited, at_every_step(lambda: begins.append(len(waited))):
        runs, outcome = carry_out(study, tmp_path / "runs", rarely(photos))
    assert not outcome.failed, outcome.failed
    assert len(runs) >= 65
    assert len(begins) >= STEPS * 60
    check_steps(waited, begins)


@pytest.mark.parametrize(
    ("method", "conditions"),
    [
        *((method, {"cut": "tuned"}) for method in FIVE),
        ({"proxy_anchor": {}}, {"cut": "tuned", "batch_norm": "train", "accumulate": 2, "clip": 1.0}),
        ({"proxy_anchor": {}}, {"cut": "last-1", "optimiser": "radam"}),
        ({"proxy_anchor": {}}, {"cut": "last-1", "precision": "fp16"}),
        ({"proxy_anchor": {}}, {"cut": "last-1", "precision": "fp16", "optimiser": "radam"}),
        ({"proxy_anchor": {}}, {"cut": "tuned", "precision": "bf16"}),
    ],
    ids=str,
)
def test_a_normal_step_waits_for_the_device_at_most_once(
    photos: Path, tmp_path: Path, method: dict[str, Any], conditions: dict[str, Any]
) -> None:
    begins: list[int] = []
    with waits() as waited, at_every_step(lambda: begins.append(len(waited))):
        run_one(
            small_study(photos, [method], steps=STEPS, batch="3x4", **conditions), tmp_path / "runs", rarely(photos)
        )
    check_steps(waited, begins)


def test_stored_features_that_do_not_fit_on_the_device_arrive_without_a_wait(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda *_: (0, 1))
    begins: list[int] = []
    with waits() as waited, at_every_step(lambda: begins.append(len(waited))):
        run_one(small_study(photos, ["proxy_anchor"], steps=STEPS), tmp_path / "runs", rarely(photos))
    assert begins[1] == begins[2], waited[begins[1] : begins[2]]


def test_training_needs_no_float64_on_the_device(photos: Path, tmp_path: Path) -> None:
    study = small_study(photos, FIVE, steps=2, batch="3x4")
    WITHOUT_FLOAT64.add("cuda")
    try:
        with without_float64():  # with the features, which are computed once more
            _, outcome = carry_out(study, tmp_path / "runs", Options(device="cuda", cache_folder=tmp_path / "cache"))
    finally:
        WITHOUT_FLOAT64.remove("cuda")
    assert not outcome.failed, outcome.failed


def test_a_constant_loss_on_the_host_is_read_with_those_on_the_device() -> None:
    """A user's loss may return torch.tensor(0.0) where a batch has no pair."""
    labels = torch.zeros(2, dtype=torch.int64, device="cuda")
    step = StepRecord(Batch((), labels, np.arange(2), None, 0, 0))
    step.add(torch.tensor(0.0), {}, np.int64(0))
    assert (step.loss.device, step.active, step.idle) == (labels.device, 0, True)
