"""The benchmarks, read in their official form."""

from __future__ import annotations

import shutil
import tarfile
import zipfile
from pathlib import Path

import makers
import numpy as np
import pytest

from levelfield import data
from levelfield.data import official, protocols
from levelfield.errors import BadInput

FORMS = {
    "cub": makers.cub,
    "cars devkit": makers.cars_devkit,
    "cars one archive": makers.cars_one_archive,
    "sop": makers.sop,
    "inshop": makers.inshop,
    "imagenet": makers.imagenet,
    "omniglot": makers.omniglot,
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LEVELFIELD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("LEVELFIELD_DATA", raising=False)


def read(name, made):
    root, facts = made
    return official.read(name, root, facts=facts)


def sides(catalog):
    """Class ids that train, and that test."""
    ids, parts = np.array(catalog.class_ids)[catalog.labels], np.array(catalog.split)
    return [list(dict.fromkeys(ids[parts == part].tolist())) for part in ("train", "test")]


@pytest.mark.parametrize("form", FORMS)
def test_a_complete_copy_has_no_problems_and_every_image_can_be_read(form, tmp_path):
    reading = read(form.split()[0], FORMS[form](tmp_path / "x"))
    assert reading.problems == reading.remarks == ()
    for path in reading.catalog.paths:
        assert data.read_image(path).mode == "RGB"
    assert len(set(reading.catalog.digests)) == len(reading.catalog)


def test_cub_classes_up_to_100_train_and_ids_and_names_are_kept(tmp_path):
    catalog = read("cub", makers.cub(tmp_path)).catalog
    assert catalog.class_ids == (1, 2, 101, 102)
    assert catalog.class_names[0] == "001.Black_footed_Albatross"
    assert catalog.paths[0].name == "Black_Footed_Albatross_0046_18.jpg"  # the order of images.txt
    assert sides(catalog) == [[1, 2], [101, 102]]
    [fold] = protocols.create("standard", catalog)
    assert fold.train.tolist() == [0, 1, 2, 3]


def test_cub_without_a_class_keeps_the_official_halves(tmp_path):
    root, facts = makers.cub(tmp_path)
    shutil.rmtree(root / "images" / "001.Black_footed_Albatross")
    reading = official.read("cub", root, facts=facts)
    assert "train: 4 images expected, 2 found" in reading.problems
    assert "train: 2 classes expected, 1 found" in reading.problems
    assert any("2 listed images have no file" in problem for problem in reading.problems)
    assert sides(reading.catalog) == [[2], [101, 102]]


def test_cars_joins_both_folders_of_the_devkit_and_divides_by_class(tmp_path):
    catalog = read("cars", makers.cars_devkit(tmp_path / "stanford_cars")).catalog
    assert catalog.class_ids == (3, 14, 99, 181)
    assert len({path.name for path in catalog.paths}) == 4 < len(catalog)  # names repeat in the two folders
    first = catalog.paths.index(tmp_path / "stanford_cars" / "cars_train" / "00001.jpg")
    assert catalog.class_ids[catalog.labels[first]] == 14
    other = catalog.paths.index(tmp_path / "stanford_cars" / "cars_test" / "00001.jpg")
    assert catalog.class_ids[catalog.labels[other]] == 181
    assert [sorted(side) for side in sides(catalog)] == [[3, 14], [99, 181]]


def test_cars_as_one_archive_reads_the_class_by_its_name(tmp_path):
    catalog = read("cars", makers.cars_one_archive(tmp_path / "cars")).catalog
    assert catalog.class_ids == (1, 2, 99, 196)
    assert catalog.class_names[2] == "Car 99 2012"
    assert sides(catalog) == [[1, 2], [99, 196]]


def test_cars_without_the_labelled_test_file_names_it(tmp_path):
    root, _ = makers.cars_devkit(tmp_path / "cars")
    (root / "cars_test_annos_withlabels.mat").rename(root / "devkit" / "cars_test_annos_withlabels.mat")
    official.read("cars", root)  # inside the devkit is as good
    (root / "devkit" / "cars_test_annos_withlabels.mat").unlink()
    with pytest.raises(BadInput, match=r"no cars_test_annos_withlabels.mat .* has no classes"):
        official.read("cars", root)


@pytest.mark.parametrize("moved", [False, True])
def test_sop_lists_are_the_split_wherever_they_lie(tmp_path, moved):
    root, facts = makers.sop(tmp_path, moved=moved)
    reading = official.read("sop", root, facts=facts)
    assert reading.problems == ()
    catalog = reading.catalog
    assert catalog.class_ids == (1, 2, 11319, 11320)
    assert catalog.class_names[0] == "bicycle 111085122871"
    assert catalog.class_sizes.tolist() == [4, 2, 2, 2]
    [fold] = protocols.create("standard", catalog)
    assert [len(fold.train), len(fold.test)] == [6, 4]


@pytest.mark.parametrize("images", ["img", "img_highres"])
def test_inshop_has_queries_and_a_gallery(tmp_path, images):
    root, facts = makers.inshop(tmp_path, images=images)
    reading = official.read("inshop", root, facts=facts)
    assert reading.problems == ()
    assert [note for note in reading.remarks if "img_highres" in note] == list(reading.remarks)
    catalog = reading.catalog
    assert catalog.class_ids == ("id_00000001", "id_00000002", "id_00000003", "id_00000007")
    for name in ("standard", "query-gallery"):
        [fold] = protocols.create(name, catalog)
        assert fold.train.tolist() == [0, 1, 2, 3]
        assert fold.query.tolist() == [4, 6]
        assert fold.gallery.tolist() == [5, 7]
        assert fold.test.tolist() == [4, 5, 6, 7]


@pytest.mark.parametrize("flat", [False, True])
def test_imagenet_is_closed_and_labels_mean_the_same_on_both_sides(tmp_path, flat):
    catalog = read("imagenet", makers.imagenet(tmp_path / "imagenet", flat=flat)).catalog
    assert catalog.class_ids == ("n01440764", "n01443537")
    tested = {path.name: catalog.class_ids[label] for path, label in zip(catalog.paths, catalog.labels, strict=True)}
    assert tested["ILSVRC2012_val_00000001.JPEG"] == "n01443537"
    [fold] = protocols.create("closed", catalog)
    assert fold.closed
    assert [len(fold.train), len(fold.test)] == [8, 4]
    labels = np.concatenate([catalog.labels, catalog.labels + 2])
    wide = data.Catalog("imagenet", catalog.paths * 2, labels, tuple("abcd"), split=catalog.split * 2)
    with pytest.raises(BadInput, match="protocol 'closed'"):
        protocols.create("standard", wide)


def test_omniglot_characters_belong_to_their_alphabet(tmp_path):
    catalog = read("omniglot", makers.omniglot(tmp_path / "omniglot")).catalog
    assert catalog.class_ids == (394, 395, 700, 1200, 1201, 1300)
    assert catalog.class_names[3] == "Malay_(Jawi_-_Arabic)/character01"
    assert catalog.groups.tolist() == [0, 0, 1, 2, 2, 3]
    assert sides(catalog)[0] == [394, 395, 700]


def test_archives_are_read_as_they_are_and_unpacked_once(tmp_path, caplog):
    root, facts = makers.cub(tmp_path / "made")
    (root / "images" / "001.Black_footed_Albatross" / "._0.jpg").write_bytes(b"\0")
    with tarfile.open(tmp_path / "CUB_200_2011.tgz", "w:gz") as tar:
        tar.add(root, "CUB_200_2011")
        tar.add(root / "classes.txt", "__MACOSX/classes.jpg")
    for given in (tmp_path / "CUB_200_2011.tgz", tmp_path):
        reading = official.read("cub", given, facts=facts)
        assert reading.problems == reading.remarks == ()
        assert reading.catalog.digest == official.read("cub", root, facts=facts).catalog.digest
    assert caplog.text.count("first time only") == 1


def test_archives_inside_archives_are_unpacked_too(tmp_path):
    root, facts = makers.omniglot(tmp_path / "made")
    for part in ("images_background", "images_evaluation"):
        shutil.make_archive(str(tmp_path / part), "zip", root, part)
    with zipfile.ZipFile(tmp_path / "omniglot.zip", "w") as outer:
        for part in ("images_background", "images_evaluation"):
            outer.write(tmp_path / f"{part}.zip", f"{part}.zip")
    assert official.read("omniglot", tmp_path / "omniglot.zip", facts=facts).problems == ()
    (tmp_path / "omniglot.zip").unlink()
    assert official.read("omniglot", tmp_path, facts=facts).problems == ()  # the two lie side by side


def test_imagenet_archives_are_tars_of_tars(tmp_path):
    root, facts = makers.imagenet(tmp_path / "made", flat=True)
    tars = tmp_path / "ILSVRC2012"
    tars.mkdir()
    with tarfile.open(tars / "ILSVRC2012_img_train.tar", "w") as outer:
        for synset in sorted((root / "train").iterdir()):
            with tarfile.open(tmp_path / f"{synset.name}.tar", "w") as inner:
                for image in sorted(synset.iterdir()):
                    inner.add(image, image.name)
            outer.add(tmp_path / f"{synset.name}.tar", f"{synset.name}.tar")
    with tarfile.open(tars / "ILSVRC2012_img_val.tar", "w") as flat:
        for image in sorted((root / "val").iterdir()):
            flat.add(image, image.name)
    with tarfile.open(tars / "ILSVRC2012_devkit_t12.tar.gz", "w:gz") as devkit:
        devkit.add(root / "ILSVRC2012_devkit_t12", "ILSVRC2012_devkit_t12")
    assert official.read("imagenet", tars, facts=facts).problems == ()


@pytest.mark.parametrize("kind", ["zip", "gztar"])
def test_half_an_archive_is_refused_and_leaves_nothing(tmp_path, kind):
    root, facts = makers.cub(tmp_path / "made")
    archive = Path(shutil.make_archive(str(tmp_path / "CUB_200_2011"), kind, root.parent, root.name))
    archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])
    with pytest.raises(BadInput, match="its download is incomplete"):
        official.read("cub", archive, facts=facts)
    assert [path.name for path in (tmp_path / "cache" / "unpacked").iterdir() if path.is_dir()] == []


