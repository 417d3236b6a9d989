"""The documentation as data: its pages and the fenced blocks on them."""

from __future__ import annotations

import importlib.util
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"# (\S+\.(?:py|yaml))\n")


@dataclass(frozen=True)
class Block:
    """What stands between two fences. `file`: the name on its first line, `# my_losses.py`."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def file(self) -> str | None:
        match = _FILE.match(self.text)
        return match[1] if match else None

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}, line {self.line}"

    def commands(self, program: str) -> list[list[str]]:
        """The arguments of every line that calls `program`."""
        if self.language not in ("bash", "console", "sh"):
            return []
        lines = self.text.replace("\\\n", " ").splitlines()
        words = [shlex.split(line.removeprefix("$ "), comments=True) for line in lines]
        return [line[1:] for line in words if line[:1] == [program]]


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(page, text.count("\n", 0, match.start(2)) + 1, match[1], match[2]) for match in _BLOCK.finditer(text)]


def script(name: str) -> ModuleType:
    """The script `tools/NAME.py`, which writes a part of a page."""
    spec = importlib.util.spec_from_file_location(f"tools_{name}", ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
