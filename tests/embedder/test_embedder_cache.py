from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import levelfield.embedder.trunk.cache as cache_module
import levelfield.embedder.trunk.chunks as chunks_module
from levelfield.embedder import FeatureCache
from levelfield.errors import BadInput, LevelfieldError
from levelfield.files.writing import locked
from levelfield.progress import CallbackProgress
from levelfield.randomness import numpy_stream

COUNT = 300
DIGESTS = [f"{number:032x}" for number in range(COUNT)]


def truth(positions: list[int]) -> tuple[np.ndarray, ...]:
    """Two tensors per row, as a trunk with a tap below its cut has."""
    column = np.float32(positions)[:, None]
    return np.repeat(column, 50, axis=1).reshape(-1, 2, 25), column * 0.5


class Asked:
    """Computes, and notes what for."""

    def __init__(self, compute: Callable[[list[int]], tuple[np.ndarray, ...]] = truth) -> None:
        self.positions: list[int] = []
        self._compute = compute

    def __call__(self, positions: list[int]) -> tuple[np.ndarray, ...]:
        self.positions += positions
        return self._compute(positions)


def is_right(rows: cache_module.Rows) -> bool:
    return len(rows) == COUNT and all(
        np.array_equal(got.numpy(), want) for got, want in zip(rows.tensors(), truth(list(range(COUNT))), strict=True)
    )


def test_each_digest_is_computed_once_and_given_in_the_order_asked_for(tmp_path: Path) -> None:
    asked = Asked()
    assert is_right(FeatureCache(tmp_path).rows("key", DIGESTS, asked))
    assert sorted(asked.positions) == list(range(COUNT))
    again = FeatureCache(tmp_path).rows("key", DIGESTS[::-1], asked)
    assert len(asked.positions) == COUNT
    assert torch.equal(again[[0, 5]][1][:, 0], torch.tensor([(COUNT - 1) * 0.5, (COUNT - 6) * 0.5]))


def test_only_new_contents_of_a_key_are_computed(tmp_path: Path) -> None:
    store, asked = FeatureCache(tmp_path), Asked()
    rows = store.rows("equal", ["aa", "bb", "aa"], asked)
    assert sorted(asked.positions) == [0, 1]
    assert rows[[2]][1].item() == 0.0
    asked.positions.clear()
    store.rows("key", DIGESTS[:100], asked)
    assert is_right(store.rows("key", DIGESTS, asked))
    assert sorted(asked.positions) == list(range(COUNT))
    store.rows("other", DIGESTS[:10], asked)
    assert len(asked.positions) == COUNT + 10


def test_chunks_bound_what_is_asked_for_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "CHUNK", 4)
    sizes: list[int] = []
    told: list[tuple[int, int]] = []

    def compute(positions: list[int]) -> tuple[np.ndarray, ...]:
        sizes.append(len(positions))
        return truth(positions)

    stage = CallbackProgress(lambda _, done, total: told.append((done, total))).stage("rows", COUNT)
    rows = FeatureCache(tmp_path).rows("key", DIGESTS, compute, stage=stage)
    assert is_right(rows)
    assert max(sizes) == 4
    assert told[-1] == (COUNT, COUNT)
    assert told == sorted(told)


def test_rows_of_a_large_store_are_mapped_and_a_changed_byte_is_noticed_when_read(tmp_path: Path, monkeypatch) -> None:
    small = FeatureCache(tmp_path).rows("key", DIGESTS, truth)
    monkeypatch.setattr(cache_module, "IN_MEMORY", 100)
    mapped = FeatureCache(tmp_path).rows("key", DIGESTS, Asked())
    assert mapped._arrays is None
    assert all(torch.equal(*pair) for pair in zip(mapped[[7, 7, 250]], small[[7, 7, 250]], strict=True))
    victim = sorted(tmp_path.glob("rows/*/*.safetensors"))[0]
    content = bytearray(victim.read_bytes())
    content[-1] ^= 1
    victim.write_bytes(content)
    with pytest.raises(BadInput, match="was damaged and has been removed"):
        FeatureCache(tmp_path).rows("key", DIGESTS, Asked()).tensors()
    assert is_right(FeatureCache(tmp_path).rows("key", DIGESTS, asked := Asked()))
    assert 0 < len(asked.positions) < COUNT / 4


@pytest.mark.parametrize("damage", ["cut short", "one byte changed", "emptied", "other text"])
def test_a_damaged_file_is_noticed_and_its_rows_computed_again(damage, tmp_path, caplog):
    store = FeatureCache(tmp_path)
    store.rows("key", DIGESTS, truth)
    victim = sorted(tmp_path.glob("rows/*/*.safetensors"))[0]
    content = bytearray(victim.read_bytes())
    content[-1] ^= 1
    changed = {"cut short": content[:-9], "one byte changed": content, "emptied": b"", "other text": b"x" * 500}
    victim.write_bytes(changed[damage])
    asked = Asked()
    with caplog.at_level(logging.WARNING):
        assert is_right(store.rows("key", DIGESTS, asked))
    assert 0 < len(asked.positions) < COUNT / 4
    assert "damaged" in caplog.text
    assert is_right(store.rows("key", DIGESTS, asked := Asked()))
    assert asked.positions == []


