"""`levelfield evaluate`: evaluate a run's stored test embeddings, or arrays, without training."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer

from levelfield.cli.console import bar, console, warnings_as_notes
from levelfield.cli.options import DeviceOption, ImagesOption, MaybeRunArgument, TrustOption, WorkersOption
from levelfield.files.writing import write_text


def add_to(app: typer.Typer, panel: str) -> None:
    app.command(
        "evaluate",
        epilog="Example: levelfield evaluate --embeddings e.npy --labels y.npy --metrics recall@1,map@r",
        rich_help_panel=panel,
    )(measure)


def _option(panel: str, flag: str, text: str, **more: Any) -> Any:
    return typer.Option(flag, help=text, rich_help_panel=panel, **more)


_INPUT, _HOW, _SAME, _OUTPUT = "Arrays", "Evaluation", "Threshold", "Output"


def measure(
    run: MaybeRunArgument = None,
    embeddings: Annotated[Path | None, _option(_INPUT, "--embeddings", "Embeddings (.npy), one row per image.")] = None,
    labels: Annotated[
        Path | None, _option(_INPUT, "--labels", "One label per row, numbers or text (.npy, .txt, .csv).")
    ] = None,
    gallery: Annotated[
        Path | None, _option(_INPUT, "--gallery", "Gallery embeddings (.npy) to search instead.")
    ] = None,
    gallery_labels: Annotated[Path | None, _option(_INPUT, "--gallery-labels", "One label per gallery row.")] = None,
    query_ids: Annotated[
        Path | None, _option(_INPUT, "--query-ids", "For each query, its own row in the gallery; -1: none.")
    ] = None,
    train_embeddings: Annotated[
        Path | None,
        _option(_INPUT, "--train-embeddings", "Embeddings of training classes (.npy), for --compact."),
    ] = None,
    metrics: Annotated[
        str | None,
        _option(_HOW, "--metrics", "Comma-separated metrics (levelfield list metrics); default: the usual ones."),
    ] = None,
    k: Annotated[str, _option(_HOW, "--k", "Values of k for recall and precision given without @k.")] = "1,2,4,8",
    distance: Annotated[
        str | None, _option(_HOW, "--distance", "cosine (default), euclidean, dot, hamming; several: one row each.")
    ] = None,
    binary: Annotated[bool, _option(_HOW, "--binary", "One bit per dimension: same as --distance hamming.")] = False,
    dim: Annotated[
        str | None, _option(_HOW, "--dim", "Use only the first columns; several (32,64): one row each.")
    ] = None,
    compact: Annotated[
        bool,
        _option(
            _HOW,
            "--compact",
            "Compare float32 with float16, int8, bits, first and whitened dimensions; --dim: how many dimensions.",
        ),
    ] = False,
    refine: Annotated[
        str | None,
        _option(
            _HOW,
            "--refine",
            "Also evaluate after message passing among test images: reciprocal, kmeans:clusters=90; "
            "several: one row each. Needs a run of message_passing.",
        ),
    ] = None,
    average: Annotated[
        str, _option(_HOW, "--average", "Average over queries or over classes: query, class.")
    ] = "query",
    ties: Annotated[
        str, _option(_HOW, "--ties", "Treatment of ties: expected, pessimistic or optimistic.")
    ] = "expected",
    lone: Annotated[
        str | None,
        _option(
            _HOW,
            "--lone",
            "Queries with no other image of their class: exclude, or miss (the default for runs with a gallery).",
        ),
    ] = None,
    starts: Annotated[
        int, _option(_HOW, "--starts", "Number of k-means starts for nmi, ami, ari, f1.", min=1, max=10_000)
    ] = 3,
    ci: Annotated[float, _option(_HOW, "--ci", "Confidence level of the intervals; 0: none.")] = 0.95,
    seed: Annotated[int, _option(_HOW, "--seed", "Seed of k-means and of the threshold search.")] = 0,
    memory: Annotated[
        str, _option(_HOW, "--memory", "Memory limit of the search; a larger .npy file is read in parts.")
    ] = "2GB",
    sample: Annotated[
        int | None,
        _option(_HOW, "--sample", "Measure this many random queries, each searched in all rows.", min=1),
    ] = None,
    jobs: Annotated[
        int | None, _option(_HOW, "--jobs", "Share the queries among this many processes.", min=1, max=1024)
    ] = None,
    ray: Annotated[
        str | None,
        _option(_HOW, "--ray", "Share the queries among Ray's processes, here or on a cluster.", metavar="[ADDRESS]"),
    ] = None,
    corrupt: Annotated[
        str | None,
        _option(_HOW, "--corrupt", "Evaluate on corrupted test images: all, or names (levelfield list corruptions)."),
    ] = None,
    threshold: Annotated[
        bool, _option(_SAME, "--threshold", "Choose a similarity threshold for 'same class'.")
    ] = False,
    rule: Annotated[str, _option(_SAME, "--rule", "Rule for the threshold: equal_error or balanced.")] = "equal_error",
    false_match: Annotated[
        float | None, _option(_SAME, "--false-match", "Instead of a rule: largest rate of false matches, e.g. 0.01.")
    ] = None,
    choose_on: Annotated[
        str, _option(_SAME, "--choose-on", "Classes of the run that choose the threshold: validation or training.")
    ] = "validation",
    validation: Annotated[
        Path | None, _option(_SAME, "--validation", "Without a run: embeddings (.npy) that choose the threshold.")
    ] = None,
    validation_labels: Annotated[Path | None, _option(_SAME, "--validation-labels", "Labels of --validation.")] = None,
    per_class: Annotated[Path | None, _option(_OUTPUT, "--per-class", "Write the mean of each class (CSV).")] = None,
    per_query: Annotated[Path | None, _option(_OUTPUT, "--per-query", "Write the values of each query (CSV).")] = None,
    neighbours: Annotated[
        Path | None, _option(_OUTPUT, "--neighbours", "Write the nearest rows of each query (CSV).")
    ] = None,
    nearest: Annotated[int, _option(_OUTPUT, "--nearest", "Number of rows for --neighbours.", min=1)] = 10,
    images: Annotated[
        Path | None, _option(_OUTPUT, "--images", "Without a run: file with one image path per row, for --page.")
    ] = None,
    page: Annotated[Path | None, _option(_OUTPUT, "--page", "Write a page with the images (HTML).")] = None,
    out: Annotated[Path | None, _option(_OUTPUT, "--out", "Write the output of --json to this file.")] = None,
    signatures: Annotated[bool, _option(_OUTPUT, "--signatures", "Show the definition of each score.")] = False,
    as_json: Annotated[bool, _option(_OUTPUT, "--json", "Print JSON, signatures included.")] = False,
    workers: WorkersOption = None,
    root: ImagesOption = None,
    device: DeviceOption = "auto",
    trust_files: TrustOption = None,
) -> None:
    """Evaluate a run's stored test embeddings, or your own arrays."""
    from levelfield.cli.evaluate import beyond, compacted, corrupted
    from levelfield.cli.evaluate import page as of_page
    from levelfield.cli.evaluate.files import as_data, write_neighbours, write_per_class, write_per_query
    from levelfield.cli.evaluate.subject import (
        check,
        decide,
        numbers,
        read_chooser,
        read_distances,
        read_subject,
        read_ways,
        refined,
        words,
    )
    from levelfield.cli.evaluate.tables import Evaluated, show
    from levelfield.embedder.devices import searched_on, usable
    from levelfield.evaluation import evaluate
    from levelfield.registry import references_in
    from levelfield.studies.specification.locations import images_in
    from levelfield.trust import trust

    subject = read_subject(run, embeddings, labels, gallery, gallery_labels, query_ids)
    settings: dict[str, Any] = {
        "metrics": None if metrics is None else words("metrics", metrics),
        "k": numbers("k", k),
        "average": average,
        "ties": ties,
        "starts": starts,
        "ci": ci or None,
        "seed": seed,
        "memory": memory,
        **({} if sample is None else {"sample": sample}),
        **({} if lone is None else {"lone": lone}),
    }
    of_page.check_options(page, images, run, subject)
    compacted.check_options(train_embeddings, run, compact)
    trust(*references_in(settings["metrics"]))
    distances, dims = read_distances(distance, binary), numbers("dim", dim) if dim else []
    check(subject, settings, distances, dims, nearest if neighbours else 0, bool(per_class or per_query))
    wants_threshold = threshold or false_match is not None
    given = {
        "--compact": compact,
        "--corrupt": corrupt is not None,
        "--refine": refine is not None,
        "--threshold": wants_threshold,
        "--per-class": per_class is not None,
        "--per-query": per_query is not None,
        "--neighbours": neighbours is not None,
        "--page": page is not None,
    }
    beyond.check_options(sample, jobs, ray, subject, memory, given)
    if corrupt is not None or compact:
        own = "--compact" if corrupt is None else "--corrupt"
        shown: dict[str, Any] = {"out": out, "as_json": as_json, "signatures": signatures}
        shown["unfit"] = {flag: wanted for flag, wanted in given.items() if flag != own}
        with images_in(root):
            if corrupt is not None:
                corrupted.measure(run, corrupt, settings, distances, dims, **shown)
            else:
                compacted.measure(run, subject, train_embeddings, settings, distances, dims, **shown)
        return
    ways = [] if refine is None else read_ways(run, refine, bool(dims), wants_threshold)
    subjects = [subject] if run is None else [subject, *refined(run, subject, ways)]
    with images_in(root):
        chooser = read_chooser(run, choose_on, validation, validation_labels) if wants_threshold else None
    goal: str | dict[str, float] = rule if false_match is None else {"false_match": false_match}
    found, evaluated = [], []
    warned: set[str] = set()
    cuts: list[int | None] = [*dims] or [None]
    with beyond.opened_shards(jobs, ray) as shards:
        for some, each, columns in product(subjects, distances, cuts):
            description = f"evaluating ({each})" if columns is None else f"evaluating ({each}, dim {columns})"
            with bar(description) as progress, warnings_as_notes(warned):
                arrays = searched_on(usable(device) if shards is None else "cpu", some.arrays)
                result = evaluate(
                    **{**arrays, **settings}, dim=columns, distance=each, shards=shards, progress=progress
                )
            decided = None if chooser is None else decide(chooser, some, goal, each, columns, ci or None, seed)
            chosen_on = choose_on if run else "validation"
            found.append(Evaluated(result, each, some.refined, decided, chosen_on, some.models, some.bits))
            evaluated.append(some.arrays["embeddings"])
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
    if page is not None:
        of_page.write_page(page, images, subject, found, evaluated)
        if not as_json:
            console.print(f"Open {page}", soft_wrap=True, highlight=False)
