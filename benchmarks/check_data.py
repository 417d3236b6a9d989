"""Every paper's table that names CUB, on your own copy of it: `python benchmarks/check_data.py DIR`.

For each table, with the commands that a user would type: the plan (`--dry-run`) on the whole copy; then every method
for a few steps on a sample of its photographs, with the paper's views, killed after the first runs, continued, started
again (nothing may train twice), reported, with the published scores beside ours. One line per table; the exit code is 1
if one of them failed. The networks are timm's smallest unless --backbone says otherwise, and never pretrained.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness.cub_sample import draw_sample
from harness.shortened import network, shortened
from harness.typed_commands import Ended, in_new_process, killed_when

from levelfield import library
from levelfield.papers import published
from levelfield.studies.specification.study import Study
from levelfield.studies.specification.yaml_file import content_of, read_study
from levelfield.wording import duration

DATA = "cub"
ALLOWED = "data.allow_incomplete=true"
FINISHED = "*/*/metrics.json"  # of a run, below its study


class Wrong(Exception):
    """A check that failed, with the reason."""


@dataclass
class Check:
    """One table. `run` executes the words of a `levelfield` command; without `kill`, it is not killed in between."""

    name: str
    complete: Path
    sample: Path
    out: Path
    backbone: str | None = None
    allow_incomplete: bool = False
    run: Callable[[list[str]], Ended] = in_new_process
    kill: bool = True
    done: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.study: Study = read_study(self.name, on=DATA)
        self.network = network(self.study, self.backbone)
        self.short = read_study(self.name, [*self.network, *shortened(self.study)], on=DATA)
        self.folder = self.out / self.study.name

    @property
    def rows(self) -> int:
        return len(self.short.methods) * math.prod(map(len, self.short.vary.values()))

    @property
    def runs(self) -> int:
        """About how many: joined runs and members are not counted."""
        return self.rows * self.short.protocol.folds * len(self.short.seeds)

    def all(self) -> None:
        """All steps; the first that fails raises."""
        self._plan()
        self._train()
        self._train_again()
        self._report()

    def _plan(self) -> None:
        allowed = [ALLOWED] if self.allow_incomplete else []
        words = ["compare", self.name, "--on", DATA, "--root", str(self.complete), *self.network, *allowed, "--dry-run"]
        printed = self._well(words)
        if "Estimated time" not in printed or "the first step fails" in printed:
            raise Wrong(f"no estimate, or a method whose first step fails: {_command(words)}\n{printed}")
        self.done.append("planned")

    @property
    def _training(self) -> list[str]:
        short = [*self.network, *shortened(self.study), ALLOWED]
        return ["compare", self.name, "--on", DATA, "--root", str(self.sample), *short, "--out", str(self.out)]

    def _train(self) -> None:
        before: dict[Path, int] = {}
        if self.kill:
            killed_when(self._training, lambda: bool(self.finished()))
            before = self.finished()
        self._well(self._training)
        if any(self.finished().get(file) != when for file, when in before.items()):
            raise Wrong(f"what was finished when it was killed was run again: {_command(self._training)}")
        self.done += [f"killed after {len(before)}", "continued"] if self.kill else ["trained"]

    def _train_again(self) -> None:
        before = self.finished()
        self._well(self._training)
        if self.finished() != before:
            raise Wrong(f"the same command again trained again: {_command(self._training)}")
        self.done.append("nothing twice")

    def _report(self) -> None:
        self._well(["report", str(self.folder)])
        board = json.loads((self.folder / "leaderboard.json").read_text(encoding="utf-8"))
        own = [row for row in board["rows"] if not row["label"].endswith("(separated)")]
        beside = board["facts"].get("published", [])
        undrawn = [name for name in self.study.figures if not list(self.folder.glob(f"{name}*.png"))]
        if len(own) != self.rows or board["missing"]:
            raise Wrong(f"{len(own)} of {self.rows} rows are in {self.folder / 'leaderboard.json'}")
        if len(board["claims"]) != len(self.study.claims) or undrawn:
            raise Wrong(f"{self.folder} lacks verdicts on claims, or the figures {undrawn}")
        if not beside and any(line.dataset == DATA for line in _table(self.name)):
            raise Wrong(f"no published score beside ours in {self.folder / 'leaderboard.json'}")
        self.done.append(f"reported with {len(beside)} published scores")

    def _well(self, words: list[str]) -> str:
        ended = self.run(words)
        if ended.code:
            raise Wrong(f"exit code {ended.code}: {_command(words)}\n{ended.error}")
        return ended.out

    def finished(self) -> dict[Path, int]:
        return {file: file.stat().st_mtime_ns for file in self.folder.glob(FINISHED)}


def tables() -> list[str]:
    """The papers' tables and figures on this dataset."""
    papers = [name for name in library.names() if "/" in name]
    return [name for name in papers if DATA in (content_of(name)["data"], *content_of(name).get("also", {}))]


def line_of(check: Check) -> tuple[str, bool]:
    """What was done with a table, in one line (and what went wrong, in more), and whether all is well."""
    began = time.monotonic()
    try:
        check.all()
        end = "good"
    except Wrong as wrong:
        end = f"FAILED: {wrong}"
    size = f"{len(check.short.methods):2} methods, {len(check.finished()):2} runs"
    took = duration(time.monotonic() - began)
    return f"{check.name:26} {size}: {', '.join(check.done)} ({took}): {end}", end == "good"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path, help="Folder of CUB_200_2011, or the one that contains it.")
    parser.add_argument("--only", nargs="+", choices=tables(), help="Only these tables.")
    parser.add_argument("--backbone", help="A network of timm, or 'paper': the one that the paper used.")
    parser.add_argument("--allow-incomplete", action="store_true", help="The copy may lack photographs.")
    parser.add_argument("--out", type=Path, help="Keep the runs there; a later call continues them.")
    given = parser.parse_args()
    with _folder(given.out) as folder:
        sample = draw_sample(given.root, folder / "sample")
        checks = [
            Check(name, given.root.resolve(), sample, folder / "runs", given.backbone)
            for name in given.only or tables()
        ]
        failed, began, spent = 0, time.monotonic(), 0
        for number, check in enumerate(checks, 1):
            text, good = line_of(check)
            failed += not good
            spent += check.runs
            left = sum(other.runs for other in checks[number:]) * (time.monotonic() - began) / spent
            print(text, flush=True)
            if number < len(checks):
                print(f"  {number} of {len(checks)} tables, about {duration(left)} left", file=sys.stderr, flush=True)
    print(f"{len(checks) - failed} of {len(checks)} tables are good.")
    sys.exit(1 if failed else 0)


def _table(name: str) -> list[published.Line]:
    paper, _, table = name.partition("/")
    return list(published.table(paper, table).lines) if table.startswith("table") else []


def _command(words: list[str]) -> str:
    return shlex.join(["levelfield", *words])


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        yield kept.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="levelfield-check-") as made:
        yield Path(made)


if __name__ == "__main__":
    main()