def test_what_a_killed_process_left_half_unpacked_is_thrown_away(tmp_path):
    root, facts = makers.cub(tmp_path / "made")
    archive = Path(shutil.make_archive(str(tmp_path / "birds"), "zip", root.parent, root.name))
    official.read("cub", archive, facts=facts)
    [whole] = [path for path in (tmp_path / "cache" / "unpacked").iterdir() if path.is_dir()]
    half = whole.with_name(f".{whole.name}.tmp")
    whole.rename(half)
    shutil.rmtree(half / "CUB_200_2011" / "images")
    makers.write_lines(half / "CUB_200_2011" / "rubbish.txt", ["x"])
    assert official.read("cub", archive, facts=facts).problems == ()
    assert not half.exists()
    assert not (whole / "CUB_200_2011" / "rubbish.txt").exists()


def test_roots_are_found_by_setting_or_by_the_environment(tmp_path, monkeypatch):
    root, facts = makers.cub(tmp_path)
    for given in (root, tmp_path, str(root)):
        assert len(official.read("cub", given, facts=facts).catalog) == 8
    with pytest.raises(BadInput, match=r"root: DIR.*--root DIR.*LEVELFIELD_DATA.*CUB_200_2011.*https://"):
        data.create("cub")
    monkeypatch.setenv("LEVELFIELD_DATA", str(tmp_path))
    assert len(official.read("cub", facts=facts).catalog) == 8
    with pytest.raises(BadInput, match=r"'sop' was not found in LEVELFIELD_DATA=.*Stanford_Online_Products.*https://"):
        data.create("sop")
    with pytest.raises(BadInput, match=r"does not exist: .*CUB_200_2012.* Did you mean .*CUB_200_2011"):
        data.create("cub", root=tmp_path / "CUB_200_2012")
    with pytest.raises(BadInput, match="is a file"):
        data.create("cub", root=root / "images.txt")


