"""`levelfield check`: the laws on a user's loss."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_room import Levelfield

LOSSES = """
import torch
from torch import nn

class Good(nn.Module):
    def forward(self, embeddings, labels):
        same = (labels[:, None] == labels[None, :]) & ~torch.eye(len(labels), dtype=torch.bool)
        products = embeddings @ embeddings.T
        return torch.where(same, 1 - products, products).tanh().sum() / 100

class Proxies(nn.Module):
    def __init__(self, num_classes, dim, scale=1.0):
        super().__init__()
        self.proxies, self.scale = nn.Parameter(torch.randn(num_classes, dim)), scale

    def forward(self, embeddings, labels):
        scores = (self.scale * embeddings @ self.proxies.to(embeddings.dtype).T).tanh()
        return nn.functional.cross_entropy(scores, labels, reduction="sum") / 100

class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("axis", torch.linspace(-1, 1, 5))

    def forward(self, embeddings, labels):
        return (embeddings @ self.axis.to(embeddings.dtype)).tanh().sum()

class Noisy(nn.Module):
    def forward(self, embeddings, labels):
        return (embeddings * torch.rand(1, dtype=embeddings.dtype)).sum()

class Broken(nn.Module):
    def __init__(self):
        raise RuntimeError("no such thing")
"""
BROKEN_LINE = 1 + LOSSES.splitlines().index('        raise RuntimeError("no such thing")')


@pytest.fixture
def losses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(LOSSES)
    return "mine.py"


@pytest.mark.parametrize("words", [["Good"], ["Proxies"], ["Proxies", "scale=0.5", "--num-classes", "9", "--dim", "3"]])
def test_a_good_loss_obeys_all_laws(levelfield: Levelfield, losses: str, words: list[str]) -> None:
    printed = levelfield("check", f"{losses}:{words[0]}", *words[1:]).printed
    assert "laws hold" in printed
    assert "BROKEN" not in printed


def test_ours_and_others_are_checked_by_name(levelfield: Levelfield) -> None:
    assert "gradient is the derivative" in levelfield("check", "triplet", "margin=0.4", "miner=all").printed
    pytest.importorskip("pytorch_metric_learning")
    ended = levelfield("check", "pml:CircleLoss")
    assert ended.code in (0, 1)
    assert "pml:CircleLoss" in ended.out


def test_a_broken_law_is_named_with_what_was_seen_and_the_code_is_1(levelfield: Levelfield, losses: str) -> None:
    ended = levelfield("check", f"{losses}:Noisy")
    assert ended.code == 1
    assert "torch's global generator was used" in " ".join(ended.out.split())
    assert "laws are broken" in ended.out
    assert not ended.err
    ended = levelfield("check", f"{losses}:Noisy", "--json")
    laws = {law["law"]: law for law in json.loads(ended.out)["laws"]}
    assert ended.code == 1
    assert not laws["no_global_random_number_is_drawn"]["holds"]
    law = "inputs_are_not_written_to"
    assert laws[law] == {"law": law, "holds": True, "seen": "", "where": ""}


def test_a_law_with_nothing_to_look_at_is_not_said_to_hold(levelfield: Levelfield, losses: str) -> None:
    printed = " ".join(levelfield("check", f"{losses}:Good").printed.split())
    assert "learning rates name own parameters does not apply it has no parameters" in printed
    assert "16 laws hold, 5 do not apply." in printed
    laws = {law["law"]: law for law in json.loads(levelfield("check", f"{losses}:Good", "--json").printed)["laws"]}
    assert laws["loss_is_linear_in_the_weights"]["holds"] is None
    assert laws["loss_is_linear_in_the_weights"]["seen"] == "it takes no weights"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tripelt"], "'triplet'"),
        (["mine.py:Godo"], "'Good'"),
        (["mine.py:Broken"], f"no such thing (mine.py, line {BROKEN_LINE}, in __init__)"),
        (["triplet", "margin"], "KEY=VALUE"),
        (["triplet", "margn=1"], "'margin'"),
    ],
)
def test_mistakes_are_told_in_one_message(levelfield: Levelfield, losses: str, words: list[str], message: str) -> None:
    assert message in levelfield("check", *words).error


def test_one_error_is_told_once_with_its_line_and_the_number_of_laws(levelfield: Levelfield, losses: str) -> None:
    ended = levelfield("check", f"{losses}:Wide")
    text = " ".join(ended.out.replace("│", " ").split())
    assert ended.code == 1
    assert text.count("RuntimeError") == 1
    line = 1 + LOSSES.splitlines().index("        return (embeddings @ self.axis.to(embeddings.dtype)).tanh().sum()")
    assert f"mine.py, line {line}, in forward" in text
    assert "and 15 other laws" in text
    assert "16 of 21 laws are broken by 1 error." in text
    assert levelfield("check", f"{losses}:Wide", "--dim", "5").printed
    laws = json.loads(levelfield("check", f"{losses}:Wide", "--json").out)["laws"]
    assert [law["where"] for law in laws if law["holds"] is False] == [f"mine.py, line {line}, in forward"] * 16


EXITS = """
import sys
from torch import nn

class InForward(nn.Module):
    def forward(self, embeddings, labels):
        sys.exit(0)

class WhenMade(nn.Module):
    def __init__(self):
        super().__init__()
        sys.exit(0)
"""


def test_a_loss_that_calls_exit_ends_no_command_with_0(levelfield: Levelfield, room: Path) -> None:
    (room / "exits.py").write_text(EXITS)
    (room / "at_once.py").write_text("import sys\nsys.exit(0)\n")
    assert levelfield("check", "exits.py:InForward").code == 1
    assert "called sys.exit(0)" in levelfield("check", "exits.py:WhenMade").error
    assert "at_once.py cannot be run: SystemExit: 0" in levelfield("check", "at_once.py:Any").error
    study = ["small.yaml", "seeds=1", "conditions.steps=1"]
    assert "called sys.exit(0)" in levelfield("compare", *study, "methods=[exits.py:WhenMade]").error
    ended = levelfield("compare", *study, "methods=[lda, exits.py:InForward]")
    assert ended.code == 1
    assert "its code ended the process: sys.exit(0)" in ended.err
    assert "lda" in ended.out
