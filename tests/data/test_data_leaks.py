"""Leaks across the split, and whether a dataset is the official one."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import md5

import makers
import numpy as np
import pytest
from PIL import Image

from levelfield import data
from levelfield.data import protocols
from levelfield.data.checks.dataset import verify
from levelfield.data.checks.leaks import find_leaks, nearest_within, perceptual_hashes
from levelfield.errors import BadInput, UnknownName
from levelfield.progress import CallbackProgress
from levelfield.reports.split_leaks import pair_sheet


def scene(seed, size):
    """Detail at several scales, as photographs have it."""
    random = np.random.default_rng(seed)
    layers = [
        Image.fromarray(random.integers(0, 256, (n, n, 3), dtype=np.uint8)).resize(size, Image.Resampling.BICUBIC)
        for n in (3, 6, 12)
    ]
    mixed = 0.5 * np.asarray(layers[0], float) + 0.3 * np.asarray(layers[1]) + 0.2 * np.asarray(layers[2])
    return Image.fromarray(mixed.astype(np.uint8))


@pytest.fixture
def leaky(make_folder):
    """Four classes; the third holds a copy of an image of the first, the fourth one that was scaled and compressed."""
    root = make_folder("leaky", {"a": 3, "b": 3, "c": 3, "d": 3})
    (root / "c" / "copy.png").write_bytes((root / "a" / "0.png").read_bytes())
    scene(5, (120, 90)).save(root / "b" / "scene.png")
    scene(5, (120, 90)).resize((80, 66)).save(root / "d" / "again.jpg", quality=60)
    return root


def leaks_of(root, **settings):
    catalog = data.create(root)
    return find_leaks(catalog, protocols.create("standard", catalog)[0], **settings)


def test_equal_and_similar_images_across_the_split_are_found_with_their_paths(leaky):
    found = leaks_of(leaky)
    assert [(pair.train, pair.test) for pair in found.identical] == [(leaky / "a" / "0.png", leaky / "c" / "copy.png")]
    assert [(pair.train, pair.test) for pair in found.near] == [(leaky / "b" / "scene.png", leaky / "d" / "again.jpg")]
    assert found.near[0].bits <= 6
    assert found.near[0].train_class == "b"
    assert found.grave
    assert found.classes == ()
    stored = json.loads(json.dumps(found.as_data()))
    assert stored["identical"][0]["test"] == str(leaky / "c" / "copy.png")
    assert leaks_of(leaky, radius=-1).near is None


def test_the_closed_protocol_says_that_classes_are_the_same_instead_of_refusing(tmp_path):
    root, _ = makers.imagenet(tmp_path / "imagenet")
    catalog = data.create("imagenet", root=root, allow_incomplete=True)
    found = find_leaks(catalog, protocols.create("closed", catalog)[0])
    assert found.classes == ("n01440764", "n01443537")
    assert not found.grave
    assert "The same 2 classes train and test by design (protocol 'closed')." in str(found)


def test_classes_in_both_parts_are_grave_when_nobody_said_so(pets):
    catalog = data.create(pets)
    mixed = protocols.Fold("mixed", np.arange(0, len(catalog), 2), np.arange(0), np.arange(1, len(catalog), 2))
    found = find_leaks(catalog, mixed)
    assert set(found.classes) == {"cat", "dog", "eel", "fox"}
    assert found.grave


def test_classes_that_judge_are_no_leak_although_they_validate_and_test(make_folder):
    catalog = data.create(make_folder("several", dict.fromkeys("abcdefgh", 2)))
    found = find_leaks(catalog, protocols.create("choosing", catalog, validation=0.5)[0])
    assert not found.classes
    assert not found.pairs


def test_images_without_a_pattern_are_not_said_to_look_alike(tmp_path):
    for number, name in enumerate("abcd"):
        for k in range(2):
            (tmp_path / "flat" / name).mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (20, 20), (50 * number + k, 0, 0)).save(tmp_path / "flat" / name / f"{k}.png")
    assert leaks_of(tmp_path / "flat").pairs == ()


def test_blocks_find_what_a_loop_over_pairs_finds():
    random = np.random.default_rng(0)
    columns = random.random((9000, 64)) < 0.5
    rows = columns[random.permutation(9000)[:1100]].copy()
    flips = random.random(rows.shape) < random.choice([0.02, 0.2, 0.5], size=(1100, 1))
    rows ^= flips
    found = {int(r): (int(c), int(d)) for r, c, d in zip(*nearest_within(rows, columns, 6), strict=True)}
    for number, row in enumerate(rows):
        distances = (row != columns).sum(axis=1)
        nearest = int(distances.argmin())
        assert found.get(number) == ((nearest, int(distances[nearest])) if distances[nearest] <= 6 else None)


def test_hash_survives_scaling_and_compression_but_tells_pictures_apart(tmp_path):
    paths = []
    for number in range(12):
        scene(number, (120, 90)).save(tmp_path / f"{number}.png")
        scene(number, (120, 90)).resize((80, 66)).save(tmp_path / f"{number}.jpg", quality=50)
        paths += [tmp_path / f"{number}.png", tmp_path / f"{number}.jpg"]
    bits, patterned = perceptual_hashes(paths)
    distance = (bits[:, None] != bits[None]).sum(axis=2)
    own = np.arange(24)[:, None] // 2 == np.arange(24)[None] // 2
    assert patterned.all()
    assert distance[own].max() <= 6 < distance[~own].min()


def test_sheet_of_pairs_is_a_picture(leaky, tmp_path):
    found = leaks_of(leaky)
    assert pair_sheet(found.pairs, tmp_path / "sheet.png") == 2
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.width > 500
    assert pair_sheet(found.pairs * 40, tmp_path / "sheet.png", most=9) == 9
    with pytest.raises(BadInput, match="png"):
        pair_sheet(found.pairs, tmp_path / "sheet.gif")


def weights(found):
    return {finding.text: finding.weight for finding in found}


def test_a_complete_copy_is_verified(tmp_path):
    root, facts = makers.cub(tmp_path)
    told = []
    found = weights(verify("cub", root, facts=facts, progress=CallbackProgress(lambda _, *step: told.append(step))))
    assert "problem" not in found.values()
    assert found["Matches the official numbers: train 4 images of 2 classes; test 4 images of 2 classes."] == "good"
    assert found["images.txt is not the official file (its md5 differs)."] == "remark"
    assert found["All 8 images can be read."] == "good"
    assert told[-1] == (8, 8)


def test_what_is_wrong_with_a_copy_is_a_problem(tmp_path):
    root, facts = makers.cub(tmp_path)
    birds = root / "images" / "001.Black_footed_Albatross"
    (birds / "Black_Footed_Albatross_0046_18.jpg").write_bytes(b"\xff\xd8half")
    other = root / "images" / "101.White_Pelican" / "White_Pelican_0001_96422.jpg"
    other.write_bytes((birds / "Black_Footed_Albatross_0009_34.jpg").read_bytes())
    (root / "images" / "102.Western_Wood_Pewee" / "Western_Wood_Pewee_0002_98041.jpg").unlink()
    found = verify("cub", root, facts=facts)
    problems = [finding.text for finding in found if finding.weight == "problem"]
    assert problems[0] == "test: 4 images expected, 3 found."
    assert problems[1].startswith("1 listed image has no file")
    assert "Black_Footed_Albatross_0046_18.jpg" in problems[2]
    texts = " ".join(finding.text for finding in found)
    assert "official page: https://www.vision" in texts
    assert "1 image is duplicated, 1 of them under different classes" in texts


def test_the_same_bytes_as_the_makers_are_recognised(tmp_path):
    root, facts = makers.cub(tmp_path)
    own = md5((root / "classes.txt").read_bytes(), usedforsecurity=False).hexdigest()
    found = weights(verify("cub", root, facts=replace(facts, md5={"classes.txt": own})))
    assert found["classes.txt is identical to the official file."] == "good"


def test_own_photos_are_verified_without_official_numbers(pets):
    assert "problem" not in weights(verify("folder", pets)).values()
    (pets / "cat" / "0.png").write_bytes(b"")
    assert "problem" in weights(verify("folder", pets)).values()
    with pytest.raises(UnknownName, match="Did you mean 'folder'"):
        verify("foldr", pets)


def test_official_numbers_add_up():
    for name in data.official.names():
        facts = data.describe(name)
        assert sum(images for images, _ in facts.parts.values()) == facts.images
        classes = {part: number for part, (_, number) in facts.parts.items() if part != "gallery"}
        assert facts.classes == (1000 if name == "imagenet" else sum(classes.values()))
        assert facts.page.startswith("https://")
