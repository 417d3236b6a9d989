"""In-Shop Clothes Retrieval (DeepFashion): training images, and queries that are searched in a gallery."""

from __future__ import annotations

from levelfield.data._registry import DatasetFacts
from levelfield.data.official import ClassId, Listing, Row, official
from levelfield.data.roots import DatasetFolder
from levelfield.data.sources._tables import text_lines, text_rows, whole
from levelfield.errors import BadInput

_LIST = "list_eval_partition.txt"
_PARTS = ("train", "query", "gallery")


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
