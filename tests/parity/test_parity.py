"""Witness 1: numbers from third-party code. `LEVELFIELD_GOLDEN=DIR pytest tests/parity` checks another set.

DIR contains an index.json, or folders with one (see tests/golden). A case for an unimplemented part or variant is
skipped with the reason; the skipped cases of our own set are pinned in skipped.txt, which `python
tests/parity/test_parity.py` regenerates.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from adapters import Unexpressed, adapter, answers
from golden_set import OWN, Case, folder, read, verdict

PINNED = Path(__file__).with_name("skipped.txt")


def not_built(case: Case) -> str | None:
    return None if adapter(case) else f"there is no {case.kind} '{case.what}' yet"


def check(case: Case) -> str | None:
    """Fail if ours is not right; the reason why the case cannot be asked, if so."""
    if reason := not_built(case):
        return reason
    try:
        found = {way: verdict(case, answer) for way, answer in answers(case)}
    except Unexpressed as reason:
        if case.status != "variant":
            raise
        return str(reason)
    wrong = [f"{told} (by {way})" for way, list_ in found.items() for told in list_]
    assert not wrong, "\n".join([f"{case.name} ({case.source}, {case.status}), params {case.params}", *wrong])
    return None


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name) for case in read(folder()) if case.kind != "trajectory"]
)
def test_ours_gives_the_golden_numbers(case: Case) -> None:
    if reason := check(case):
        pytest.skip(reason)


def skipped() -> list[str]:
    """`name: reason` of every case of our own set that is skipped."""
    found = []
    for case in (case for case in read(OWN) if case.kind != "trajectory"):
        # to run every case again would double the time: only variants can be skipped for another reason
        if reason := check(case) if case.status == "variant" else not_built(case):
            found.append(f"{case.name}: {reason}")
    return found


@pytest.mark.skipif("LEVELFIELD_GOLDEN" in os.environ, reason="pins the cases that come with the tests")
def test_what_is_skipped_is_pinned() -> None:
    assert skipped() == PINNED.read_text().splitlines()


if __name__ == "__main__":
    PINNED.write_text("".join(f"{line}\n" for line in skipped()))
