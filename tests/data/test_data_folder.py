"""Own photos: one sub-folder per class."""

import shutil

import pytest

from levelfield import data
from levelfield.errors import BadInput, BadSpecification, UnknownName


def names_of(catalog, root):
    return [path.relative_to(root).as_posix() for path in catalog.paths]


def test_each_sub_folder_is_a_class_with_the_images_below_it(make_folder):
    root = make_folder("deep", {"cat/old": 2, "cat/new/best": 1, "dog": 2})
    catalog = data.create("folder", path=root)
    assert (catalog.name, catalog.class_names, catalog.class_sizes.tolist()) == ("deep", ("cat", "dog"), [3, 2])
    assert names_of(catalog, root)[1:4] == ["cat/old/0.png", "cat/old/1.png", "dog/0.png"]
    assert (catalog.notes, catalog.groups, catalog.roles) == ((), None, None)


def test_classes_and_images_are_in_natural_order(make_folder):
    root = make_folder("flowers", {"10": 12, "2": 1, "1": 1, "b": 1})
    catalog = data.create(str(root))
    assert catalog.class_names == ("1", "2", "10", "b")
    assert names_of(catalog, root)[2:5] == ["10/0.png", "10/1.png", "10/2.png"]
    assert names_of(catalog, root)[12:14] == ["10/10.png", "10/11.png"]


def test_capitals_count_and_dot_files_do_not(pets, picture):
    picture(1).save(pets / "cat" / "IMG.JPG")
    (pets / "cat" / "._IMG.JPG").write_bytes(b"resource fork")
    (pets / "cat" / ".DS_Store").write_bytes(b"")
    for hidden in (".git", "__MACOSX", "cat/.thumbs", "cat/__MACOSX"):
        (pets / hidden).mkdir()
        picture(2).save(pets / hidden / "0.png")
    catalog = data.create(pets)
    assert catalog.class_names == ("cat", "dog", "eel", "fox")
    assert names_of(catalog, pets)[:4] == ["cat/0.png", "cat/1.png", "cat/2.png", "cat/IMG.JPG"]
    assert catalog.notes == ()


def test_links_are_followed_and_circles_end(pets, make_folder):
    elsewhere = make_folder("elsewhere", {"goat": 2})
    (pets / "goat").symlink_to(elsewhere / "goat")
    (pets / "cat" / "linked.png").symlink_to(elsewhere / "goat" / "0.png")
    (pets / "cat" / "circle").symlink_to(pets / "cat")
    catalog = data.create(pets)
    assert catalog.class_names == ("cat", "dog", "eel", "fox", "goat")
    assert catalog.class_sizes.tolist() == [4, 2, 2, 4, 2]


def test_oddities_are_noted(pets, picture):
    picture(1).save(pets / "loose.png")
    (pets / "empty").mkdir()
    (pets / "cat" / "notes.txt").write_text("x")
    (pets / "lone").mkdir()
    picture(2).save(pets / "lone" / "a.png")
    notes = " ".join(data.create(pets).notes)
    assert "Ignored 1 image directly" in notes
    assert "Ignored 1 sub-folder without images: empty" in notes
    assert "Ignored 1 file of other kinds" in notes
    assert "1 class has only one image and cannot be a query: lone" in notes
    assert "lone" in data.create(pets).class_names


def test_missing_folder_names_the_nearest(pets):
    with pytest.raises(BadInput, match=r"does not exist. Did you mean .*/pets\?"):
        data.create(pets.with_name("petts"))
    with pytest.raises(BadInput, match=r"does not exist. Did you mean .*/pets\?"):
        data.create(str(pets.with_name("petz") / "cat"))
    with pytest.raises(BadInput, match="does not exist"):
        data.create("/nowhere/at/all")


def test_bare_name_that_is_no_dataset_looks_at_folders_here(pets, monkeypatch):
    monkeypatch.chdir(pets.parent)
    catalog = data.create("pets")
    assert len(catalog) == 11
    assert str(catalog.paths[0]) == "pets/cat/0.png"
    assert all(path.is_file() for path in catalog.paths)
    with pytest.raises(UnknownName, match="Did you mean 'pets'"):
        data.create("pest")
    with pytest.raises(UnknownName, match="Did you mean 'emoji'"):
        data.create("emojis")


