"""The loader: batches that do not depend on workers, errors that name the file, and processes that end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from levelfield.data import decoders
from levelfield.data.loader import Loader
from levelfield.data.views.basic import TestView as view_for_test
from levelfield.data.views.named import steps_view, train_view
from levelfield.errors import RunFailed, UnreadableImage

HALF = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}
TEST, TRAIN = view_for_test(image=16, crop=0.8, **HALF), train_view("standard", image=16, **HALF)


def noise(width: int, height: int, seed: int = 0) -> Image.Image:
    small = np.random.default_rng(seed).integers(0, 256, (height // 8, width // 8, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((width, height))


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("photos")
    for number in range(40):
        noise(48, 40, number).save(folder / f"{number}.jpg")
    return [folder / f"{number}.jpg" for number in range(40)]


@pytest.fixture(autouse=True)
def any_number_of_images_has_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoders, "TINY", 0)


def loaded(pictures, *views, workers, keys=None):
    with decoders.decoding(workers):
        loader = Loader(pictures, *views)
        return list(loader if keys is None else loader.batches(keys))


def children() -> set[int]:
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_blocks_hold_every_image_in_order_under_each_view(paths, workers):
    larger = view_for_test(image=24, **HALF)
    blocks = loaded(paths, TEST, larger, workers=workers)
    assert [len(first) for first, _ in blocks] == [16, 16, 8]
    for number, view in enumerate((TEST, larger)):
        assert torch.equal(
            torch.cat([block[number] for block in blocks]), torch.stack([view(Image.open(p)) for p in paths])
        )


@pytest.mark.parametrize("workers", [1, 2])
def test_random_views_are_those_of_their_stream_whoever_draws(paths, workers):
    keys = [[(k, (7, "view", epoch, k)) for k in range(5)] for epoch in range(6)]
    alone, helped = (loaded(paths, TRAIN, workers=count, keys=keys) for count in (0, workers))
    assert all(torch.equal(one, other) for [one], [other] in zip(alone, helped, strict=True))
    assert not torch.equal(alone[0][0], alone[1][0])


def test_pictures_in_memory_are_loaded_like_files(paths):
    pictures = [paths[0], Image.open(paths[0]), np.asarray(Image.open(paths[0]))]
    [[batch]] = loaded(pictures, TEST, workers=1)
    assert torch.equal(batch[0], batch[1])
    assert torch.equal(batch[0], batch[2])
    [[none]] = loaded([], TEST, workers=0)
    assert none.shape == (0, 3, 16, 16)


@pytest.mark.parametrize("workers", [0, 2])
def test_an_unreadable_image_is_one_sentence_with_its_file(paths, tmp_path, workers):
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(paths[0].read_bytes()[:300])
    with pytest.raises(
        UnreadableImage, match=r"^Cannot read the image .*bad\.jpg: it is damaged or truncated \(.*\)\.$"
    ):
        loaded([*paths, bad], TEST, workers=workers)


def test_workers_are_kept_between_two_calls_and_end_with_the_loader(paths):
    before = children()
    with decoders.decoding(2):
        loader = Loader(paths, TEST)
        assert children() <= before  # none until they are needed; processes of other tests may end meanwhile
        for _ in range(2):
            endless = loader.batches([(k % 40, ())] for k in iter(int, 1))
            assert next(endless)[0].shape == (1, 3, 16, 16)
            started = children() - before
            assert len(started) == 2
            endless.close()
        assert children() - before == started
    del loader
    assert children() <= before


def test_a_worker_that_is_killed_is_one_clear_error(paths):
    before = children()
    with decoders.decoding(1):
        batches = Loader(paths, TEST).batches([(k % 40, ())] for k in iter(int, 1))
        next(batches)
        for worker in children() - before:
            os.kill(worker, signal.SIGKILL)
        with pytest.raises(RunFailed, match="--workers 0"):
            list(batches)


def test_workers_end_when_their_parent_is_killed(paths):
    code = f"""
import os, sys, time
from pathlib import Path
from levelfield.data import decoders
from levelfield.data.loader import Loader
from levelfield.data.views.basic import TestView
decoders.TINY = 0
view = TestView(image=16, mean=(0.5,) * 3, std=(0.5,) * 3)
with decoders.decoding(2):
    batches = Loader([Path({str(paths[0])!r})], view).batches([(0, ())] for _ in iter(int, 1))
    next(batches)
    print(Path(f"/proc/self/task/{{os.getpid()}}/children").read_text(), flush=True)
    time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        workers = [int(pid) for pid in parent.stdout.readline().split()]
        parent.kill()
    assert len(workers) >= 2
    until = time.monotonic() + 5
    while any(Path(f"/proc/{pid}").exists() and _runs(pid) for pid in workers) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(_runs(pid) for pid in workers)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_large_jpeg_is_decoded_at_reduced_size_and_looks_the_same(tmp_path):
    noise(640, 480).save(tmp_path / "large.jpg", quality=95)
    noise(640, 480).save(tmp_path / "same.png")
    view = view_for_test(image=64, crop=0.8, **HALF)
    assert view.decoded == 160
    [[batch]] = loaded([tmp_path / "large.jpg", tmp_path / "same.png"], view, workers=0)
    full = view(Image.open(tmp_path / "large.jpg").convert("RGB"))
    assert not torch.equal(batch[0], full)
    assert (batch[0] - full).abs().mean() * 127.5 < 2  # grey levels
    assert torch.equal(batch[1], view(Image.open(tmp_path / "same.png").convert("RGB")))


@pytest.mark.parametrize(
    ("steps", "decoded"),
    [
        ([{"resize": 40}, {"centre": 32}], 80),
        ([{"resize": [48, 32]}, {"crop": 32}], 96),
        (["flip", {"resized_crop": {"size": 32, "area": [0.25, 1], "ratio": [1, 1]}}], 128),
    ],
)
def test_a_view_of_steps_says_how_many_pixels_it_needs(steps, decoded):
    assert steps_view(steps, image=32, **HALF).decoded == decoded


def test_workers_are_the_cores_that_jobs_leave_and_none_for_a_few_images(monkeypatch):
    monkeypatch.setattr(decoders, "cores", lambda: 12)
    monkeypatch.setattr(decoders, "TINY", 100)
    assert [decoders.decoders_per_job(jobs) for jobs in (1, 2, 3, 12, 24)] == [11, 5, 3, 1, 1]
    assert (decoders.decoders(99), decoders.decoders(100)) == (0, 11)
    with decoders.decoding(4), decoders.decoding(None):
        assert decoders.decoders(100) == decoders.decoders_per_job(3) == 4


def test_closing_an_older_iteration_leaves_a_newer_one_whole(paths):
    with decoders.decoding(0):
        loader = Loader(paths, TEST)
        older, newer = iter(loader), iter(loader)
        next(older)
        first = next(newer)
        older.close()
        assert sum(len(images) for (images,) in [first, *newer]) == len(paths)


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_of_who_makes_the_keys_is_not_blamed_on_workers(paths, workers):
    def keys():
        yield [(0, ())]
        raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space left"):
        loaded(paths, TEST, workers=workers, keys=keys())


def test_a_process_that_may_not_start_others_decodes_itself(monkeypatch):
    monkeypatch.setattr(decoders.multiprocessing, "current_process", lambda: type("P", (), {"daemon": True}))
    with decoders.decoding(3):
        assert decoders.decoders(10_000) == 0
