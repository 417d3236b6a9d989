"""`levelfield evaluate`: measure a run's stored test embeddings, or anybody's arrays. Nothing is trained."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from levelfield.cli import corrupted
from levelfield.cli.arrays import read_array, read_labels
from levelfield.cli.console import bar, warnings_as_notes
from levelfield.cli.evaluated import Evaluated, show
from levelfield.cli.evaluated_files import as_data, write_neighbours, write_per_class, write_per_query
from levelfield.cli.options import ImagesOption, MaybeRunArgument, TrustOption
from levelfield.errors import BadInput, unknown
from levelfield.evaluation import Rates, Threshold, evaluate, same_or_not, split
from levelfield.evaluation.inputs import check_dim
from levelfield.evaluation.metrics.geometry import refuse_undefined
from levelfield.evaluation.metrics.registry import parse_all
from levelfield.evaluation.search.distances import DISTANCES
from levelfield.files import write_text
from levelfield.methods.refine.choice import Refinement
from levelfield.registry import references_in
from levelfield.studies.runs.finished import (
    PARTS,
    embed_part,
    how_many_bits,
    how_many_models,
    how_refined,
    refiner,
    stored_test,
)
from levelfield.studies.specification.locations import images_in
from levelfield.trust import trust


def add_to(app: typer.Typer) -> None:
    app.command(
        "evaluate", epilog="Example: levelfield evaluate --embeddings e.npy --labels y.npy --metrics recall@1,map@r"
    )(measure)
    corrupted.add_to(app)


def _option(panel: str, flag: str, text: str, **more: Any) -> Any:
    return typer.Option(flag, help=text, rich_help_panel=panel, **more)


_INPUT, _HOW, _SAME, _OUTPUT = "Of arrays", "How it is measured", "Same or not", "What comes out"


def measure(
    run: MaybeRunArgument = None,
    embeddings: Annotated[Path | None, _option(_INPUT, "--embeddings", "A .npy file, one row per image.")] = None,
    labels: Annotated[
        Path | None, _option(_INPUT, "--labels", "One per row, numbers or text (.npy, .txt, .csv).")
    ] = None,
    gallery: Annotated[Path | None, _option(_INPUT, "--gallery", "Search these rows (.npy) instead.")] = None,
    gallery_labels: Annotated[Path | None, _option(_INPUT, "--gallery-labels", "One label per gallery row.")] = None,
    query_ids: Annotated[
        Path | None, _option(_INPUT, "--query-ids", "Gallery row that is query i itself; -1: none.")
    ] = None,
    metrics: Annotated[
        str | None, _option(_HOW, "--metrics", "With commas between (levelfield list metrics); else the usual ones.")
    ] = None,
    k: Annotated[str, _option(_HOW, "--k", "What a bare recall or precision stands for.")] = "1,2,4,8",
    distance: Annotated[
        str | None, _option(_HOW, "--distance", "cosine (if left out), euclidean, dot, hamming; several: a row each.")
    ] = None,
    binary: Annotated[bool, _option(_HOW, "--binary", "One bit per number: short for hamming.")] = False,
    dim: Annotated[str | None, _option(_HOW, "--dim", "The first columns only; several (32,64): a row each.")] = None,
    refine: Annotated[
        str | None,
        _option(
            _HOW,
            "--refine",
            "Also after messages among test images: reciprocal, kmeans:clusters=90; several: a "
            "row each. Needs a run of message_passing.",
        ),
    ] = None,
    average: Annotated[str, _option(_HOW, "--average", "Mean over queries, or over classes: query, class.")] = "query",
    ties: Annotated[str, _option(_HOW, "--ties", "expected, pessimistic or optimistic.")] = "expected",
    lone: Annotated[
        str | None,
        _option(
            _HOW,
            "--lone",
            "Queries with no other image of their class: exclude, or miss (the default for runs with a gallery).",
        ),
    ] = None,
    starts: Annotated[int, _option(_HOW, "--starts", "k-means starts of nmi, ami, ari, f1.", min=1, max=10_000)] = 3,
    ci: Annotated[float, _option(_HOW, "--ci", "Level of the intervals; 0: none.")] = 0.95,
    seed: Annotated[int, _option(_HOW, "--seed", "Of intervals and k-means.")] = 0,
    memory: Annotated[str, _option(_HOW, "--memory", "What the search may take.")] = "2GB",
    corrupt: Annotated[
        str | None, _option(_HOW, "--corrupt", "On corrupted test images: all, or names (levelfield list corruptions).")
    ] = None,
    threshold: Annotated[
        bool, _option(_SAME, "--threshold", "Choose a similarity threshold for 'same class'.")
    ] = False,
    rule: Annotated[str, _option(_SAME, "--rule", "equal_error or balanced.")] = "equal_error",
    false_match: Annotated[
        float | None, _option(_SAME, "--false-match", "Instead: at most this rate of false matches, as 0.01.")
    ] = None,
    choose_on: Annotated[
        str, _option(_SAME, "--choose-on", "Which classes of a run choose: validation or training.")
    ] = "validation",
    validation: Annotated[
        Path | None, _option(_SAME, "--validation", "Without a run: embeddings (.npy) that choose.")
    ] = None,
    validation_labels: Annotated[Path | None, _option(_SAME, "--validation-labels", "Their labels.")] = None,
    per_class: Annotated[Path | None, _option(_OUTPUT, "--per-class", "Write each class's mean (CSV).")] = None,
    per_query: Annotated[Path | None, _option(_OUTPUT, "--per-query", "Write each query's values (CSV).")] = None,
    neighbours: Annotated[
        Path | None, _option(_OUTPUT, "--neighbours", "Write each query's nearest rows (CSV).")
    ] = None,
    nearest: Annotated[int, _option(_OUTPUT, "--nearest", "How many of them.", min=1)] = 10,
    out: Annotated[Path | None, _option(_OUTPUT, "--out", "Write what --json prints.")] = None,
    signatures: Annotated[bool, _option(_OUTPUT, "--signatures", "Show how each figure was made.")] = False,
    as_json: Annotated[bool, _option(_OUTPUT, "--json", "Print JSON, signatures included.")] = False,
    root: ImagesOption = None,
    trust_files: TrustOption = None,
) -> None:
    """Measure a run's stored test embeddings, or anybody's arrays."""
    subject = _subject(run, embeddings, labels, gallery, gallery_labels, query_ids)
    settings: dict[str, Any] = {
        "metrics": None if metrics is None else _words("metrics", metrics),
        "k": _numbers("k", k),
        "average": average,
        "ties": ties,
        "starts": starts,
        "ci": ci or None,
        "seed": seed,
        "memory": memory,
        **({} if lone is None else {"lone": lone}),
    }
    trust(*references_in(settings["metrics"]))
    distances, dims = _distances(distance, binary), _numbers("dim", dim) if dim else []
    _check(subject, settings, distances, dims, nearest if neighbours else 0, bool(per_class or per_query))
    wants_threshold = threshold or false_match is not None
    if corrupt is not None:
        unfit = {
            "--refine": refine is not None,
            "--threshold": wants_threshold,
            "--per-class": per_class is not None,
            "--per-query": per_query is not None,
            "--neighbours": neighbours is not None,
        }
        with images_in(root):
            corrupted.measure(
                run, corrupt, settings, distances, dims, out=out, as_json=as_json, signatures=signatures, unfit=unfit
            )
        return
    ways = [] if refine is None else _ways(run, refine, bool(dims), wants_threshold)
    subjects = [subject] if run is None else [subject, *_refined(run, subject, ways)]
    with images_in(root):
        chooser = _chooser(run, choose_on, validation, validation_labels) if wants_threshold else None
    goal: str | dict[str, float] = rule if false_match is None else {"false_match": false_match}
    found = []
    warned: set[str] = set()
    cuts: list[int | None] = [*dims] or [None]
    for some, each, columns in product(subjects, distances, cuts):
        told = f"measuring ({each})" if columns is None else f"measuring ({each}, dim {columns})"
        with bar(told) as progress, warnings_as_notes(warned):
            result = evaluate(**{**some.arrays, **settings}, dim=columns, distance=each, progress=progress)
        decided = None if chooser is None else _decide(chooser, some, goal, each, columns, ci or None, seed)
        chosen_on = choose_on if run else "validation"
        found.append(Evaluated(result, each, some.refined, decided, chosen_on, some.models, some.bits))
    data = [as_data(one) for one in found]
    text = json.dumps(data[0] if len(data) == 1 else data, indent=2, allow_nan=False)
    if out is not None:
        write_text(out, text + "\n")
    if per_class is not None:
        write_per_class(per_class, found)
    if per_query is not None:
        write_per_query(per_query, found, subject.names, subject.paths)
    if neighbours is not None:
        theirs = subject.arrays.get("gallery_labels", subject.names)
        write_neighbours(neighbours, found, nearest, subject.names, theirs, subject.paths, subject.found)
    if as_json:
        typer.echo(text)
    else:
        show(found, signatures=signatures)


@dataclass(frozen=True)
class _Subject:
    """What is measured. `arrays` are the arguments of `evaluate`."""

    arrays: dict[str, Any]
    names: np.ndarray
    paths: list[str] | None = None
    refined: str = ""
    models: int = 1
    found: list[str] | None = None  # paths of what is looked through
    bits: int | None = None  # of one number, where a run says so


def _subject(
    run: Path | None,
    embeddings: Path | None,
    labels: Path | None,
    gallery: Path | None,
    gallery_labels: Path | None,
    query_ids: Path | None,
) -> _Subject:
    if (run is None) == (embeddings is None and labels is None):
        raise BadInput("Give a run folder, or --embeddings with --labels.")
    if run is not None:
        if gallery or gallery_labels or query_ids:
            raise BadInput(
                "--gallery, --gallery-labels and --query-ids go with --embeddings: a run knows which of its "
                "test images are searched."
            )
        rows, items = stored_test(run)
        shown = items.arrays(rows)
        paths = [path for path, asked in zip(items.paths, items.queries, strict=True) if asked]
        found = [path for path, asked in zip(items.paths, items.queries, strict=True) if not asked]
        made = (how_refined(run), how_many_models(run), found or paths, how_many_bits(run))
        return _Subject(shown, shown["labels"], paths, *made)
    if embeddings is None or labels is None:
        raise BadInput("--embeddings and --labels belong together: one label per row.")
    names = read_labels(labels)
    arrays: dict[str, Any] = {"embeddings": read_array(embeddings), "labels": names}
    if gallery is not None:
        arrays["gallery"] = read_array(gallery)
    if gallery_labels is not None:
        arrays["gallery_labels"] = read_labels(gallery_labels)
    if query_ids is not None:
        arrays["query_ids"] = read_labels(query_ids)
    return _Subject(arrays, names)


def _ways(run: Path | None, text: str, dims: bool, threshold: bool) -> list[Refinement]:
    """What --refine names; refused where it means nothing."""
    if run is None:
        raise BadInput("--refine needs a run folder: the messages are those of its trained network.")
    if dims:
        raise BadInput("--refine and --dim do not go together: messages are made of whole embeddings.")
    if threshold:
        raise BadInput("--refine and --threshold do not go together: the classes that choose it are not refined.")
    return [Refinement.parse(each) for each in _words("refine", text)]


def _refined(run: Path, subject: _Subject, ways: list[Refinement]) -> Iterator[_Subject]:
    """The same images after each way to refine their stored rows."""
    if not ways:
        return
    objective = refiner(run).objective
    for way in ways:
        with bar(f"refining ({way.text})") as progress:
            rows = way(objective, subject.arrays["embeddings"], subject.arrays.get("gallery"), progress=progress)
        yield replace(subject, arrays={**subject.arrays, "embeddings": rows}, refined=way.text, bits=None)


def _check(
    subject: _Subject, settings: dict[str, Any], distances: list[str], dims: list[int], nearest: int, by_query: bool
) -> None:
    """Refuse at once what would fail only after much has been measured."""
    wanted = parse_all(settings["metrics"], k=settings["k"])
    for each in distances:
        if each not in DISTANCES:
            raise unknown("distance", each, DISTANCES)
        refuse_undefined(wanted, each)
    if by_query and not any(metric.kind == "retrieval" for metric in wanted):
        raise BadInput(
            "None of these metrics has a value per query or class: --per-class and --per-query need one of "
            "retrieval, as recall@1."
        )
    rows, gallery = subject.arrays["embeddings"], subject.arrays.get("gallery")
    if rows.ndim != 2 or (gallery is not None and gallery.ndim != 2):
        return  # refused by `evaluate`, before anything is measured
    for each_dim in dims:
        check_dim(each_dim, rows.shape[1], "embeddings")
    most = len(rows) - 1 if gallery is None else len(gallery)
    if nearest > most:
        raise BadInput(f"--nearest {nearest}: there are {most} other rows to find.")


def _chooser(
    run: Path | None, choose_on: str, validation: Path | None, validation_labels: Path | None
) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings and labels that choose the threshold."""
    if run is not None:
        if validation or validation_labels:
            raise BadInput("--validation and --validation-labels go with --embeddings: a run embeds its own classes.")
        if choose_on not in PARTS:
            raise BadInput(f"--choose-on {choose_on}: {' or '.join(PARTS)} is possible.")
        with bar("embedding") as progress:
            return embed_part(run, choose_on, progress=progress)
    if validation is None or validation_labels is None:
        raise BadInput(
            "--threshold needs --validation and --validation-labels: embeddings of classes that are not "
            "tested, to choose it on."
        )
    return read_array(validation), read_labels(validation_labels)