def test_what_differs_from_the_official_numbers_is_refused_unless_allowed(tmp_path):
    root, _ = makers.cub(tmp_path)
    with pytest.raises(
        BadInput,
        match=r"(?s)images.txt: 11,788 rows expected, 8 found.*train: 5,864 images expected, "
        r"4 found.*allow_incomplete: true.*https://www.vision.caltech.edu",
    ):
        data.create("cub", root=root)
    catalog = data.create("cub", root=root, allow_incomplete=True)
    assert "Not the official dataset: images.txt: 11,788 rows expected, 8 found." in catalog.notes


def test_files_without_a_row_are_reported_and_hidden_ones_are_not(tmp_path):
    root, facts = makers.cub(tmp_path)
    makers.picture(root / "images" / "001.Black_footed_Albatross" / "extra.jpg", 99)
    makers.picture(root / "images" / "001.Black_footed_Albatross" / ".hidden.jpg", 98)
    makers.picture(root / "images" / "__MACOSX" / "copy.jpg", 97)
    reading = official.read("cub", root, facts=facts)
    [remark] = reading.remarks
    assert remark.startswith("1 image file is not in any list: ")
    assert "extra.jpg" in remark


def test_the_older_cub_is_refused_whatever_is_allowed(tmp_path):
    old = tmp_path / "CUB_200"
    makers.write_lines(old / "lists" / "files.txt", ["001.Black_footed_Albatross/x.jpg"])
    with pytest.raises(BadInput, match=r"CUB-200 of 2010 \(6,033 images\)"):
        data.create("cub", root=old, allow_incomplete=True)
    root, _ = makers.cub(tmp_path)
    makers.write_lines(root / "images.txt", [f"{i} 001.Black_footed_Albatross/{i}.jpg" for i in range(1, 6034)])
    with pytest.raises(BadInput, match="2010"):
        data.create("cub", root=root, allow_incomplete=True)


