"""Read and check the options of `levelfield evaluate`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.cli.console import bar
from levelfield.cli.evaluate.arrays import read_array, read_labels
from levelfield.errors import BadInput
from levelfield.evaluation import Rates, Threshold, Unknowns, same_or_not, split
from levelfield.evaluation.inputs import check_dim
from levelfield.evaluation.metrics.geometry import refuse_undefined
from levelfield.evaluation.metrics.registry import parse_all
from levelfield.evaluation.search.distances import Distance, distance_called
from levelfield.methods.refine.choice import Refinement
from levelfield.studies.runs.finished import (
    PARTS,
    embed_part,
    how_many_bits,
    how_many_models,
    how_refined,
    refiner,
    stored_test,
)


@dataclass(frozen=True)
class Subject:
    """The embeddings to evaluate. `arrays` are the arguments of `evaluate`."""

    arrays: dict[str, Any]
    names: np.ndarray
    paths: list[str] | None = None
    refined: str = ""
    models: int = 1
    found: list[str] | None = None  # paths of the gallery
    bits: int | None = None  # per dimension, if the run declares it


def read_subject(
    run: Path | None,
    embeddings: Path | None,
    labels: Path | None,
    gallery: Path | None,
    gallery_labels: Path | None,
    query_ids: Path | None,
) -> Subject:
    if (run is None) == (embeddings is None and labels is None):
        raise BadInput("Give a run folder, or --embeddings with --labels.")
    if run is not None:
        if gallery or gallery_labels or query_ids:
            raise BadInput(
                "--gallery, --gallery-labels and --query-ids need --embeddings: a run defines which of its "
                "test images are searched."
            )
        rows, items = stored_test(run)
        shown = items.arrays(rows)
        paths = [path for path, asked in zip(items.paths, items.queries, strict=True) if asked]
        found = [path for path, asked in zip(items.paths, items.queries, strict=True) if not asked]
        made = (how_refined(run), how_many_models(run), found or paths, how_many_bits(run))
        return Subject(shown, shown["labels"], paths, *made)
    if embeddings is None or labels is None:
        raise BadInput("--embeddings and --labels must be given together: one label per row.")
    names = read_labels(labels)
    arrays: dict[str, Any] = {"embeddings": read_array(embeddings), "labels": names}
    if gallery is not None:
        arrays["gallery"] = read_array(gallery)
    if gallery_labels is not None:
        arrays["gallery_labels"] = read_labels(gallery_labels)
    if query_ids is not None:
        arrays["query_ids"] = read_labels(query_ids)
    return Subject(arrays, names)


def read_ways(run: Path | None, text: str, dims: bool, threshold: bool) -> list[Refinement]:
    """The refinements named by --refine; raises if they do not apply."""
    if run is None:
        raise BadInput("--refine needs a run folder: its trained network computes the messages.")
    if dims:
        raise BadInput("--refine and --dim cannot be combined: messages need whole embeddings.")
    if threshold:
        raise BadInput(
            "--refine and --threshold cannot be combined: the classes that choose the threshold are not refined."
        )
    return [Refinement.parse(each) for each in words("refine", text)]


def refined(run: Path, subject: Subject, ways: list[Refinement]) -> Iterator[Subject]:
    """The same images after each refinement of their stored rows."""
    if not ways:
        return
    objective = refiner(run).objective
    for way in ways:
        with bar(f"refining ({way.text})") as progress:
            rows = way(objective, subject.arrays["embeddings"], subject.arrays.get("gallery"), progress=progress)
        yield replace(subject, arrays={**subject.arrays, "embeddings": rows}, refined=way.text, bits=None)


def check(
    subject: Subject, settings: dict[str, Any], distances: Sequence[str], dims: list[int], nearest: int, by_query: bool
) -> None:
    """Refuse options that would otherwise fail only after long computation."""
    wanted = parse_all(settings["metrics"], k=settings["k"])
    for each in distances:
        refuse_undefined(wanted, each)
    if by_query and not any(metric.kind == "retrieval" for metric in wanted):
        raise BadInput(
            "None of these metrics has a value per query or class: --per-class and --per-query need a "
            "retrieval metric such as recall@1."
        )
    rows, gallery = subject.arrays["embeddings"], subject.arrays.get("gallery")
    if rows.ndim != 2 or (gallery is not None and gallery.ndim != 2):
        return  # `evaluate` refuses it before computing anything
    for each_dim in dims:
        check_dim(each_dim, rows.shape[1], "embeddings")
    most = len(rows) - 1 if gallery is None else len(gallery)
    if nearest and nearest > most:
        raise BadInput(f"--nearest {nearest}: there are only {most} other rows.")


def read_chooser(
    run: Path | None, choose_on: str, validation: Path | None, validation_labels: Path | None
) -> tuple[np.ndarray, np.ndarray]:
    """The embeddings and labels that choose the threshold."""
    if run is not None:
        if validation or validation_labels:
            raise BadInput("--validation and --validation-labels need --embeddings: a run embeds its own classes.")
        if choose_on not in PARTS:
            raise BadInput(f"--choose-on {choose_on}: must be {' or '.join(PARTS)}.")
        with bar("embedding") as progress:
            return embed_part(run, choose_on, progress=progress)
    if validation is None or validation_labels is None:
        raise BadInput(
            "--threshold needs --validation and --validation-labels: embeddings of classes that are not "
            "test classes, to choose the threshold on."
        )
    return read_array(validation), read_labels(validation_labels)


def decide(
    chooser: tuple[np.ndarray, np.ndarray],
    subject: Subject,
    rule: str | dict[str, float],
    distance: str,
    dim: int | None,
    ci: float | None,
    seed: int,
) -> tuple[Threshold, Rates, Unknowns]:
    with bar("choosing the threshold") as progress:
        chosen = same_or_not(*chooser, distance=distance, rule=rule, dim=dim, ci=ci, seed=seed, progress=progress)
    with bar("testing the threshold") as progress:
        rows, labels = subject.arrays["embeddings"], subject.names
        rates = chosen.rates(rows, labels, ci=ci, progress=progress)
    searched = {name: subject.arrays[name] for name in ("gallery", "gallery_labels") if name in subject.arrays}
    with bar("searching without the own class") as progress:
        return chosen, rates, chosen.unknowns(rows, labels, **searched, ci=ci, progress=progress)


def read_distances(distance: str | None, binary: bool) -> list[Distance]:
    named = [distance_called(word) for word in words("distance", distance)] if distance is not None else []
    if binary:
        named.append("hamming")
    return list(dict.fromkeys(named)) or ["cosine"]


def words(flag: str, text: str) -> list[str]:
    found = split(text)
    if not found:
        raise BadInput(f"--{flag} is empty" + ("; see `levelfield list metrics`." if flag == "metrics" else "."))
    return list(found)


def numbers(flag: str, text: str) -> list[int]:
    found = words(flag, text)
    if not all(word.isdecimal() and len(word) < 19 and int(word) > 0 for word in found):
        raise BadInput(f"--{flag} {text}: must be comma-separated positive integers, such as 1,10,100.")
    return [int(word) for word in found]
