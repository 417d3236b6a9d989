"""One table, five outputs."""

from __future__ import annotations

import csv
import io
import json

import pytest
from rich.console import Console

from levelfield.table import Column, Table, numbers

SCORES = Table(
    [Column("method", width=8), *numbers("recall@1", "sd"), *(numbers(f"m{k}", group=f"m{k}")[0] for k in range(6))],
    [["a|b, [red]", "0.500", None, *map(str, range(6))], ["a longer name", "0.250", "0.01", *map(str, range(6, 12))]],
    "Scores",
    ["A note."],
)


def printed(table: Table, width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO())
    table.show(console)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize(("width", "parts"), [(80, 1), (30, 2), (26, 3)])
def test_columns_that_do_not_fit_follow_below_and_nothing_is_cut(width: int, parts: int) -> None:
    lines = printed(SCORES, width)
    assert max(map(len, lines)) <= width
    heads = [line.split() for line in lines if line.split()[:1] == ["method"]]
    assert len(heads) == parts
    assert [name for head in heads for name in head[1:]] == ["recall@1", "sd", *(f"m{k}" for k in range(6))]
    assert (lines[0], lines[-1]) == ("Scores", "A note.")
    assert "[red]" in " ".join(lines)  # no markup


def test_columns_of_a_group_move_together_and_the_others_keep_their_place() -> None:
    grouped = [*numbers("first", "second", group="pair"), *numbers("last")]
    table = Table(["name", *grouped], [["a", "1", "2", "3"]], ruled=[0])
    assert [line.split() for line in printed(table, 30) if "name" in line] == [["name", "first", "second", "last"]]
    heads = [line.split() for line in printed(table, 22) if "name" in line]
    assert heads == [["name", "last"], ["name", "first", "second"]]


def test_a_cell_breaks_no_markdown_and_numbers_are_aligned() -> None:
    lines = Table(["name", *numbers("value")], [["a|b\nc", None]], "T", ["n"]).markdown(level=2).splitlines()
    assert lines == ["## T", "", "| name | value |", "| --- | ---: |", "| a\\|b c | - |", "", "n"]


def test_csv_has_six_digits_or_all_of_them() -> None:
    table = Table(["name", "value", "count"], [['a, "b"', 1 / 3, 2], ["c", None, 3]])
    assert list(csv.reader(io.StringIO(table.csv()))) == [
        ["name", "value", "count"],
        ['a, "b"', "0.333333", "2"],
        ["c", "", "3"],
    ]
    assert float(table.csv(digits=None).splitlines()[1].split(",")[-2]) == 1 / 3


def test_json_and_html_have_the_texts_of_the_cells() -> None:
    data = json.loads(json.dumps(SCORES.as_data()))
    assert data["columns"][:3] == ["method", "recall@1", "sd"]
    assert data["rows"][0][:3] == ["a|b, [red]", "0.500", "-"]
    assert (data["title"], data["note"]) == ("Scores", "A note.")
    assert '<td>a|b, [red]</td><td style="text-align: right">0.500</td>' in SCORES.html()
    html = Table(["<b>"], [["<c>"]], "<a>", ["<d> & e"]).html()
    assert not [tag for tag in ("<a>", "<b>", "<c>", "<d>") if tag in html]
    assert "<p>&lt;d&gt; &amp; e</p>" in html
