"""`levelfield threshold`: choose a similarity threshold for "same class", and test it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from levelfield.cli import option_groups as groups
from levelfield.cli.console import bar, warnings_as_notes
from levelfield.cli.option_groups import in_arrays, with_groups
from levelfield.cli.options import option
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
