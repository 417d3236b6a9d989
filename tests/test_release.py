"""What a release needs: one version, a changelog and a citation in their forms, and a clear word on Windows."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

import levelfield
from levelfield.papers import published

ROOT = Path(__file__).parents[1]
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
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
    assert isinstance(references, list)
    told = {f"{one['authors'][0]['family-names']} et al. {one['year']}, {one['title']}" for one in references}
    assert told == set(published.papers().values())
    assert all({"url", "doi"} & set(one) for one in references)


def test_the_changelog_has_the_form_of_keepachangelog() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert versions[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", version) for version in versions[1:])
    numbers = [tuple(map(int, version[1 : version.index("]")].split("."))) for version in versions[1:]]
    assert numbers == sorted(set(numbers), reverse=True)
    assert set(re.findall(r"^### (.*)$", text, re.MULTILINE)) <= KINDS


def test_classifiers_name_the_oldest_python_and_no_system_that_does_not_work() -> None:
    oldest = PROJECT["requires-python"].removeprefix(">=")
    named = [one.rpartition(" :: ")[2] for one in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", one)]
    assert named[0] == oldest
    assert not [one for one in PROJECT["classifiers"] if "Windows" in one or "OS Independent" in one]


def test_on_windows_the_import_says_what_to_do() -> None:
    script = "import sys; sys.platform = 'win32'; import levelfield"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ImportError: levelfield does not run on Windows" in done.stderr
    assert "WSL 2" in done.stderr


def test_issue_forms_are_valid_yaml_with_required_keys() -> None:
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    assert len(forms) == 3
    for form in forms:
        content = yaml.safe_load(form.read_text(encoding="utf-8"))
        assert {"name", "description", "body"} <= set(content)
        assert {one["type"] for one in content["body"]} <= {"textarea", "input", "checkboxes", "dropdown", "markdown"}