def test_unusable_folders_are_refused(tmp_path, make_folder, picture):
    archive = make_folder("archive", {})
    (archive / "photos.zip").touch()
    with pytest.raises(BadInput, match=r"only photos.zip"):
        data.create(archive)
    with pytest.raises(BadInput, match=r"2 sub-folders \(a, b\) but none contains an image"):
        data.create(make_folder("hollow", {"a": 0, "b": 0}))
    with pytest.raises(BadInput, match="only one class, 'a'"):
        data.create(make_folder("single", {"a": 3}))
    picture().save(tmp_path / "a.jpg")
    with pytest.raises(BadInput, match="is a file"):
        data.create(tmp_path / "a.jpg")
    with pytest.raises(BadInput, match=r"Did you mean .*/mine/photos, which has 2 sub-folders"):
        data.create(make_folder("high", {"mine/photos/cat": 2, "mine/photos/dog": 2}))
    with pytest.raises(BadInput, match="test, train, which are parts of a split, not classes"):
        data.create(make_folder("parts", {"train/cat": 2, "train/dog": 2, "test/cat": 1, "test/dog": 1}))


def test_misspelt_setting_names_the_nearest(pets):
    with pytest.raises(BadSpecification, match=r"no setting 'paht'. Did you mean 'path'"):
        data.create("folder", paht=pets)
    with pytest.raises(BadSpecification, match="needs the setting 'path'"):
        data.create("folder")


def test_own_source_from_a_file(pets, tmp_path):
    (tmp_path / "mine.py").write_text(
        f"from levelfield import data\ndef photos(half=False):\n    c = data.create({str(pets)!r})\n"
        "    return c.subset(range(5)) if half else c\ndef wrong():\n    return 3\n"
    )
    assert len(data.create(f"{tmp_path}/mine.py:photos", half=True)) == 5
    with pytest.raises(BadInput, match=r"must return a levelfield.data.Catalog"):
        data.create(f"{tmp_path}/mine.py:wrong")


def test_facts_about_a_folder(make_folder, picture):
    root = make_folder("mixed", {"a": 5, "b": 2, "c": 1})
    picture(size=(300, 200)).save(root / "a" / "big.jpg")
    (root / "a" / "broken.jpg").write_bytes(b"")
    facts = data.survey(data.create(root))
    assert (facts.per_class, facts.shorter_side) == ((1, 2.0, 7), (30, 30, 200))
    assert str(facts) == "10 images of 3 classes, 1 to 7 each (median 2); shorter side 30 to 200 px, usually 30"


@pytest.mark.parametrize("inside", [".", "pets"])
def test_photos_in_an_archive(pets, tmp_path, monkeypatch, inside):
    monkeypatch.setenv("LEVELFIELD_CACHE", str(tmp_path / "cache"))
    archive = shutil.make_archive(str(tmp_path / "photos"), "gztar", pets.parent if inside == "pets" else pets, inside)
    catalog = data.create(archive)
    assert catalog.name == "photos"
    assert catalog.digest == data.create(pets).digest


def test_a_link_to_a_folder_above_is_no_class_and_is_not_entered(pets):
    plain = data.create(pets)
    (pets / "everything").symlink_to(pets)
    (pets / "above").symlink_to(pets.parent)
    (pets / "cat" / "up").symlink_to(pets)
    found = data.create(pets)
    assert found.class_names == plain.class_names
    assert found.digest == plain.digest
    assert "Ignored 2 links to a parent folder: " in " ".join(found.notes)


@pytest.mark.parametrize("place", ["cat/caf\udce9.png", "zo\udce9/1.png"])
def test_names_that_are_not_utf_8_are_named_before_anything_else(pets, place):
    odd = pets / place
    odd.parent.mkdir(exist_ok=True)
    shutil.copy(next((pets / "cat").glob("*.png")), odd)
    with pytest.raises(BadInput, match=r"1 file name is not UTF-8 text.*\\xe9.*Rename"):
        data.create(pets)