def _decide(
    chooser: tuple[np.ndarray, np.ndarray],
    subject: _Subject,
    rule: str | dict[str, float],
    distance: str,
    dim: int | None,
    ci: float | None,
    seed: int,
) -> tuple[Threshold, Rates]:
    with bar("choosing the threshold") as progress:
        chosen = same_or_not(*chooser, distance=distance, rule=rule, dim=dim, ci=ci, seed=seed, progress=progress)
    with bar("judging the threshold") as progress:
        rows, labels = subject.arrays["embeddings"], subject.names
        return chosen, chosen.rates(rows, labels, ci=ci, seed=seed, progress=progress)


def _distances(distance: str | None, binary: bool) -> list[str]:
    named = _words("distance", distance) if distance is not None else []
    return list(dict.fromkeys([*(named or ([] if binary else ["cosine"])), *(["hamming"] if binary else [])]))


def _words(flag: str, text: str) -> list[str]:
    found = split(text)
    if not found:
        raise BadInput(f"--{flag} names none" + ("; see `levelfield list metrics`." if flag == "metrics" else "."))
    return list(found)


def _numbers(flag: str, text: str) -> list[int]:
    words = _words(flag, text)
    if not all(word.isdecimal() and len(word) < 19 and int(word) > 0 for word in words):
        raise BadInput(f"--{flag} {text}: whole numbers above 0 with commas between are needed, as in 1,10,100.")
    return [int(word) for word in words]
