"""Benchmarks whose official lists are text files.

CUB-200-2011: birds; class ids 1 to 100 are for training, 101 to 200 for test (its split file is not used). Stanford
Online Products: the two lists are the split. In-Shop Clothes Retrieval (DeepFashion): training images, and queries that
are searched in a gallery.
"""

from __future__ import annotations

from levelfield.data._registry import DatasetFacts
from levelfield.data.official import ClassId, DatasetFolder, Listing, Row, official
from levelfield.data.sources._tables import text_lines, text_rows, whole
from levelfield.errors import BadInput
from levelfield.wording import plural

_LAST_TRAINING_CLASS = 100
_IMAGES_OF_2010 = 6_033
_LIST = "list_eval_partition.txt"
_PARTS = ("train", "query", "gallery")

CUB = DatasetFacts(
    what="birds (Caltech-UCSD Birds-200-2011)",
    needs="root",
    images=11_788,
    classes=200,
    licence="non-commercial research and education; photographs belong to their owners",
    page="https://www.vision.caltech.edu/datasets/cub_200_2011/",
    parts={"train": (5_864, 100), "test": (5_924, 100)},
    lines={"images.txt": 11_788, "image_class_labels.txt": 11_788, "classes.txt": 200},
    folders=("CUB_200_2011", "cub"),
    archives=("CUB_200_2011.tgz", "CUB_200_2011.zip", "CUB_200_2011.tar.gz"),
    md5={
        "images.txt": "619b5c21b05008767b6d09160bdfba38",
        "image_class_labels.txt": "3d8c4b071f61d8491ca681918115d7f1",
        "classes.txt": "5030a19bb88899c92f2c00787283c2ab",
    },
)


@official("cub", CUB)
def cub(dataset: DatasetFolder) -> Listing:
    """Images in the order of `images.txt`, which is not alphabetical within a class."""
    if dataset.find("images.txt") is None and dataset.find("lists/files.txt", "annotations-mat") is not None:
        raise _of_2010(dataset)
    listed, labelled = dataset.need("images.txt"), dataset.need("image_class_labels.txt")
    named, images = dataset.need("classes.txt"), dataset.need("images")
    files = {whole(listed, number): path for number, path in text_rows(listed, 2, last_takes_rest=True)}
    if len(files) == _IMAGES_OF_2010:
        raise _of_2010(dataset)
    labels = {whole(labelled, number): whole(labelled, label) for number, label in text_rows(labelled, 2)}
    names: dict[ClassId, str] = {whole(named, number): name for number, name in text_rows(named, 2)}
    if files.keys() != labels.keys():
        odd = min(files.keys() ^ labels.keys())
        raise BadInput(
            f"{listed} has {len(files):,} images and {labelled} {len(labels):,}: the image {odd} is in only "
            f"one of them. {dataset.source}"
        )
    # a folder `NNN.Name` holds the images of class NNN; otherwise two copies were mixed up
    wrong = [number for number, path in files.items() if path.partition("/")[0] != names.get(labels[number])]
    if wrong:
        first, label = wrong[0], labels[wrong[0]]
        raise BadInput(
            f"{labelled} disagrees with the folders for {plural(len(wrong), 'image', 'images')}: the image {first} has "
            f"the label {label} ({names.get(label, 'no such class')}) and is in {files[first].partition('/')[0]}."
        )
    rows = [
        Row(images / path, labels[number], "train" if labels[number] <= _LAST_TRAINING_CLASS else "test")
        for number, path in files.items()
    ]
    lines = {listed: len(files), labelled: len(labels), named: len(names)}
    return Listing(rows, dict(sorted(names.items())), (images,), lines)


def _of_2010(dataset: DatasetFolder) -> BadInput:
    return BadInput(
        f"{dataset.root} is the older CUB-200 of 2010 ({_IMAGES_OF_2010:,} images). CUB-200-2011 is needed "
        f"({CUB.images:,} images). {dataset.source}"
    )


@official(
    "sop",
    DatasetFacts(
        what="products for sale, 2 to 12 photographs each (Stanford Online Products)",
        needs="root",
        images=120_053,
        classes=22_634,
        licence="see LICENSE in the archive",
        page="https://cvgl.stanford.edu/projects/lifted_struct/",
        parts={"train": (59_551, 11_318), "test": (60_502, 11_316)},
        lines={"Ebay_train.txt": 59_551, "Ebay_test.txt": 60_502},
        folders=("Stanford_Online_Products", "sop"),
        archives=("Stanford_Online_Products.zip",),
    ),
)
def sop(dataset: DatasetFolder) -> Listing:
    """Lists beside the twelve category folders, or in `Info_Files` with the images in `images`."""
    rows: list[Row] = []
    lines = {}
    names: dict[ClassId, str] = {}
    for part in ("train", "test"):
        source = dataset.need(f"Ebay_{part}.txt", f"Info_Files/Ebay_{part}.txt")
        base = source.parent.parent if source.parent.name == "Info_Files" else source.parent
        base = base / "images" if (base / "images").is_dir() else base
        entries = text_rows(source, 4, skip=1, header="image_id class_id super_class_id path")
        for _, number, _, path in entries:
            class_id = whole(source, number)
            names.setdefault(class_id, path.rpartition("_")[0].replace("_final/", " "))
            rows.append(Row(base / path, class_id, part))
        lines[source] = len(entries)
    folders = tuple(sorted(folder for folder in {row.file.parent for row in rows} if folder.is_dir()))
    return Listing(rows, dict(sorted(names.items())), folders, lines)


@official(
    "inshop",
    DatasetFacts(
        what="clothes, queries against a gallery (DeepFashion In-Shop)",
        needs="root",
        images=52_712,
        classes=7_982,
        licence="non-commercial research; the authors require an agreement",
        page="https://mmlab.ie.cuhk.edu.hk/projects/DeepFashion/InShopRetrieval.html",
        parts={"train": (25_882, 3_997), "query": (14_218, 3_985), "gallery": (12_612, 3_985)},
        lines={_LIST: 52_712},
        folders=("In-shop Clothes Retrieval Benchmark", "inshop"),
        archives=("Img/img.zip", "img.zip", "Img/img_highres.zip", "img_highres.zip"),
    ),
)
def inshop(dataset: DatasetFolder) -> Listing:
    """The class is the column `item_id`, in the order of its number; the path is not used."""
    source = dataset.need(f"Eval/{_LIST}", f"Anno/{_LIST}", _LIST)
    entries = text_rows(source, 3, skip=2, header="image_name item_id evaluation_status")  # padded with spaces
    declared = text_lines(source)[0].strip()
    if whole(source, declared) != len(entries):
        count = f"declares {declared} images in its first line but lists {len(entries):,}"
        raise BadInput(f"{source} {count}. Is the download complete?")
    small = dataset.find("Img/img", "img")
    images = small or dataset.find("Img/img_highres", "img_highres")
    if images is None:
        raise BadInput(f"{dataset.root} has no Img/img (from img.zip) with the images of 'inshop'. {dataset.source}")
    large = "Using the large images (img_highres); the official results are for img.zip."
    rows = []
    for number, (path, item, part) in enumerate(entries, start=3):
        if part not in _PARTS:
            known = ", ".join(_PARTS)
            raise BadInput(f"{source}, line {number}: unknown evaluation_status '{part}'; valid values are {known}.")
        rows.append(Row(images / path.removeprefix("img/"), item, part))
    names: dict[ClassId, str] = {item: item for item in sorted({item for _, item, _ in entries})}
    return Listing(rows, names, (images,), {source: len(entries)}, notes=() if small else (large,))
