"""Benchmarks whose official lists are MATLAB files.

Cars196 (Stanford Cars), in both official forms; class ids 1 to 98 are for training, 99 to 196 for test. ImageNet
(ILSVRC 2012): the same 1,000 classes in the training and the validation images; its protocol is `closed`.
"""

from __future__ import annotations

import re
from pathlib import Path

from levelfield.data._registry import DatasetFacts
from levelfield.data.images import images_below, is_image
from levelfield.data.official import ClassId, DatasetFolder, Listing, Row, official
from levelfield.data.sources._tables import matlab, matlab_values, text_rows, whole
from levelfield.errors import BadInput

_LAST_TRAINING_CLASS = 98
_LABELLED = "cars_test_annos_withlabels.mat"
_TRUTH = "ILSVRC2012_validation_ground_truth.txt"
_DEVKIT = "ILSVRC2012_devkit_t12"
_SYNSET = re.compile(r"n[0-9]{8}")


@official(
    "cars",
    DatasetFacts(
        what="cars (Stanford Cars, Cars196)",
        needs="root",
        images=16_185,
        classes=196,
        licence="non-commercial research",
        page="https://ai.stanford.edu/~jkrause/cars/car_dataset.html",
        parts={"train": (8_054, 98), "test": (8_131, 98)},
        lines={"cars_meta.mat": 196, "cars_train_annos.mat": 8_144, _LABELLED: 8_041, "cars_annos.mat": 16_185},
        folders=("stanford_cars", "cars196", "cars"),
        archives=("car_devkit.tgz", "cars_train.tgz", "cars_test.tgz", "car_ims.tgz", "cars.zip", "stanford_cars.zip"),
        md5={
            "cars_meta.mat": "4591ba8ddb31503892280ed8c6ed1c16",
            "cars_train_annos.mat": "7b154abe023e6274e597db035347ff56",
            _LABELLED: "b0a2b23655a3edd16d84508592a98d10",
        },
    ),
)
def cars(dataset: DatasetFolder) -> Listing:
    """The devkit form (cars_train, cars_test, devkit) or the single-archive form (car_ims, cars_annos.mat).

    Both folders of the devkit together, because each contains every class; file names repeat in them.
    """
    if (training := dataset.find("devkit/cars_train_annos.mat")) is not None:
        source, testing = dataset.need("devkit/cars_meta.mat"), dataset.find(_LABELLED, f"devkit/{_LABELLED}")
        if testing is None:
            raise BadInput(
                f"{dataset.root} has no {_LABELLED} (beside the devkit or in it), and cars_test_annos.mat has no "
                f"classes. {dataset.source}"
            )
        folders = [dataset.need("cars_train"), dataset.need("cars_test")]
        name, parts = "fname", dict(zip((training, testing), folders, strict=True))
    elif (match := dataset.find("cars_annos.mat")) is not None:
        source, folders = match, [dataset.need("car_ims")]
        name, parts = "relative_im_path", {match: folders[0].parent}
    else:
        raise BadInput(
            f"{dataset.root} has neither devkit/cars_train_annos.mat nor cars_annos.mat, the two official forms "
            f"of 'cars'. {dataset.source}"
        )
    # the order of the ids is not alphabetical
    names: dict[ClassId, str] = dict(enumerate(map(str, matlab_values(source, "class_names")), start=1))
    rows, lines = [], {source: len(names)}
    for file, folder in parts.items():
        # fields are read by name: `class` is the fifth in the devkit and the sixth in the other form
        entries = matlab(file, "annotations", (name, "class"))
        lines[file] = len(entries)
        for entry in entries:
            image, label = folder / str(entry[name]), int(entry["class"])  # stored as uint8, which would wrap around
            if label not in names:
                raise BadInput(f"{file}: {image.name} has the class {label}; there are {len(names)} class names.")
            rows.append(Row(image, label, "train" if label <= _LAST_TRAINING_CLASS else "test"))
    return Listing(rows, names, tuple(folders), lines)


@official(
    "imagenet",
    DatasetFacts(
        what="1,000 object categories (ImageNet, ILSVRC 2012); needs `protocol: closed`",
        needs="root",
        images=1_331_167,
        classes=1_000,
        licence="non-commercial research; registration required",
        page="https://www.image-net.org/challenges/LSVRC/2012/",
        parts={"train": (1_281_167, 1_000), "test": (50_000, 1_000)},
        lines={_TRUTH: 50_000, "meta.mat": 1_000},
        folders=("imagenet", "ILSVRC2012", "ImageNet"),
        archives=(f"{_DEVKIT}.tar.gz",),
    ),
)
def imagenet(dataset: DatasetFolder) -> Listing:
    """`train/n01440764/...`, and `val` in such folders too, or flat with the devkit. Classes in order of synset.

    The devkit's numbers 1 to 1000 have a different order and are not used as labels.
    """
    train = dataset.find("train") or dataset.archive("ILSVRC2012_img_train.tar") or dataset.need("train")
    validation = dataset.find("val") or dataset.archive("ILSVRC2012_img_val.tar") or dataset.need("val")
    rows = _by_folder(train, "train")
    flat = sorted(file for file in validation.iterdir() if file.is_file() and is_image(file))
    lines: dict[Path, int] = {}
    if flat:
        truth = dataset.need(f"{_DEVKIT}/data/{_TRUTH}", f"data/{_TRUTH}", _TRUTH)
        meta = dataset.need(f"{_DEVKIT}/data/meta.mat", "data/meta.mat", "meta.mat")
        entries = matlab(meta, "synsets", ("ILSVRC2012_ID", "WNID", "num_children"))
        leaves = [entry for entry in entries if int(entry["num_children"]) == 0]  # others are above them in the tree
        synsets = {int(entry["ILSVRC2012_ID"]): str(entry["WNID"]) for entry in leaves}
        numbers = [whole(truth, row[0]) for row in text_rows(truth, 1)]
        for file in flat:  # ILSVRC2012_val_00000001.JPEG is the first row: a missing file shifts nothing
            position = int("".join(re.findall(r"[0-9]+$", file.stem)) or 0)
            if not 1 <= position <= len(numbers):
                raise BadInput(f"{file} has no row in {truth}, which has {len(numbers):,}.")
            rows.append(Row(file, synsets[numbers[position - 1]], "test"))
        lines = {truth: len(numbers), meta: len(synsets)}
    else:
        rows += _by_folder(validation, "test")
    names: dict[ClassId, str] = {synset: str(synset) for synset in sorted({str(row.class_id) for row in rows})}
    return Listing(rows, names, (train, validation), lines)


def _by_folder(top: Path, part: str) -> list[Row]:
    folders = sorted(entry for entry in top.iterdir() if entry.is_dir() and _SYNSET.fullmatch(entry.name))
    if not folders:
        raise BadInput(f"{top} has no folders named by synset, such as n01440764.")
    return [Row(file, folder.name, part) for folder in folders for file in images_below(folder)]
