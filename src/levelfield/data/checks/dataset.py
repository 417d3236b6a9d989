"""What a dataset is: a quick survey without decoding, enough to propose a study; and a comparison with its official
release by counts, split, annotation files, every image and duplicates."""

from __future__ import annotations

import hashlib
import statistics
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from levelfield.data import official
from levelfield.data._registry import DatasetFacts, create, names
from levelfield.data.catalog import Catalog
from levelfield.data.checks.readable import unreadable
from levelfield.data.images import open_image
from levelfield.errors import LevelfieldError, unknown
from levelfield.progress import SILENT, Progress
from levelfield.wording import MAX_LISTED, first_few, plural


@dataclass(frozen=True)
class CatalogFacts:
    """Facts about a catalog. Triples are (smallest, median, largest).

    per_class: images. shorter_side: in pixels, of a sample of images; None if none is readable.
    """

    images: int
    classes: int
    per_class: tuple[int, float, int]
    shorter_side: tuple[int, float, int] | None

    def __str__(self) -> str:
        low, middle, high = self.per_class
        text = f"{self.images:,} images of {self.classes:,} classes, {low} to {high} each (median {middle:g})"
        if self.shorter_side is None:
            return text
        small, usual, large = self.shorter_side
        return f"{text}; shorter side {small} to {large} px, usually {usual:g}"


def survey(catalog: Catalog, *, sample: int = 64) -> CatalogFacts:
    """The facts about a catalog. Image sizes come from the headers of `sample` images spread over it."""
    sizes = catalog.class_sizes
    positions = np.unique(np.linspace(0, len(catalog) - 1, num=min(sample, len(catalog)), dtype=int))
    sides = []
    for position in positions:
        # `check_images` reports images that cannot be read
        with suppress(LevelfieldError), open_image(path := catalog.paths[position], str(path)) as image:
            sides.append(min(image.size))
    return CatalogFacts(
        images=len(catalog),
        classes=catalog.num_classes,
        per_class=(int(sizes.min()), float(np.median(sizes)), int(sizes.max())),
        shorter_side=(min(sides), statistics.median(sides), max(sides)) if sides else None,
    )


@dataclass(frozen=True)
class Finding:
    """One sentence and its severity: with a `problem` the dataset is not the official one."""

    weight: Literal["good", "remark", "problem"]
    text: str


def verify(
    name: str, root: Path | str | None = None, *, facts: DatasetFacts | None = None, progress: Progress = SILENT
) -> list[Finding]:
    """All findings about the dataset `name` below `root`.

    Also works for `folder` and `csv`, which have no official counts. facts: replace the official counts.
    """
    if name not in names():
        raise unknown("dataset", name, names(), see="levelfield datasets")
    if name in official.names():
        reading = official.read(name, root, facts=facts)
        catalog, findings = reading.catalog, _numbers(reading)
    else:
        catalog = create(name, **({} if root is None else {"path": root}))
        findings = [Finding("good", f"{len(catalog):,} images of {catalog.num_classes:,} classes.")]
        findings += [Finding("remark", note) for note in catalog.notes]
    broken = unreadable(catalog.paths, progress=progress)
    if not broken:
        findings.append(Finding("good", f"All {len(catalog):,} images can be read."))
    findings += [Finding("problem", str(error)) for error in list(broken.values())[:MAX_LISTED]]
    if len(broken) > MAX_LISTED:
        more = plural(len(broken) - MAX_LISTED, "more image", "more images")
        findings.append(Finding("problem", f"{more} cannot be read."))
    return [*findings, _duplicates(catalog.subset([i for i in range(len(catalog)) if i not in broken]))]


def _numbers(reading: official.Reading) -> list[Finding]:
    facts = reading.dataset.facts
    findings = [Finding("problem", f"{problem}.") for problem in reading.problems]
    if findings:
        findings.append(Finding("remark", f"Get what is missing from the official page: {facts.page}"))
    else:
        parts = [f"{part} {images:,} images of {classes:,} classes" for part, (images, classes) in facts.parts.items()]
        findings.append(Finding("good", f"Matches the official numbers: {'; '.join(parts)}."))
    findings += [Finding("remark", remark) for remark in reading.remarks]
    for file in reading.annotations:
        if file.name in facts.md5:
            same = hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest() == facts.md5[file.name]
            text = "is identical to the official file." if same else "is not the official file (its md5 differs)."
            findings.append(Finding("good" if same else "remark", f"{file.name} {text}"))
    return findings


def _duplicates(catalog: Catalog) -> Finding:
    """Duplicate files; under two classes they make a perfect score impossible."""
    copies: dict[str, list[int]] = defaultdict(list)
    for index, digest in enumerate(catalog.digests):
        copies[digest].append(index)
    several = [group for group in copies.values() if len(group) > 1]
    if not several:
        return Finding("good", "No duplicate files.")
    mixed = sum(len({int(catalog.labels[i]) for i in group}) > 1 for group in several)
    named = first_few([" = ".join(str(catalog.paths[i]) for i in group[:2]) for group in several])
    number = plural(len(several), "image is", "images are")
    return Finding("remark", f"{number} duplicated, {mixed:,} of them under different classes: {named}.")
