"""Compare a dataset with its official release: counts, split, annotation files, every image, duplicates."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from levelfield.data import official
from levelfield.data._registry import DatasetFacts, create, names
from levelfield.data.catalog import Catalog
from levelfield.data.checks.readable import unreadable
from levelfield.errors import unknown
from levelfield.progress import SILENT, Progress
from levelfield.wording import FEW, first_few, plural


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
    findings += [Finding("problem", str(error)) for error in list(broken.values())[:FEW]]
    if len(broken) > FEW:
        more = plural(len(broken) - FEW, "more image", "more images")
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
