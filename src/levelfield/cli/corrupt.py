"""`levelfield corrupt`: what corrupted test images cost a run."""

from __future__ import annotations

from typing import Annotated

from levelfield.cli.console import bar
from levelfield.cli.measure_options import MetricOptions, OutputOptions, option
from levelfield.cli.option_groups import ModelOptions, with_groups
from levelfield.cli.options import RunArgument
from levelfield.trust import trust


@with_groups
def corrupt(
    run: RunArgument,
    only: Annotated[
        str, option("Corruptions", "--only", "Comma-separated names (levelfield list corruptions).")
    ] = "all",
    *,
    metrics: MetricOptions,
    starts: Annotated[
        int, option("Metrics", "--starts", "Number of k-means starts for nmi, ami, ari, f1.", min=1, max=10_000)
    ] = 3,
    distance: Annotated[str, option("Metrics", "--distance", "cosine, euclidean, dot or hamming (bits).")] = "cosine",
    dim: Annotated[int | None, option("Metrics", "--dim", "Use only the first columns.", min=1)] = None,
    output: OutputOptions,
    model: ModelOptions,
) -> None:
    """Evaluate a run on corrupted test images (lim2022).

    Prints the scores on clean and on corrupted images, and the drop. Every run sees the same corrupted images.
    """
    from levelfield.data import corruptions
    from levelfield.evaluation.search.distances import distance_called
    from levelfield.registry import references_in
    from levelfield.reports.evaluation import evaluate_corruptions
    from levelfield.studies.specification.locations import images_in

    names, settings = corruptions.chosen(only), metrics.settings()
    trust(*references_in(names))
    with images_in(model.root), bar("embedding") as progress:
        scores = evaluate_corruptions(
            run, names, distance=distance_called(distance), dim=dim, starts=starts, progress=progress, **settings
        )
    output.save(scores)
    output.print(scores)
