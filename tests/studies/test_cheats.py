"""User code that breaks the rules: refused or shown, and without effect on the other runs of the process.

CASES is also the table of docs/own-loss.md.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from small_world import carry_out, run_one, small_study, told

from levelfield.studies.runs.shared import SharedInputs, shared_inputs

CHEATS = Path(__file__).with_name("deep_cheats.py")
PAGE = Path(__file__).parents[2] / "docs" / "own-loss.md"


class Case(NamedTuple):
    """A cheat, what it tries, and the words of the error, or of its ledger, that show it."""

    name: str
    tries: str
    error: str = ""
    ledger: str = ""


CASES = [
    Case("CarriedOnDisk", "starts its head with weights from a file", ledger="start its own (random)"),
    Case("OwnedNetwork", "computes with a frozen network that it owns", ledger="frozen parameters 36,864"),
    Case("FrozenStatistics", "changes BatchNorm's statistics below the cut", "which is frozen under these conditions"),
    Case("AveragedWhenSaved", "saves other weights than it trained", "differs from the trained model"),
    Case("InjectedGradient", "leaves a gradient at the weights", "leaves a gradient on the weights"),
    Case("MoreThreads", "computes with more threads", "changed torch's threads for the whole process"),
    Case("NoGradients", "turns gradients off for all that follows", "disabled gradients for the whole process"),
    Case("EndsTheProcess", "calls sys.exit(0)", "its code ended the process: sys.exit(0)"),
]


def test_a_cheat_is_refused_or_shown_and_touches_no_other_run(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEVELFIELD_CACHE", str(tmp_path / "cache"))
    vars(shared_inputs()).update(vars(SharedInputs()))  # this process may have the features of these photos in memory
    cheats = shutil.copy(CHEATS, tmp_path)
    methods = [f"{cheats}:{case.name}" for case in CASES]
    runs, outcome = carry_out(small_study(photos, [*methods, "contrastive"], steps=4), tmp_path / "together")
    for number, case in enumerate(CASES):
        folder = runs[number].folder(tmp_path / "together")
        if case.error:
            assert case.error in outcome.failed[number]
            assert not (folder / "metrics.json").exists()
        else:
            assert case.ledger in [entry["text"] for entry in told(folder)["deviations"]]
    assert outcome.failed.keys() == {number for number, case in enumerate(CASES) if case.error}
    alone = run_one(small_study(photos, ["contrastive"], steps=4), tmp_path / "alone")
    model = runs[-1].folder(tmp_path / "together") / "model.safetensors"
    assert model.read_bytes() == (alone / "model.safetensors").read_bytes()


def test_the_page_lists_these_cheats() -> None:
    ends = [f'refused: "{case.error}"' if case.error else f"runs, and its row says `{case.ledger}`" for case in CASES]
    rows = [f"| {case.tries} | {end} |" for case, end in zip(CASES, ends, strict=True)]
    assert "\n".join(rows) in PAGE.read_text(encoding="utf-8")
