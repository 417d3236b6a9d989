"""Small copies of the benchmarks in their official layout. Lists begin with the official first rows, but for cars."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.io import savemat

from levelfield.data import DatasetFacts, describe

CUB_ROWS = [
    "1 001.Black_footed_Albatross/Black_Footed_Albatross_0046_18.jpg",
    "2 001.Black_footed_Albatross/Black_Footed_Albatross_0009_34.jpg",
    "3 002.Laysan_Albatross/Laysan_Albatross_0002_1027.jpg",
    "4 002.Laysan_Albatross/Laysan_Albatross_0003_1033.jpg",
    "5 101.White_Pelican/White_Pelican_0001_96422.jpg",
    "6 101.White_Pelican/White_Pelican_0003_97470.jpg",
    "7 102.Western_Wood_Pewee/Western_Wood_Pewee_0001_795045.jpg",
    "8 102.Western_Wood_Pewee/Western_Wood_Pewee_0002_98041.jpg",
]
CUB_LABELS = ["1 1", "2 1", "3 2", "4 2", "5 101", "6 101", "7 102", "8 102"]
CUB_CLASSES = ["1 001.Black_footed_Albatross", "2 002.Laysan_Albatross"]
CUB_CLASSES += ["101 101.White_Pelican", "102 102.Western_Wood_Pewee"]
CARS_TRAIN = [(1, 1, 9, 9, label, f"0000{k}.jpg") for k, label in enumerate((14, 3, 181, 99), start=1)]
CARS_TEST = [(1, 1, 9, 9, label, f"0000{k}.jpg") for k, label in enumerate((181, 14, 3, 99), start=1)]
CARS_ONE = [
    (f"car_ims/{first + test:06d}.jpg", 1, 1, 9, 9, label, test)
    for first, label in ((1, 1), (90, 2), (8055, 99), (16184, 196))
    for test in (0, 1)
]
SOP_HEADER = "image_id class_id super_class_id path"
SOP_TRAIN = [
    "1 1 1 bicycle_final/111085122871_0.JPG",
    "2 1 1 bicycle_final/111085122871_1.JPG",
    "3 1 1 bicycle_final/111085122871_2.JPG",
    "4 1 1 bicycle_final/111085122871_3.JPG",
    "5 2 1 bicycle_final/111265328556_0.JPG",
    "6 2 1 bicycle_final/111265328556_1.JPG",
]
SOP_TEST = [
    "59552 11319 1 bicycle_final/251952414262_0.JPG",
    "59553 11319 1 bicycle_final/251952414262_1.JPG",
    "59554 11320 12 toaster_final/371285188061_0.JPG",
    "59555 11320 12 toaster_final/371285188061_1.JPG",
]
INSHOP_HEADER = "image_name item_id evaluation_status"
INSHOP_ROWS = [
    "img/WOMEN/Dresses/id_00000002/02_1_front.jpg                               id_00000002 train     ",
    "img/WOMEN/Dresses/id_00000002/02_2_side.jpg                                id_00000002 train     ",
    "img/WOMEN/Tees_Tanks/id_00000003/01_1_front.jpg                            id_00000003 train     ",
    "img/WOMEN/Tees_Tanks/id_00000003/01_2_side.jpg                             id_00000003 train     ",
    "img/WOMEN/Blouses_Shirts/id_00000001/02_1_front.jpg                        id_00000001 query     ",
    "img/WOMEN/Blouses_Shirts/id_00000001/02_2_side.jpg                         id_00000001 gallery   ",
    "img/WOMEN/Tees_Tanks/id_00000007/01_1_front.jpg                            id_00000007 query     ",
    "img/WOMEN/Tees_Tanks/id_00000007/01_2_side.jpg                             id_00000007 gallery   ",
]


def small(name: str, parts: dict[str, tuple[int, int]], lines: dict[str, int] | None = None) -> DatasetFacts:
    """The facts of a benchmark with the numbers of its small copy."""
    return replace(describe(name), parts=parts, lines=lines or {})


def picture(path: Path, seed: int, mode: str = "RGB") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    Image.fromarray(noise).resize((24, 18), Image.Resampling.BICUBIC).convert(mode).save(path)


def write_lines(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def cub(top: Path) -> tuple[Path, DatasetFacts]:
    root = top / "CUB_200_2011"
    write_lines(root / "images.txt", CUB_ROWS)
    write_lines(root / "image_class_labels.txt", CUB_LABELS)
    write_lines(root / "classes.txt", CUB_CLASSES)
    write_lines(root / "train_test_split.txt", ["1 0", *(f"{i} 1" for i in range(2, 9))])
    for number, row in enumerate(CUB_ROWS):
        picture(root / "images" / row.split(" ")[1], number, "L" if number == 3 else "RGB")
    lines = {"images.txt": 8, "image_class_labels.txt": 8, "classes.txt": 4}
    return root, small("cub", {"train": (4, 2), "test": (4, 2)}, lines)


def cars_devkit(root: Path) -> tuple[Path, DatasetFacts]:
    fields = ["bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "fname"]
    (root / "devkit").mkdir(parents=True)
    savemat(root / "devkit" / "cars_meta.mat", {"class_names": _car_names()})
    savemat(root / "devkit" / "cars_train_annos.mat", {"annotations": _struct(fields, CARS_TRAIN)})
    savemat(root / "cars_test_annos_withlabels.mat", {"annotations": _struct(fields, CARS_TEST)})
    for folder, rows, first in (("cars_train", CARS_TRAIN, 0), ("cars_test", CARS_TEST, 50)):
        for number, row in enumerate(rows):
            picture(root / folder / row[-1], first + number)
    lines = {"cars_meta.mat": 196, "cars_train_annos.mat": 4, "cars_test_annos_withlabels.mat": 4}
    return root, small("cars", {"train": (4, 2), "test": (4, 2)}, lines)


def cars_one_archive(root: Path) -> tuple[Path, DatasetFacts]:
    fields = ["relative_im_path", "bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "test"]
    root.mkdir(parents=True)
    savemat(root / "cars_annos.mat", {"annotations": _struct(fields, CARS_ONE), "class_names": _car_names()})
    for number, row in enumerate(CARS_ONE):
        picture(root / row[0], number)
    return root, small("cars", {"train": (4, 2), "test": (4, 2)}, {"cars_annos.mat": 8})


def sop(top: Path, *, moved: bool = False) -> tuple[Path, DatasetFacts]:
    """moved: the lists in Info_Files, the images in images."""
    root = top / "Stanford_Online_Products"
    lists, images = (root / "Info_Files", root / "images") if moved else (root, root)
    write_lines(lists / "Ebay_train.txt", [SOP_HEADER, *SOP_TRAIN])
    write_lines(lists / "Ebay_test.txt", [SOP_HEADER, *SOP_TEST])
    for number, row in enumerate(SOP_TRAIN + SOP_TEST):
        path = images / row.split(" ")[3]
        picture(path.with_suffix(".jpg"), number)
        path.with_suffix(".jpg").rename(path)
    return root, small("sop", {"train": (6, 2), "test": (4, 2)}, {"Ebay_train.txt": 6, "Ebay_test.txt": 4})


def inshop(top: Path, *, images: str = "img") -> tuple[Path, DatasetFacts]:
    root = top / "In-shop Clothes Retrieval Benchmark"
    write_lines(root / "Eval" / "list_eval_partition.txt", ["8", INSHOP_HEADER, *INSHOP_ROWS])
    for number, row in enumerate(INSHOP_ROWS):
        picture(root / "Img" / row.split()[0].replace("img/", f"{images}/", 1), number)
    parts = {"train": (4, 2), "query": (2, 2), "gallery": (2, 2)}
    return root, small("inshop", parts, {"list_eval_partition.txt": 8})


def imagenet(root: Path, *, flat: bool = False) -> tuple[Path, DatasetFacts]:
    """flat: the validation images in one folder, with the devkit, whose numbers run against the synsets."""
    synsets = ["n01440764", "n01443537"]
    for number, synset in enumerate(synsets):
        for k in range(4):
            picture(root / "train" / synset / f"{synset}_{k}.JPEG", 10 * number + k)
    for k in range(1, 5):
        place = "" if flat else synsets[k % 2]
        picture(root / "val" / place / f"ILSVRC2012_val_{k:08d}.JPEG", 100 + k)
    if flat:
        data = root / "ILSVRC2012_devkit_t12" / "data"
        write_lines(data / "ILSVRC2012_validation_ground_truth.txt", ["1", "2", "1", "2"])
        rows = [(1, synsets[1], 0), (2, synsets[0], 0), (1001, "n00001740", 2)]
        savemat(data / "meta.mat", {"synsets": _struct(["ILSVRC2012_ID", "WNID", "num_children"], rows)})
    return root, small("imagenet", {"train": (8, 2), "test": (4, 2)}, {"meta.mat": 2})


def omniglot(root: Path) -> tuple[Path, DatasetFacts]:
    characters = [
        ("background", "Greek", "character01", 394),
        ("background", "Greek", "character02", 395),
        ("background", "N_Ko", "character01", 700),
        ("evaluation", "Malayalam", "character01", 1300),
        ("evaluation", "Malay_(Jawi_-_Arabic)", "character01", 1200),
        ("evaluation", "Malay_(Jawi_-_Arabic)", "character02", 1201),
    ]
    for part, alphabet, character, number in characters:
        for k in (1, 2):
            picture(root / f"images_{part}" / alphabet / character / f"{number:04d}_{k:02d}.png", 10 * number + k, "1")
    return root, small("omniglot", {"train": (6, 3), "test": (6, 3)})


def _struct(fields: list[str], rows: list[tuple]) -> np.ndarray:
    """A 1 x N struct array as MATLAB has it."""
    made = np.empty((1, len(rows)), dtype=[(field, object) for field in fields])
    for number, row in enumerate(rows):
        for field, value in zip(fields, row, strict=True):
            made[0, number][field] = np.uint8(value) if field == "class" else value
    return made


def _car_names() -> np.ndarray:
    names = [f"Car {number} 2012" for number in range(1, 197)]
    names[173] = "Ram C/V Cargo Van Minivan 2012"
    return np.array(names, dtype=object).reshape(1, -1)
