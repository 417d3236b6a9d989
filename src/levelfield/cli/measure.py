"""Measure a run beyond its scores: `levelfield threshold`, `compact` and `corrupt`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from levelfield.cli import option_groups as groups
from levelfield.cli.console import bar, warnings_as_notes
from levelfield.cli.drawings import named_corruptions
from levelfield.cli.option_groups import in_arrays, numbers, with_groups
from levelfield.cli.options import RunArgument, option
from levelfield.errors import BadInput

_in_threshold = partial(option, panel="Threshold")


@with_groups
def threshold(
    source: groups.EmbeddingOptions,
    choose_on: Annotated[
        str, _in_threshold("--choose-on", "Classes of the run that choose the threshold: validation or training.")
    ] = "validation",
    validation: Annotated[
        Path | None, in_arrays("--validation", "Without a run: embeddings (.npy) that choose the threshold.")
    ] = None,
    validation_labels: Annotated[Path | None, in_arrays("--validation-labels", "Labels of --validation.")] = None,
    rule: Annotated[str, _in_threshold("--rule", "Rule for the threshold: equal_error or balanced.")] = "equal_error",
    false_match: Annotated[
        float | None, _in_threshold("--false-match", "Instead of a rule: largest rate of false matches, e.g. 0.01.")
    ] = None,
    distance: groups.DistanceOption = "cosine",
    dim: groups.ColumnsOption = None,
    ci: groups.ConfidenceOption = 0.95,
    *,
    output: groups.OutputOptions,
    model: groups.ModelOptions,
) -> None:
    """Choose a similarity threshold for "same class"; test it.

    The test classes never choose it: a run's validation classes do, or embeddings that you give.
    """
    from levelfield.evaluation.search.distances import distance_called
    from levelfield.reports.evaluation import choose_threshold
    from levelfield.reports.evaluation.embedding_set import read_array, read_labels
    from levelfield.studies.runs.finished import embed_part

    embeddings, distance = source.read(), distance_called(distance)
    if embeddings.run is not None:
        if validation or validation_labels:
            raise BadInput("--validation and --validation-labels need --embeddings: a run embeds its own classes.")
        with bar("embedding") as progress:
            chooser = embed_part(embeddings.run, choose_on, progress=progress)
    elif validation is None or validation_labels is None:
        raise BadInput(
            "A threshold needs --validation and --validation-labels: embeddings of classes that are not "
            "test classes, to choose the threshold on."
        )
    else:
        chooser = read_array(validation), read_labels(validation_labels)
    with bar("choosing the threshold") as progress, warnings_as_notes():
        tested = choose_threshold(
            embeddings,
            chooser,
            chosen_on="validation" if embeddings.run is None else choose_on,
            rule=rule if false_match is None else {"false_match": false_match},
            distance=distance,
            dim=dim,
            ci=ci or None,
            progress=progress,
        )
    output.show(tested)


@with_groups
def compact(
    source: groups.EmbeddingOptions,
    train_embeddings: Annotated[
        Path | None,
        in_arrays("--train-embeddings", "Without a run: embeddings of training classes (.npy), to fit on."),
    ] = None,
    *,
    metrics: groups.MetricOptions,
    ci: groups.ConfidenceOption = 0.95,
    distance: Annotated[
        str, option("--distance", "cosine, euclidean or dot; bits are a row of the table.", panel="Forms")
    ] = "cosine",
    dim: Annotated[
        str | None, option("--dim", "Numbers of first and of whitened dimensions: 32,64.", panel="Forms")
    ] = None,
    output: groups.OutputOptions,
    model: groups.ModelOptions,
) -> None:
    """Compare float32 with float16, int8, bits and fewer dimensions.

    One row per form, with its bytes, its scores and the difference from float32. Forms that are fitted need embeddings
    of training classes, which a run computes itself.
    """
    from levelfield.evaluation.inputs import check_dim
    from levelfield.evaluation.search.distances import distance_called
    from levelfield.reports.evaluation import compare_compact
    from levelfield.reports.evaluation.embedding_set import read_array

    embeddings, settings = source.read(), metrics.settings()
    if train_embeddings is not None and embeddings.run is not None:
        raise BadInput("--train-embeddings needs --embeddings: a run embeds its own training classes.")
    dims = numbers("dim", dim) if dim else None
    for each in dims or ():
        check_dim(each, embeddings.rows.shape[-1], "embeddings")
    with bar("evaluating") as progress, warnings_as_notes():
        forms = compare_compact(
            embeddings,
            None if train_embeddings is None else read_array(train_embeddings),
            dims=dims,
            distance=distance_called(distance),
            ci=ci or None,
            progress=progress,
            **settings,
        )
    output.show(forms)


@with_groups
def corrupt(
    run: RunArgument,
    only: Annotated[
        str, option("--only", "Comma-separated names (levelfield list corruptions).", panel="Corruptions")
    ] = "all",
    *,
    metrics: groups.MetricOptions,
    starts: groups.StartsOption = 3,
    distance: groups.DistanceOption = "cosine",
    dim: groups.ColumnsOption = None,
    output: groups.OutputOptions,
    model: groups.ModelOptions,
) -> None:
    """Evaluate a run on corrupted test images (lim2022).

    Prints the scores on clean and on corrupted images, and the drop. Every run sees the same corrupted images.
    """
    from levelfield.evaluation.search.distances import distance_called
    from levelfield.reports.evaluation import evaluate_corruptions

    names, settings = named_corruptions(only), metrics.settings()
    with bar("embedding") as progress:
        scores = evaluate_corruptions(
            run, names, distance=distance_called(distance), dim=dim, starts=starts, progress=progress, **settings
        )
    output.show(scores)
