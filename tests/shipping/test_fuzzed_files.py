"""Files from anywhere with random content: each is read as written, or refused by a LevelfieldError."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shipped import made_model, photos, shipped
from test_index_files import FACTS

import levelfield
from levelfield.embedder import load, model_files, save_model
from levelfield.errors import LevelfieldError
from levelfield.reports.evaluation.embedding_set import read_image_paths
from levelfield.shipping.description import DESCRIPTION, write_description
from levelfield.shipping.index import folder as index_folder
from levelfield.shipping.index.exact import FLOAT, Stored
from levelfield.shipping.index.folder import INDEX, Content, Item, read_folder, write_folder
from levelfield.studies.runs.folder import items as run_items
from levelfield.table import Table
from levelfield.wording import printable

# every character of a file name; names that are not UTF-8 are refused when images are listed
CHARACTERS = st.one_of(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0/"), st.sampled_from('\r\n\t",;\x1b\x7f\x9b \\')
)
NAMES = st.text(CHARACTERS, min_size=1, max_size=60)
CONTROLS = {chr(code) for code in (*range(9), *range(11, 32), *range(127, 160))}
NUMBERS = st.one_of(st.integers(), st.floats(), st.sampled_from([0, -1, 1e-320, 1e308, 2**31, 2**63, 10**400]))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=4,
)
# Writing and loading files takes long: fewer examples than elsewhere.
ANY = settings(
    max_examples=settings.default.max_examples // 5,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def entries(facts: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each entry of plain data."""
    inside = facts.items() if isinstance(facts, dict) else enumerate(facts) if isinstance(facts, list) else ()
    for key, value in inside:
        yield (*path, key)
        yield from entries(value, (*path, key))


def changed(facts: Any, data: st.DataObject) -> Any:
    """Plain data with another value of one entry, or without it, or with one more."""
    facts = copy.deepcopy(facts)
    *above, key = data.draw(st.sampled_from(sorted(entries(facts), key=str)))
    holder = facts
    for each in above:
        holder = holder[each]
    kind = data.draw(st.sampled_from(["value", "value", "less", "more"]))
    if kind == "less":
        del holder[key]
    elif kind == "more" and isinstance(holder, dict):
        holder[data.draw(st.text(max_size=5))] = data.draw(VALUES)
    else:
        holder[key] = data.draw(VALUES)
    return facts


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index, a run's model and an exported model."""
    home = tmp_path_factory.mktemp("home")
    (home / "index").mkdir()
    items = [Item(name, "", 0, "digest") for name in ("a.png", "b.png")]
    write_folder(home / "index", Content(FACTS, items, Stored(np.eye(2, 3, dtype=np.float32), 3, FLOAT)))
    model = made_model()
    save_model(home / "run", model.embedder, {**model.view.description, "method": "made"})
    shipped(model, home / "exported")
    return home


@ANY
@given(names=st.lists(NAMES, min_size=1, max_size=5, unique=True))
def test_every_file_name_is_read_back_and_printed_without_control_characters(home: Path, names: list[str]) -> None:
    items = [Item(name, name, 0, "digest") for name in names]
    rows = np.zeros((len(names), 3), dtype=np.float32)
    (home / "named").mkdir(exist_ok=True)
    write_folder(home / "named", Content({**FACTS, "images": len(names)}, items, Stored(rows, 3, FLOAT)))
    assert read_folder(home / "named").items == items
    run_items.Items(names, np.array(names)).write(home)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_items, "check", lambda *_: None)
        assert run_items.Items.read(home).paths == names
    assert CONTROLS.isdisjoint(printable("".join(names)))
    whole = [
        name for name in names if {"\r", "\n"}.isdisjoint(name)
    ]  # `levelfield embed` refuses others in a text file
    for listing, text, listed in (
        ("paths.csv", Table(["path"], [[name] for name in names]).csv(), names),
        ("paths.txt", "".join(f"{name}\n" for name in whole), whole),
    ):
        (home / listing).write_bytes(text.encode())
        found = read_image_paths(home / listing, len(listed), 0) if listed else []
        assert found in ([Path(name) for name in listed], [home / name for name in listed])


@ANY
@given(data=st.data())
def test_any_index_json_is_read_or_refused(home: Path, data: st.DataObject) -> None:
    facts = json.loads((home / "index" / INDEX).read_text())
    del facts["checksum"]
    facts = changed(facts, data)
    (home / "copy").mkdir(exist_ok=True)
    for path in (home / "index").iterdir():
        (home / "copy" / path.name).write_bytes(path.read_bytes())
    (home / "copy" / INDEX).write_text(json.dumps({**facts, "checksum": index_folder._checksum(facts)}))
    with suppress(LevelfieldError):
        read_folder(home / "copy")


@ANY
@given(text=st.one_of(st.text(max_size=200), st.text('ab,"\r\n\0', max_size=40)), header=st.booleans())
def test_any_items_csv_is_read_or_refused(home: Path, text: str, header: bool) -> None:
    path = home / "items.csv"
    for first, read in (
        ('"path","class","folder","digest"\n', lambda: index_folder._read_items(path, 1)),
        ("path,class\n", lambda: run_items.Items.read(home)),
    ):
        path.write_bytes(((first if header else "") + text).encode("utf-8", "surrogatepass"))
        with pytest.MonkeyPatch.context() as patch, suppress(LevelfieldError):
            patch.setattr(run_items, "check", lambda *_: None)
            read()


@ANY
@given(data=st.data())
def test_any_model_yaml_is_loaded_or_refused(home: Path, data: st.DataObject) -> None:
    path, weights = home / "run" / "model.yaml", home / "run" / "model.safetensors"
    before = path.read_text()
    facts = yaml.safe_load(before)
    del facts["checksum"]
    text = yaml.safe_dump(changed(facts, data))
    path.write_text(f"{text}checksum: '{model_files._checksum(text, weights)}'\n")
    with suppress(LevelfieldError):
        load(home / "run")
    path.write_text(before)


@ANY
@given(data=st.data())
def test_any_header_of_an_onnx_file_is_loaded_or_refused(home: Path, data: st.DataObject) -> None:
    """The bytes of the network's nodes are changed, and model.json beside it."""
    facts = json.loads((home / "exported" / DESCRIPTION).read_text())
    content = bytearray((home / "exported" / facts["file"]).read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, min(2000, len(content) - 1)))] = data.draw(st.integers(0, 255))
    (home / "crafted").mkdir(exist_ok=True)
    (home / "crafted" / facts["file"]).write_bytes(content)
    facts = changed({key: value for key, value in facts.items() if key not in ("file", "checksum")}, data) | {
        "file": facts["file"]
    }
    write_description(home / "crafted", facts)
    [photo] = photos(home / "photos", 1)
    with suppress(LevelfieldError):
        levelfield.load(home / "crafted" / facts["file"]).embed(photo)
