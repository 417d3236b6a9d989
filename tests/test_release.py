"""What a release needs: light imports, one version, a changelog and a citation, a word on Windows, few calls."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

import levelfield
from levelfield.papers import published

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_version_is_written_in_the_package_and_repeated_in_the_citation_alone() -> None:
    assert PROJECT["dynamic"] == ["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", levelfield.__version__)
    assert citation()["version"] == levelfield.__version__


def test_the_workflow_runs_targets_of_the_makefile_with_every_supported_python() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/checks.yml").read_text(encoding="utf-8"))
    runs = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    assert runs == ["make test", "make docs"]
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert {run.removeprefix("make ") for run in runs} <= set(targets)
    supported = [match[1] for line in PROJECT["classifiers"] if (match := re.fullmatch(r".*:: (3\.\d+)", line))]
    assert workflow["jobs"]["test"]["strategy"]["matrix"]["python"] == supported


def citation() -> dict[str, object]:
    content: dict[str, object] = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    return content


def test_the_citation_has_its_required_keys_and_the_five_papers() -> None:
    cited = citation()
    assert cited["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(cited)
    assert cited["license"] == PROJECT["license"]
    references = cited["references"]
    titles = {f"{entry['authors'][0]['family-names']} et al. {entry['year']}, {entry['title']}" for entry in references}
    assert titles == set(published.papers().values())
    assert all({"url", "doi"} & set(entry) for entry in references)


def test_on_windows_the_import_says_what_to_do() -> None:
    script = "import sys; sys.platform = 'win32'; import levelfield"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ImportError: levelfield does not run on Windows" in done.stderr
    assert "WSL 2" in done.stderr


HEAVY = ("timm", "torchvision", "PIL", "matplotlib", "sklearn", "numba")


def test_imports_are_light_and_dir_shows_what_there_is() -> None:
    script = (
        "import sys, levelfield; names = dir(levelfield); print('torch' in sys.modules, *names); "
        "import levelfield.objectives, levelfield.miners, levelfield.geometry; "
        f"print(*[name for name in {HEAVY!r} if name in sys.modules]); "
        "[getattr(levelfield, name) for name in names]; "
        "levelfield.miners.create('semihard'); levelfield.objectives.Margin"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    shown, heavy = done.stdout.splitlines()
    imports_torch, *names = shown.split()
    assert imports_torch == "False"
    assert not heavy
    assert {"compare", "evaluate", "load", "miners", "objectives", "batching", "geometry", "testing"} <= set(names)
    assert not [name for name in names if name.startswith("_") and name != "__version__"]


def modules_of_others(tree: ast.Module) -> set[str]:
    """The names that a file gives to modules outside of levelfield."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname or alias.name for alias in node.names if not alias.name.startswith("levelfield")}
    return names


def private_parts(code: str) -> list[str]:
    """Private modules, names and attributes of other packages that a file imports or reads."""
    tree = ast.parse(code)
    modules = modules_of_others(tree)
    used = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not (node.module or "").startswith(("levelfield", "__future__")):
            used += [*(node.module or "").split("."), *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Attribute) and node.attr[0] == "_" and not node.attr.endswith("__"):
            owner = ast.unparse(node.value)
            if any(owner == name or owner.startswith(f"{name}.") for name in modules):
                used.append(f"{owner}.{node.attr}")
    private = [name for name in used if name.rpartition(".")[2].startswith("_")]
    return [name for name in private if name != "os._exit"]  # documented in spite of its name


def test_no_private_part_of_a_dependency_is_used() -> None:
    source = Path(levelfield.__file__).parent
    files = {str(path.relative_to(source)): private_parts(path.read_text()) for path in source.rglob("*.py")}
    assert {name: parts for name, parts in files.items() if parts} == {}


def test_a_comparison_makes_everything_once() -> None:
    script = "import json, walks; print(json.dumps(walks.measure_walks()))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT / "tools", capture_output=True, text=True, check=True
    )
    figures = json.loads(done.stdout.splitlines()[-1])
    once = ("parse_study", "divide", "open_catalog", "methods.create")
    assert {name: figures[f"calls of `{name}` in it"] for name in once} == dict.fromkeys(once, 1)
    assert figures["changes of file in it"] <= 1_942
    assert figures["calls of `compare`, one method and one seed"] <= 9_209
    assert figures["calls of `evaluate(rows, labels)`"] <= 200