def test_lists_that_do_not_fit_are_refused(tmp_path):
    root, _ = makers.cub(tmp_path)
    labels = root / "image_class_labels.txt"
    makers.write_lines(labels, [*makers.CUB_LABELS[:-1], "8 2"])
    with pytest.raises(BadInput, match=r"disagrees with the folders for 1 image: the image 8 has the label 2 .*102\."):
        data.create("cub", root=root, allow_incomplete=True)
    (root / "attributes").mkdir()
    labels.rename(root / "attributes" / labels.name)
    with pytest.raises(BadInput, match=r"no image_class_labels.txt, which 'cub' needs. Found .*attributes.*move it"):
        data.create("cub", root=root)
    root, _ = makers.sop(tmp_path)
    makers.write_lines(root / "Ebay_test.txt", makers.SOP_TEST)
    with pytest.raises(BadInput, match="the header 'image_id"):
        data.create("sop", root=root)


def test_half_a_list_is_noticed(tmp_path):
    root, _ = makers.inshop(tmp_path)
    source = root / "Eval" / "list_eval_partition.txt"
    makers.write_lines(source, source.read_text().splitlines()[:-2])
    with pytest.raises(BadInput, match="declares 8 images in its first line but lists 6"):
        data.create("inshop", root=root)
    root, _ = makers.cub(tmp_path)
    makers.write_lines(root / "images.txt", [*makers.CUB_ROWS[:-1], "8"])
    with pytest.raises(BadInput, match="line 8: expected 2 columns"):
        data.create("cub", root=root)
    root, _ = makers.cars_one_archive(tmp_path / "cars")
    (root / "cars_annos.mat").write_bytes((root / "cars_annos.mat").read_bytes()[:300])
    with pytest.raises(BadInput, match=r"cars_annos.mat.* download complete"):
        data.create("cars", root=root)


def test_a_class_in_both_parts_is_refused_by_the_protocol(tmp_path):
    root, _ = makers.inshop(tmp_path)
    rows = [*makers.INSHOP_ROWS[:-1], makers.INSHOP_ROWS[-1].replace("gallery", "train  ")]
    makers.write_lines(root / "Eval" / "list_eval_partition.txt", ["8", makers.INSHOP_HEADER, *rows])
    for protocol in ("standard", "query-gallery"):
        with pytest.raises(BadInput, match="in the train part and in another part, such as 'id_00000007'"):
            protocols.create(protocol, data.create("inshop", root=root, allow_incomplete=True))


def test_drawings_of_two_characters_in_a_folder_and_strange_validation_classes_are_refused(tmp_path):
    root, _ = makers.omniglot(tmp_path / "omniglot")
    makers.picture(root / "images_background" / "Greek" / "character01" / "0400_03.png", 1, "1")
    with pytest.raises(BadInput, match="different characters"):
        data.create("omniglot", root=root)
    root, _ = makers.imagenet(tmp_path / "imagenet")
    makers.picture(root / "val" / "n09999999" / "x.JPEG", 1)
    with pytest.raises(BadInput, match=r"missing from the training split"):
        protocols.create("closed", data.create("imagenet", root=root, allow_incomplete=True))


def test_no_image_at_all_is_refused(tmp_path):
    root, _ = makers.cub(tmp_path)
    shutil.rmtree(root / "images")
    (root / "images").mkdir()
    with pytest.raises(BadInput, match="None of the 8 images"):
        data.create("cub", root=root, allow_incomplete=True)
