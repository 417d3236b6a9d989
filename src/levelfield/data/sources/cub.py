"""CUB-200-2011: birds. Class ids 1 to 100 are for training, 101 to 200 for test (its split file is not used)."""

from __future__ import annotations

from levelfield.data._registry import DatasetFacts
from levelfield.data.official import ClassId, Listing, Row, official
from levelfield.data.roots import DatasetFolder
from levelfield.data.sources._tables import text_rows, whole
from levelfield.errors import BadInput
from levelfield.wording import plural

_LAST_TRAINING_CLASS = 100
_IMAGES_OF_2010 = 6_033

FACTS = DatasetFacts(
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


@official("cub", FACTS)
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
        f"({FACTS.images:,} images). {dataset.source}"
    )
