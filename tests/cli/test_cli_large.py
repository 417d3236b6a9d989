"""`levelfield evaluate` with --sample, --jobs and --ray, and with files that do not fit into --memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from cli_room import Levelfield

from levelfield import evaluation
from levelfield.evaluation import Shards, evaluate
from levelfield.evaluation.query_blocks import block_values
from levelfield.evaluation.search.ranking import InMemory

ARRAYS = ["--embeddings", "e.npy", "--labels", "y.npy"]
HERE = Shards(lambda job, blocks: (block_values(job, block) for block in blocks), workers=2)


@pytest.fixture
def arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    random, labels = np.random.default_rng(0), np.arange(600) % 60
    np.save("y.npy", labels)
    np.save("e.npy", (random.normal(size=(600, 16)) + random.normal(size=(60, 16))[labels]).astype(np.float16))
    return tmp_path


def test_a_sample_says_that_it_is_one(levelfield: Levelfield, arrays: Path) -> None:
    printed = " ".join(levelfield("evaluate", *ARRAYS, "--sample", "50", "--seed", "3").printed.split())
    assert "SAMPLE: a random 50 of 600 queries (seed 3), each searched in all 600 rows." in printed
    assert "95 % over classes 95 %, all queries" in printed
    content = json.loads(levelfield("evaluate", *ARRAYS, "--sample", "50", "--seed", "3", "--json").printed)
    right = evaluate(np.load("e.npy"), np.load("y.npy"), sample=50, seed=3, ci=0.95).sample
    assert content["sample"] == {"queries": 50, "of": 600, "seed": 3}
    result = content["metrics"]["map@r"]["interval"]
    assert result["all_queries"] == [right.intervals["map@r"].low, right.intervals["map@r"].high]
    assert "|sample:50of600-seed3|" in content["metrics"]["map@r"]["signature"]
    assert (
        "all queries" not in levelfield("evaluate", *ARRAYS, "--sample", "50", "--ci", "0").printed.split("SAMPLE")[0]
    )


def test_a_file_that_does_not_fit_is_read_in_parts_and_the_limit_is_printed(
    levelfield: Levelfield, arrays: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*ARRAYS, "--memory", "60MB"]
    whole = json.loads(levelfield("evaluate", *words, "--json").printed)
    monkeypatch.setattr(InMemory, "fits", lambda *_: False)
    parts = json.loads(levelfield("evaluate", *words, "--json").printed)
    assert parts.pop("divided")["memory"] == 60_000_000
    assert parts == whole
    printed = " ".join(levelfield("evaluate", *words).printed.split())
    assert "Memory limit 60 MB (beyond the program itself): at most" in printed


@pytest.mark.parametrize(
    ("words", "environment", "asked"),
    [
        (["--jobs", "2"], {}, 2),
        (["--ray"], {}, "local"),
        (["--ray"], {"RAY_ADDRESS": "head:6379"}, "head:6379"),
        (["--ray", "a:1"], {"RAY_ADDRESS": "head:6379"}, "a:1"),
    ],
)
def test_shared_queries_give_the_same_figures(
    levelfield: Levelfield,
    arrays: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    environment: dict[str, str],
    asked: object,
) -> None:
    heard: list[object] = []

    @contextmanager
    def on_ray(address: str) -> Iterator[Shards]:
        heard.append(address)
        yield HERE

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(evaluation, "on_ray", on_ray)
    monkeypatch.setattr(evaluation, "in_processes", lambda jobs: heard.append(jobs) or HERE)
    content = json.loads(levelfield("evaluate", *ARRAYS, *words, "--json").printed)
    assert content.pop("divided")["workers"] == 2
    assert content == json.loads(levelfield("evaluate", *ARRAYS, "--json").printed)
    assert heard == [asked]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--sample", "5", "--per-query", "q.csv"], "--sample and --per-query cannot be combined"),
        (["--sample", "5", "--metrics", "nmi"], "cannot be measured on a sample"),
        (["--sample", "5", "--average", "class"], "misses classes"),
        (["--jobs", "2", "--ray"], "--jobs and --ray cannot be combined"),
        (["--neighbours", "n.csv", "--memory", "20KB"], "--neighbours needs a copy of the embeddings"),
        (["--jobs", "2", "--memory", "1MB"], "the minimum is '"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    levelfield: Levelfield, arrays: Path, words: list[str], message: str
) -> None:
    ended = levelfield("evaluate", *ARRAYS, *words)
    assert message in " ".join(ended.error.split())


def test_a_truncated_file_is_refused(levelfield: Levelfield, arrays: Path) -> None:
    Path("e.npy").write_bytes(Path("e.npy").read_bytes()[:-100])
    assert "is not a valid .npy file, or it is truncated" in levelfield("evaluate", *ARRAYS, "--sample", "5").error
