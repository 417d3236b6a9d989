"""User code that breaks the rules: refused, exposed, or without effect.

CASES is also the table of docs/own-loss.md.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from small_world import carry_out, small_study

from levelfield.studies import resolve
from levelfield.studies.runs.shared import forget_inputs

CHEATS = Path(__file__).with_name("deep_cheats.py")
PAGE = Path(__file__).parents[2] / "docs" / "own-loss.md"


@dataclass(frozen=True)
class Case:
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
    Case("Pickled", "declares an object that acts when it is unpickled", "declares 'luck "),
    Case("NoGradients", "turns gradients off for all that follows", "disabled gradients for the whole process"),
    Case("EndsTheProcess", "calls sys.exit(0)", "its code ended the process: sys.exit(0)"),
]


@pytest.fixture
def cheats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the cheats, with a store of features of their own to spoil."""
    monkeypatch.setenv("LEVELFIELD_CACHE", str(tmp_path / "cache"))
    forget_inputs()  # this process may have the features of these photos in memory
    return Path(shutil.copy(CHEATS, tmp_path))


def figures(folder: Path) -> dict[str, float]:
    values: dict[str, float] = json.loads((folder / "metrics.json").read_text())["values"]
    return values


@pytest.mark.usefixtures("quick_processes")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_cheat_is_refused_or_exposed(photos: Path, cheats: Path, tmp_path: Path, case: Case) -> None:
    study = small_study(photos, [f"{cheats}:{case.name}"], steps=4)
    runs, outcome = carry_out(study, tmp_path / "out")
    folder = runs[0].folder(tmp_path / "out")
    if case.error:
        assert case.error in outcome.failed[0]
        assert not (folder / "metrics.json").exists()
    else:
        assert not outcome.failed
        told = json.loads((folder / "training.json").read_text())["deviations"]
        assert case.ledger in [entry["text"] for entry in told]
    assert not (tmp_path / f"exploded-{os.getpid()}").exists()  # where it is measured; its own process may do so


@pytest.mark.usefixtures("quick_processes")
def test_what_own_code_patches_or_turns_off_touches_no_other_row(photos: Path, cheats: Path, tmp_path: Path) -> None:
    honest = ["contrastive", "lda", f"{cheats}:Plain"]
    study = small_study(photos, [f"{cheats}:PatchedEvaluate", f"{cheats}:NoGradients", *honest])
    runs, outcome = carry_out(study, tmp_path / "together")
    assert outcome.failed.keys() == {1}
    alone = resolve(small_study(photos, honest)).runs
    _, outcome = carry_out(small_study(photos, honest), tmp_path / "alone")
    assert not outcome.failed
    together = {run.label: figures(run.folder(tmp_path / "together")) for run in runs if run.label != "NoGradients"}
    assert {run.label: figures(run.folder(tmp_path / "alone")) for run in alone}.items() <= together.items()
    assert together["PatchedEvaluate"] == together["Plain"]


def test_the_page_lists_these_cheats() -> None:
    ends = [f'refused: "{case.error}"' if case.error else f"runs, and its row says `{case.ledger}`" for case in CASES]
    rows = [f"| {case.tries} | {end} |" for case, end in zip(CASES, ends, strict=True)]
    assert "\n".join(rows) in PAGE.read_text(encoding="utf-8")
