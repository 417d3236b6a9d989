"""The files of an index are data: whatever they say, it is read back as written or refused in one message."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shipped import made_model, photos

from levelfield.embedder import save_model
from levelfield.errors import Damaged
from levelfield.shipping import Index, add_to_index, build_index
from levelfield.shipping.index import folder as index_folder
from levelfield.shipping.index.exact import FLOAT, Stored
from levelfield.shipping.index.folder import INDEX, Content, Item, read_folder, write_folder

NUL = '"path","class","folder","digest"\n"a\0b","","0","digest"\n'
FACTS: dict[str, Any] = {
    "images": 2,
    "dim": 3,
    "codes": FLOAT,
    "model": {"place": "../run", "checksum": "a"},
    "folders": ["../photos"],
    "threshold": {"value": 0.5, "low": None, "high": None, "chosen_on": "validation classes"},
    "unknowns": None,
    "approximate": None,
}


def written(folder: Path, names: tuple[str, str] = ("a.png", "b.png")) -> Content:
    folder.mkdir()
    items = [Item(name, "", 0, "digest") for name in names]
    content = Content(FACTS, items, Stored(np.eye(2, 3, dtype=np.float32), 3, FLOAT))
    write_folder(folder, content)
    return content


def change(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Change index.json as somebody does who also computes its checksum."""
    facts = json.loads((folder / INDEX).read_text())
    del facts["checksum"]
    edit(facts)
    (folder / INDEX).write_text(json.dumps({**facts, "checksum": index_folder._checksum(facts)}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"place": 5, "checksum": "a"}}, "model.place: Input should be a valid string"),
        ({"model": {"place": "a\0b", "checksum": "a"}}, "model.place: Value error, is not a path"),
        ({"model": {"place": "a" * 300, "checksum": "a"}}, "model.place: Value error, is not a path"),
        ({"model": None}, "model: Input should be a valid dictionary"),
        ({"dim": "x"}, "dim: Input should be a valid integer"),
        ({"dim": 0}, "dim: Input should be greater than or equal to 1"),
        ({"dim": 10**9}, "dim: Input should be less than or equal to 1000000"),
        ({"images": 0}, "images: Input should be greater than or equal to 1"),
        ({"folders": 5}, "folders: Input should be a valid list"),
        ({"folders": [None]}, "folders.0: Input should be a valid string"),
        ({"threshold": 0.5}, "threshold: Input should be a valid dictionary"),
        ({"threshold": {**FACTS["threshold"], "value": "0.5"}}, "threshold.value: Input should be a valid number"),
        ({"unknowns": {"value": 1.0}}, "unknowns.low: Field required"),
        ({"codes": ["binary"]}, "codes: Input should be 'float32' or 'binary'"),
        ({"approximate": {"library": "this", "queries": 0}}, "approximate.library: Input should be 'usearch'"),
        ({"files": {}}, "it names other files than those of an index"),
        ({"files": {"rows": "../rows.npy"}}, "files.rows: String should match"),
        ({"files": {"rows": f"rows-{'0' * 32}.npy/../.."}}, "files.rows: String should match"),
        ({"files": []}, "files: Input should be a valid dictionary"),
        ({"more": 1}, "more: Extra inputs are not permitted"),
    ],
    ids=str,
)
def test_an_index_with_other_kinds_of_values_is_one_message(tmp_path: Path, changes: Any, message: str) -> None:
    written(tmp_path / "index")
    change(tmp_path / "index", lambda facts: facts.update(changes))
    with pytest.raises(Damaged) as refused:
        Index.open(tmp_path / "index")
    assert f"{tmp_path / 'index' / INDEX} does not describe an index: {message}" in str(refused.value)
    assert "this" not in sys.modules


@pytest.mark.parametrize(
    "content", ["", "path,class\n", "path,class,folder,digest\na,b,c\n", "x" * 200_000, NUL], ids=len
)
def test_a_list_of_images_that_is_none_is_one_message(tmp_path: Path, content: str) -> None:
    written(tmp_path / "index")
    items = tmp_path / "index" / "items.csv"
    items.write_text(content)
    name = f"items-{index_folder.checksum(items)}.csv"
    items.rename(items.with_name(name))
    change(tmp_path / "index", lambda facts: facts["files"].update(items=name))
    with pytest.raises(Damaged, match="is not a list of images"):
        read_folder(tmp_path / "index")


@pytest.mark.parametrize("name", ["a\rb.png", "a\nb.png", '"a",b.png', " a\r\n\t.png"])
def test_any_name_of_a_photo_is_read_back(tmp_path: Path, name: str) -> None:
    content = written(tmp_path / "index", ("a.png", name))
    assert read_folder(tmp_path / "index").items == content.items


def test_a_photo_whose_name_breaks_a_line_can_be_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEVELFIELD_CACHE", str(tmp_path / "cache"))
    model = made_model()
    save_model(tmp_path / "run", model.embedder, {**model.view.description, "method": "made"})
    first, second = photos(tmp_path / "photos", 2)
    second.rename(tmp_path / "second.png")
    build_index(tmp_path / "run", [tmp_path / "photos"], tmp_path / "index")
    (tmp_path / "second.png").rename(tmp_path / "photos" / "a\rb.png")
    assert add_to_index(tmp_path / "index", [tmp_path / "photos"]).new == 1
    assert add_to_index(tmp_path / "index", [tmp_path / "photos"]).known == 2
    assert {path.name for path in Index.open(tmp_path / "index").paths} == {first.name, "a\rb.png"}
