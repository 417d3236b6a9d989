"""Text from JSON files can be written and printed again."""

from __future__ import annotations

from pathlib import Path

import pytest

from levelfield.errors import Damaged
from levelfield.files.reading import read_json


@pytest.mark.parametrize("character", ["\\ud800", "\\u001b"])
def test_half_characters_and_orders_to_a_terminal_are_refused(tmp_path: Path, character: str) -> None:
    (tmp_path / "a.json").write_text(f'[{{"label": "margin{character}[31m"}}]')
    with pytest.raises(Damaged, match=r"a.json contains the character .*which is not allowed in text"):
        read_json(tmp_path / "a.json")


def test_whole_characters_are_read_however_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('["\\ud83d\\ude00 \\u00e9 \\\\ \\n"]')
    assert read_json(tmp_path / "a.json") == ["\N{GRINNING FACE} \N{LATIN SMALL LETTER E WITH ACUTE} \\ \n"]
