"""One comparison parses, opens, divides and builds once, and stays within its number of calls."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

TOOLS = Path(__file__).parents[1] / "tools"


def test_a_comparison_makes_everything_once() -> None:
    script = "import json, walks; print(json.dumps(walks.measure_walks()))"
    done = subprocess.run([sys.executable, "-c", script], cwd=TOOLS, capture_output=True, text=True, check=True)
    figures = json.loads(done.stdout.splitlines()[-1])
    once = ("parse_study", "divide", "open_catalog", "methods.create")
    assert {name: figures[f"calls of `{name}` in it"] for name in once} == dict.fromkeys(once, 1)
    assert figures["changes of file in it"] <= 1_942
    assert figures["calls of `compare`, one method and one seed"] <= 9_209
    assert figures["calls of `evaluate(rows, labels)`"] <= 200
