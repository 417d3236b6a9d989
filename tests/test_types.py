"""Type checking of a user's script: correct lines pass, each wrong line is reported."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = """\
from typing import assert_type

import numpy as np
import torch
from numpy.typing import NDArray

import levelfield
from levelfield import batching, data, miners, objectives
from levelfield.batching import SamplesPerClass
from levelfield.embedder import Ensemble, Model
from levelfield.evaluation import Evaluation
from levelfield.geometry import Geometry
from levelfield.miners import Semihard
from levelfield.objectives import Margin, Objective, ProxyAnchor
from levelfield.reports import Report
from levelfield.shipping import OnnxModel
from levelfield.studies import Leaderboard

rows = torch.randn(8, 4)
labels = torch.arange(8) // 2

assert_type(Margin(beta=0.6, miner=Semihard(margin=0.1))(rows, labels), torch.Tensor)
assert_type(objectives.Margin(beta_per_class=True, num_classes=4).beta, torch.Tensor)
assert_type(objectives.create("margin", beta=0.6), Objective)
assert_type(objectives.create("margin")(rows, labels, weights=torch.ones(8)), torch.Tensor)
assert_type(ProxyAnchor(num_classes=4, dim=4).terms(rows, labels), dict[str, torch.Tensor])
assert_type(miners.create("semihard")(rows, labels), miners.Tuples)
assert_type(Geometry(rows, normalize=True).distance, torch.Tensor)
assert_type(levelfield.evaluate(rows, ["a", "b"] * 4, metrics=["recall@1"]), Evaluation)
assert_type(levelfield.evaluate(rows.numpy(), labels, distance="dot")["recall@1"], float)
assert_type(levelfield.compare({"data": "emoji", "methods": ["margin"]}), Report)
assert_type(levelfield.compare("demo").leaderboard, Leaderboard)
assert_type(levelfield.load("runs/demo"), Model | Ensemble | OnnxModel)
assert_type(levelfield.load("runs/demo").embed(["a.png", "b.png"]), NDArray[np.float32])
assert_type(levelfield.data.create("photos"), data.Catalog)
for batch in SamplesPerClass([0, 0, 1, 1], batch_size=4, samples_per_class=2, seed=1):
    assert_type(batch, list[int])
for batch in batching.create("spc", labels.numpy(), batch_size=4):
    assert_type(batch, list[int])

Margin(betta=0.6)  # wrong: call-arg
Margin(divisor="pairs")  # wrong: arg-type
Margin(beta=0.6)(rows)  # wrong: call-arg
Margin(beta=0.6)(rows.numpy(), labels)  # wrong: arg-type
ProxyAnchor(num_classes="4", dim=4)  # wrong: arg-type
ProxyAnchor(num_classes=4)  # wrong: call-arg
objectives.Margn()  # wrong: attr-defined
objectives.create("margin", num_classes="4")  # wrong: arg-type
Semihard(mod="closest")  # wrong: call-arg
SamplesPerClass([0, 0, 1, 1], batch_size=4, sed=1)  # wrong: call-arg
Geometry(rows)  # wrong: call-arg
levelfield.evalute(rows, labels)  # wrong: attr-defined
levelfield.evaluate(rows, labels, distance="cosin")  # wrong: arg-type
levelfield.evaluate(rows)  # wrong: call-arg
levelfield.compare(7)  # wrong: arg-type
levelfield.load("runs/demo").embed(7)  # wrong: arg-type
levelfield.embedder.Modle  # wrong: attr-defined
levelfield.studies.read_studdy("demo")  # wrong: attr-defined
batching.SamplesPerClas  # wrong: attr-defined
"""


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """Line -> code of its error. The project's own settings and cache: after `make lint` little is read again."""
    script = tmp_path_factory.mktemp("user") / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--no-error-summary", str(script)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert not done.stderr
    reported = re.findall(r"^.*script\.py:(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.MULTILINE)
    assert len(reported) == done.stdout.count(": error: "), f"errors outside of the script:\n{done.stdout}"
    return {int(line): code for line, code in reported}


LINES = SCRIPT.splitlines()
WRONG = {line.partition("  #")[0]: number for number, line in enumerate(LINES, 1) if "# wrong: " in line}


def test_right_lines_have_no_error(errors: dict[int, str]) -> None:
    assert [LINES[number - 1] for number in errors if number not in WRONG.values()] == []


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_line_has_the_error_that_it_names(line: str, errors: dict[int, str]) -> None:
    number = WRONG[line]
    assert errors.get(number) == LINES[number - 1].partition("# wrong: ")[2]
