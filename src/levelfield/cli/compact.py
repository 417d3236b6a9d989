"""`levelfield compact`: how few bytes per embedding are enough."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from levelfield.cli import option_groups as groups
from levelfield.cli.console import bar, warnings_as_notes
from levelfield.cli.option_groups import numbers, with_groups
from levelfield.cli.options import option
from levelfield.errors import BadInput


@with_groups
def compact(
    source: groups.EmbeddingOptions,
    train_embeddings: Annotated[
        Path | None,
        groups.in_arrays("--train-embeddings", "Without a run: embeddings of training classes (.npy), to fit on."),
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
