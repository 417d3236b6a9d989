"""Cars196 (Stanford Cars), in both official forms. Class ids 1 to 98 are for training, 99 to 196 for test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from levelfield.data._registry import DatasetFacts
from levelfield.data.official import ClassId, Listing, Row, official
from levelfield.data.roots import DatasetFolder
from levelfield.data.sources._tables import matlab, matlab_texts
from levelfield.errors import BadInput

_LAST_TRAINING_CLASS = 98
_LABELLED = "cars_test_annos_withlabels.mat"


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
    """The devkit form (cars_train, cars_test, devkit) or the single-archive form (car_ims, cars_annos.mat)."""
    if dataset.find("devkit/cars_train_annos.mat") is not None:
        return _devkit(dataset)
    file = dataset.find("cars_annos.mat")
    if file is None:
        raise BadInput(
            f"{dataset.root} has neither devkit/cars_train_annos.mat nor cars_annos.mat, the two official forms "
            f"of 'cars'. {dataset.source}"
        )
    # fields are read by name: `class` is the sixth here and the fifth in the devkit
    images, names = dataset.need("car_ims"), _names(file)
    entries = matlab(file, "annotations", ("relative_im_path", "class"))
    rows = [_row(file, images.parent / str(entry["relative_im_path"]), entry, names) for entry in entries]
    return Listing(rows, names, (images,), {file: len(entries)})


def _devkit(dataset: DatasetFolder) -> Listing:
    """Both folders together, because each official half contains every class. File names repeat in the two folders."""
    meta, training = dataset.need("devkit/cars_meta.mat"), dataset.need("devkit/cars_train_annos.mat")
    testing = dataset.find(_LABELLED, f"devkit/{_LABELLED}")
    if testing is None:
        raise BadInput(
            f"{dataset.root} has no {_LABELLED} (beside the devkit or in it), and cars_test_annos.mat has no classes. "
            f"{dataset.source}"
        )
    names = _names(meta)
    rows, lines, folders = [], {meta: len(names)}, []
    for file, images in ((training, dataset.need("cars_train")), (testing, dataset.need("cars_test"))):
        entries = matlab(file, "annotations", ("fname", "class"))
        rows += [_row(file, images / str(entry["fname"]), entry, names) for entry in entries]
        lines[file] = len(entries)
        folders.append(images)
    return Listing(rows, names, tuple(folders), lines)


def _names(file: Path) -> dict[ClassId, str]:
    """Class names in the order of the ids, which is not alphabetical."""
    return dict(enumerate(matlab_texts(file, "class_names"), start=1))


def _row(source: Path, image: Path, entry: dict[str, Any], names: dict[ClassId, str]) -> Row:
    label = int(entry["class"])  # stored as uint8, which would wrap around
    if label not in names:
        raise BadInput(f"{source}: {image.name} has the class {label}; there are {len(names)} class names.")
    return Row(image, label, "train" if label <= _LAST_TRAINING_CLASS else "test")
