"""The pages of the documentation site as Markdown; read by the link check and by the hooks of mkdocs. Needs no mkdocs.

Pages are the files docs/*.md, some files of the project's root (OUTSIDE), and one page of reference for each public
package of levelfield, which exists only on the site.
"""

from __future__ import annotations

import ast
import os
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "levelfield"
OUTSIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "RELEASING.md": "releasing.md",
}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^( *)(```|~~~).*?^\1\2 *$", re.DOTALL | re.MULTILINE)
_ROW, _CODE = re.compile(r"^\|.*\|$", re.MULTILINE), re.compile(r"`[^`]+`")
_COMMENT = re.compile(r"^(<!--.*?-->)$", re.MULTILINE)


@dataclass(frozen=True)
class Source:
    """A page: its place on the site, its file relative to the project's root (None: made here), and its text."""

    place: str
    file: str | None
    text: str


def sources() -> list[Source]:
    """All pages, those of docs/ first."""
    files = {f"docs/{path.name}": path.name for path in sorted((ROOT / "docs").glob("*.md"))} | OUTSIDE
    written = [Source(place, file, (ROOT / file).read_text(encoding="utf-8")) for file, place in files.items()]
    return [*written, *(Source(place, None, text) for place, text in reference().items())]


def prose(text: str) -> str:
    """The text with its fenced blocks replaced by as many empty lines."""
    return _FENCE.sub(lambda block: "\n" * block[0].count("\n"), text)


def for_the_site(file: str, text: str) -> str:
    """The text of a file as mkdocs should read it: links to pages of the site, an empty line around comments.

    A link to a file that is not on the site becomes its text.
    """
    text = _COMMENT.sub(r"\n\1\n", text)
    text = _ROW.sub(lambda row: _CODE.sub(lambda code: code[0].replace(r"\|", "|"), row[0]), text)
    blocks = [block.span() for block in _FENCE.finditer(text)]

    def moved(link: re.Match[str]) -> str:
        if any(start <= link.start() < end for start, end in blocks):
            return link[0]
        path, anchor, part = link[3].partition("#")
        if "://" in path or not path:
            return link[0]
        target = os.path.normpath(os.path.join(os.path.dirname(file), path))
        place = OUTSIDE.get(target, target.removeprefix("docs/") if target.startswith("docs/") else None)
        return f"{link[1]}[{link[2]}]({place}{anchor}{part})" if place else link[2]

    return LINK.sub(moved, text)


def reference() -> dict[str, str]:
    """The pages of reference by their places: levelfield's own functions, then each of its public packages."""
    pages, functions = {}, []
    for name in public(PACKAGE / "__init__.py"):
        if module := _module(name):
            title = (ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or "").strip()
            names = sorted(public(module), key=lambda name: not name.islower())  # functions first
            lines = [f"# levelfield.{name}", _plain(title), *(f"::: levelfield.{name}.{one}" for one in names)]
            pages[f"python/{name}.md"] = "\n\n".join(lines) + "\n"
        elif not name.startswith("_"):
            functions.append(f"::: levelfield.{name}")
    own = ["# levelfield", "What `import levelfield` gives beside its packages.", *functions]
    return {"python/levelfield.md": "\n\n".join(own) + "\n", **pages}


def public(file: Path) -> list[str]:
    """What a module exports: the names of `__all__`, and those that it offers to type checkers (`X as X`).

    A module without either exports the functions and classes that it defines.
    """
    tree = ast.parse(file.read_text(encoding="utf-8"))
    listed = [node for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"]
    names = list(ast.literal_eval(listed[0].value)) if listed else []
    checked = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    for block in checked:
        for node in block.body:
            names += [one.asname for one in getattr(node, "names", []) if one.asname and one.asname not in names]
    if not names:
        defined = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
        return [name for name in defined if not name.startswith("_")]
    return [name for name in names if not _is_module(file, name)]


def _module(name: str) -> Path | None:
    found = [path for path in (PACKAGE / name / "__init__.py", PACKAGE / f"{name}.py") if path.is_file()]
    return found[0] if found else None


def _is_module(file: Path, name: str) -> bool:
    """Whether a name of a package is a module inside it, which has no page of its own."""
    inside = file.parent != PACKAGE and file.name == "__init__.py"
    return inside and any((file.parent / one).exists() for one in (f"{name}.py", f"{name}/__init__.py"))


def _plain(docstring: str) -> str:
    """A docstring of a module as Markdown: its examples in a block."""
    text, _, example = docstring.partition("\n>>> ")
    return f"{text}\n\n```pycon\n>>> {example}\n```" if example else text
