"""One word for one thing: code, tests and pages use the words of docs/architecture.md and no synonyms of them."""

from __future__ import annotations

import ast
import re
import subprocess

import pages
import pytest

FORBIDDEN = {
    "relatives": (r"\brelatives\b", "positives"),
    "strangers": (r"\bstrangers\b(?! are)", "negatives"),
    "departure": (r"\bdepartures?\b", "deviation"),
    "Competitor": (r"\bCompetitor\b", "MethodSpec"),
    "Ground": (r"\bGround\b|\bforget_grounds\b", "RunInputs"),
    "numbers of papers": (r"\b(?:paper|seed) 00[0-4]\b|(?<![\w.,/])00[0-4]/(?:cub|cars|sop|inshop)", "roth2020/cub"),
    "old study files": (r"\bstudies/(?:papers/|demo\.yaml|deeper\.yaml|methods\.yaml)", "the study's name: demo"),
}
# where old or other people's words are the subject: messages about renamed things, golden files, archives
EXCEPT = re.compile(
    r"CHANGELOG\.md|tests/golden/|tests/parity/|tests/docs/test_words\.py"
    r"|test_cli_library\.py|tests/library/|test_renamed|test_archives\.py|\.log\.json$|docs/logs/|benchmarks/results/"
)


# they do not say what a variable, a parameter or a function is
NO_NAMES = {"found", "told", "said", "made", "given", "place", "places"}
# nor what a constant limits
NO_CONSTANTS = {"AGAIN", "ENOUGH", "FEW", "FEWEST", "LARGER", "LAST", "LEAST", "MOST", "NODES", "SEEN"}
KEYS = {
    ("src/levelfield/studies/runs/spec.py", "place"),
    ("src/levelfield/shipping/index/folder.py", "place"),
}  # of files


def texts() -> list[tuple[str, str]]:
    """Every tracked text file, by its path."""
    listed = subprocess.run(
        ["git", "ls-files", "src", "tests", "docs", "benchmarks", "*.md"],
        cwd=pages.ROOT,
        capture_output=True,
        text=True,
    ).stdout.split("\n")
    kept = [name for name in listed if name.endswith((".py", ".md", ".yaml")) and not EXCEPT.search(name)]
    return [(name, path.read_text(encoding="utf-8")) for name in kept if (path := pages.ROOT / name).is_file()]


@pytest.mark.parametrize("word", FORBIDDEN)
def test_no_synonym_is_used(word: str) -> None:
    pattern, instead = FORBIDDEN[word]
    result = [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}"
        for name, text in texts()
        for match in re.finditer(pattern, text)
    ]
    assert not result, f"say '{instead}': " + "; ".join(result[:10])


ADDRESS = re.compile(r"(?<![\d.])(?!0\.[1-9])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])")


def test_addresses_are_those_of_this_machine() -> None:
    """Whoever tries an example should reach no other machine: 127.0.0.1, or a placeholder such as HOST:PORT."""
    result = {f"{name}: {match[0]}" for name, text in texts() for match in ADDRESS.finditer(text)}
    assert {each for each in result if not each.endswith(": 127.0.0.1")} == set()


def names_in(code: str) -> set[str]:
    """The names that a module assigns or defines."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
    return names


def test_names_say_what_they_hold() -> None:
    used = [
        f"{name}: {word}"
        for name, text in texts()
        if name.startswith("src/") and name.endswith(".py")
        for word in sorted(names_in(text) & NO_NAMES)
        if (name, word) not in KEYS
    ]
    assert not used, "call a thing what it is: " + "; ".join(used[:10])


def constants_in(code: str) -> set[str]:
    """The names that a module assigns outside its functions and classes, without leading underscores."""
    return {
        node.id.lstrip("_")
        for statement in ast.parse(code).body
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def test_constants_say_what_they_limit() -> None:
    assert constants_in("_MOST, FEW = 3, 4\nLEAST: int = 5") == {"MOST", "FEW", "LEAST"}
    used = [
        f"{name}: {word}"
        for name, text in texts()
        if name.startswith("src/") and name.endswith(".py")
        for word in sorted(constants_in(text) & NO_CONSTANTS)
    ]
    assert not used, "name what is limited, as in MAX_ROWS: " + "; ".join(used[:10])
