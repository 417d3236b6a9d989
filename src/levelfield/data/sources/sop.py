"""Stanford Online Products. The two lists are the split."""

from __future__ import annotations

from levelfield.data._registry import DatasetFacts
from levelfield.data.official import ClassId, Listing, Row, official
from levelfield.data.roots import DatasetFolder
from levelfield.data.sources._tables import text_rows, whole


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
