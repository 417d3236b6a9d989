"""Every study of a paper has the number of the table or figure that it repeats (`numbers.json`: what each shows)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from levelfield import library

NUMBERS = json.loads((Path(__file__).parent / "numbers.json").read_text(encoding="utf-8"))
STUDIES = [name for name in library.names() if name.partition("/")[0] in NUMBERS]
# Settings, dataset sizes, quoted results, the toy experiment and a diagram: see docs/papers.md.
WITHOUT = {
    *(("roth2020", number) for number in ("figure6", "figure12", "table3")),
    *(("lim2022", number) for number in ("table1", "table3")),
    ("fehervari2019", "table1"),
    ("seidenschwarz2021", "figure8"),
}
KINDS = {"table": "table", "fig": "figure"}
LITTLE = {
    *("a", "against", "all", "and", "at", "for", "in", "its"),
    *("of", "on", "one", "s", "the", "to", "with", "without"),
}
SAME = {"objective": "method", "sampling": "construction", "message": "mpn", "proxie": "proxy", "dimension": "dim"}


def words(text: str) -> set[str]:
    """The words of a text that say what it is about, in the singular."""
    plain = {re.sub(r"(?<=ch)es$|(?<=[^s])s$", "", word) for word in re.findall(r"[a-z0-9]+", text.lower())}
    return {SAME.get(word, word) for word in plain - LITTLE}


def test_every_number_has_a_study_or_is_known_to_have_none() -> None:
    """An `about` may name further figures in brackets."""
    named = {(name.split("/")[0], number) for name in STUDIES for number in numbered(library.describe(name).what)}
    every = {(paper, number) for paper, numbers in NUMBERS.items() if paper != "about" for number in numbers}
    assert every - named == WITHOUT


def numbered(about: str) -> set[str]:
    """The tables and figures that a text names.

    >>> sorted(numbered("roth2020 table 4, objectives (figures 9 to 11)"))
    ['figure10', 'figure11', 'figure9', 'table4']
    """
    found = set()
    for kind, numbers in re.findall(r"(table|figure)s? (\d+(?:(?:, | and | to )\d+)*)", about):
        for part in re.split(r", | and ", numbers):
            first, _, last = part.partition(" to ")
            found |= {f"{kind}{number}" for number in range(int(first), int(last or first) + 1)}
    return found


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_is_about_what_its_number_shows(name: str) -> None:
    paper, named = name.split("/")
    found = re.fullmatch(r"(table|fig)(\d+)", named)
    assert found, "a study of a paper is called after a table or a figure: table4, fig8"
    kind, number = KINDS[found[1]], int(found[2])
    about = re.fullmatch(rf"{paper} {kind}s? (\d+(?:(?:, | and | to )\d+)*), (.+)", library.describe(name).what)
    assert about, f"write `about: {paper} {kind} {number}, WHAT IT SHOWS`"
    shown = {key: words(text) for key, text in NUMBERS[paper].items() if key.startswith(kind)}
    own = [f"{kind}{other}" for other in re.findall(r"\d+", about[1])]
    assert own[0] == f"{kind}{number}"
    assert set(own) <= shown.keys()
    shared = {key: len(words(about[2]) & text) for key, text in shown.items()}
    assert shared[own[0]] == max(shared.values()) > 0, shared