def test_a_bucket_that_another_process_holds_is_left_for_last(tmp_path: Path) -> None:
    """The holder fills it meanwhile, so nothing of it is computed here."""
    store = FeatureCache(tmp_path)
    home = store._home("rows", "key", "")
    held = cache_module._bucket(DIGESTS[0])
    theirs = [i for i, digest in enumerate(DIGESTS) if cache_module._bucket(digest) == held]
    lock = locked(home / f"{held}.lock")
    lock.__enter__()

    def compute(positions: list[int]) -> tuple[np.ndarray, ...]:
        assert not set(positions) & set(theirs)
        if sorted(asked.positions) == sorted(set(range(COUNT)) - set(theirs)):  # all else is done: the holder ends
            cache_module.write_chunk(home / f"{held}-0.safetensors", [DIGESTS[i] for i in theirs], truth(theirs))
            lock.__exit__(None, None, None)
        return truth(positions)

    asked = Asked(compute)
    assert is_right(store.rows("key", DIGESTS, asked))


def forked(work: Callable[[], object]) -> int:
    """Run `work` in a child process; gives its id. It ends with 0 only if `work` does."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return child


def test_processes_share_the_work_and_a_killed_one_loses_at_most_a_chunk(tmp_path, monkeypatch):
    """Four writers at once, two of which are killed on the way: nearly nothing is computed twice."""
    monkeypatch.setattr(cache_module, "CHUNK", 3)
    log = os.open(tmp_path / "log", os.O_RDWR | os.O_APPEND | os.O_CREAT)

    def fill(deaths: int | None) -> None:
        def compute(positions: list[int]) -> tuple[np.ndarray, ...]:
            os.write(log, "".join(f"{position}\n" for position in positions).encode())
            return truth(positions)

        def note(text: str, done: int, total: int) -> None:
            if deaths is not None and done >= deaths:
                os.kill(os.getpid(), 9)

        FeatureCache(tmp_path).rows("key", DIGESTS, compute, stage=CallbackProgress(note).stage("rows", COUNT))

    draw = numpy_stream(0, "kill")
    victims = [forked(partial(fill, int(draw.integers(1, 40)))) for _ in range(2)]
    survivors = [forked(partial(fill, None)) for _ in range(2)]
    assert [os.WTERMSIG(os.waitpid(child, 0)[1]) for child in victims] == [9, 9]
    assert [os.waitpid(child, 0)[1] for child in survivors] == [0, 0]
    asked = Asked()
    assert is_right(FeatureCache(tmp_path).rows("key", DIGESTS, asked))
    assert asked.positions == []
    computed = (tmp_path / "log").read_text().split()
    assert len(set(computed)) == COUNT
    assert len(computed) <= COUNT + 2 * 3  # the victims' last chunks, at most
    os.close(log)


@pytest.mark.parametrize("strike", range(4))
def test_a_store_whose_writer_dies_in_the_middle_of_a_write_stays_right(strike, tmp_path, monkeypatch):
    """The child kills itself inside `write`, after a random number of bytes of a random chunk."""
    draw = numpy_stream(strike, "strike")
    chunk, share = int(draw.integers(0, 16)), float(draw.uniform())
    whole, written = chunks_module.write_whole, 0

    def dying(path: Path, write: Callable[..., object]) -> None:
        nonlocal written
        if path.suffix == ".safetensors":
            if written == chunk:
                half = path.with_name(f".{path.name}.{os.getpid()}.tmp")
                with half.open("wb") as file:
                    write(file)
                os.truncate(half, int(half.stat().st_size * share))
                os.kill(os.getpid(), 9)
            written += 1
        whole(path, write)

    with monkeypatch.context() as patch:
        patch.setattr(chunks_module, "write_whole", dying)
        child = forked(lambda: FeatureCache(tmp_path).rows("key", DIGESTS, truth))
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == 9
    asked = Asked()
    assert is_right(FeatureCache(tmp_path).rows("key", DIGESTS, asked))
    assert len(asked.positions) > 0
    assert not list(tmp_path.rglob(".?-*.tmp"))


def test_derived_arrays_are_computed_once(tmp_path: Path) -> None:
    calls = []

    def compute() -> dict[str, np.ndarray]:
        calls.append(1)
        return {"weight": np.float32([[1, 2]]), "bias": np.float32([3])}

    for _ in range(2):
        arrays = FeatureCache(tmp_path).array("pca", compute)
        assert arrays["weight"].tolist() == [[1, 2]]
        assert arrays["bias"].tolist() == [3]
    assert len(calls) == 1
    next(tmp_path.glob("arrays/*/arrays.safetensors")).write_bytes(b"damaged")
    assert FeatureCache(tmp_path).array("pca", compute)["bias"].tolist() == [3]
    assert len(calls) == 2


def test_entries_say_what_is_there_and_clear_frees_it(tmp_path: Path) -> None:
    store = FeatureCache(tmp_path)
    assert store.entries() == []
    store.rows("one", DIGESTS, truth, description="300 small things")
    store.array("two", lambda: {"a": np.zeros(3)})
    entries = {entry.key: entry for entry in store.entries()}
    assert entries["one"].description == "300 small things"
    assert entries["one"].bytes > COUNT * 51 * 4
    assert store.clear() == sum(entry.bytes for entry in entries.values())
    assert store.entries() == []


def test_a_wrong_number_of_rows_is_refused_and_not_stored(tmp_path: Path) -> None:
    store = FeatureCache(tmp_path)
    for wrong in ((), (np.zeros((0, 2), np.float32),)):
        with pytest.raises(LevelfieldError, match="must return 1 rows"):
            store.rows("key", ["aa"], lambda positions, wrong=wrong: wrong)  # type: ignore[misc]
    assert store.absent("key", ["aa"]) == {"aa"}
