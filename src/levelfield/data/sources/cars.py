"""Cars196 (Stanford Cars), in both official forms. Class ids 1 to 98 are for training, 99 to 196 for test."""

from __future__ import annotations

from levelfield.data._registry import DatasetFacts
from levelfield.data.official import ClassId, Listing, Row, official
from levelfield.data.roots import DatasetFolder
from levelfield.data.sources._tables import matlab, matlab_values
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
