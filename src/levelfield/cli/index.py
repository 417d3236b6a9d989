"""`levelfield index`: embed a folder of photos once; `levelfield search`: the nearest images of an index or folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from levelfield.cli import options
from levelfield.cli.console import bar, note, print_json, say
from levelfield.cli.embed import embedding
from levelfield.cli.option_groups import ModelOptions, with_groups
from levelfield.cli.options import option, quoted
from levelfield.cli.running import without_collection
from levelfield.errors import BadInput, unknown
from levelfield.wording import plural

if TYPE_CHECKING:
    from levelfield.shipping import Index
    from levelfield.shipping.searching import Neighbours

LIBRARIES = ("usearch", "faiss")  # those of levelfield.shipping.index.approximate, known without numpy
PARTS = ("validation", "training")  # those of levelfield.studies.runs.finished, known without torch


@with_groups
def index(
    run: options.ModelArgument,
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Folders of photos; the sub-folder of a photo is its class.")
    ] = None,
    out: Annotated[Path | None, option("--out", "Folder of the index.")] = None,
    add: Annotated[
        list[Path] | None,
        option("--add", "Folder with photos to add to the index --out (or RUN); repeatable."),
    ] = None,
    approximate: Annotated[
        str | None, option("--approximate", "Search approximately with usearch or faiss; default: exactly.")
    ] = None,
    choose_on: Annotated[
        str, option("--choose-on", "Classes that choose the threshold: validation or training.")
    ] = "validation",
    skip_unreadable: options.SkipOption = False,
    force: options.ForceOption = False,
    as_json: options.JsonOption = False,
    *,
    model: ModelOptions,
) -> None:
    """Embed folders of photos once, for `levelfield search`."""
    if approximate is not None and approximate not in LIBRARIES:
        raise unknown("library for approximate search", approximate, LIBRARIES)
    if choose_on not in PARTS:
        raise BadInput(f"--choose-on {choose_on}: must be {' or '.join(PARTS)}.")
    from levelfield.shipping import add_to_index, build_index
    from levelfield.shipping.index.folder import is_index

    index_folder = run if is_index(run) else out
    if add:
        if folders or index_folder is None or (is_index(run) and out):
            raise BadInput("To add photos: levelfield index INDEX --add FOLDER, or RUN --add FOLDER --out INDEX.")
        moved_to = None if is_index(run) else run
        with embedding() as progress:
            added = add_to_index(index_folder, add, model=moved_to, skip_unreadable=skip_unreadable, progress=progress)
        again = f", {plural(added.changed, 'changed image', 'changed images')} embedded again" if added.changed else ""
        what = f"{plural(added.new, 'new image', 'new images')}{again}, {added.known:,} already there. "
        _print_index(added.index, f"{what}Now {len(added.index):,}", as_json)
        tell_missing(sum(not path.is_file() for path in added.index.paths), "the photos of the index")
        return
    if is_index(run):
        raise BadInput(f"{run} is an index. Add photos to it with --add FOLDER, or give a run to make a new index.")
    if not folders or out is None:
        raise BadInput("Give folders of photos, and the folder of the index with --out.")
    settings: dict[str, Any] = {"choose_on": choose_on, "approximate": approximate, "force": force}
    with embedding() as progress:
        index = build_index(run, folders, out, skip_unreadable=skip_unreadable, progress=progress, **settings)
    _print_index(index, plural(len(index), "image", "images"), as_json)


def _print_index(index: Index, what: str, as_json: bool) -> None:
    """Print what was written, the threshold with its rate of matched unknowns, and what an approximate search loses."""
    facts = index.content.facts
    if as_json:
        shown = ("images", "dim", "codes", "model", "threshold", "unknowns", "approximate")
        print_json({"folder": str(index.folder), **{name: facts[name] for name in shown}})
        return
    from levelfield.shipping.index.decision import unknowns_text

    classes = plural(len(set(index.classes) - {""}), "class", "classes")
    say(f"{index.folder}: {what} of {classes}, {index.dim} {'bits' if facts['codes'] == 'binary' else 'dimensions'}.")
    if (graph := facts["approximate"]) is not None:
        recalls = ", ".join(f"{name} {value:.4f}" for name, value in graph.items() if name.startswith("recall"))
        queries = f"{plural(graph['queries'], 'image', 'images')} of the index searched among the others"
        say(f"Approximate search ({graph['library']}) against exact: {recalls or 'not measured'}; {queries}.")
    if (chosen := facts["threshold"]) is not None:
        say(f"Same class: from a cosine of {chosen['value']:.3f}, chosen on {chosen['chosen_on']}.")
    if facts["unknowns"] is not None:
        say(unknowns_text(facts["unknowns"]))


def search(
    run: options.RunOrIndexArgument,
    queries: Annotated[list[Path], typer.Argument(help="Query images.")],
    gallery: Annotated[Path | None, option("--gallery", "Folder (or CSV) to search; not needed for an index.")] = None,
    k: Annotated[int, option("-k", "--neighbours", "Number of neighbours to print.", min=1)] = 5,
    model: Annotated[Path | None, option("--model", "Where the model of an index is now, if it was moved.")] = None,
    workers: options.WorkersOption = None,
    as_json: options.JsonOption = False,
    device: options.DeviceOption = "auto",
    trust_files: options.TrustOption = None,
) -> None:
    """Print the nearest images of an index or a folder."""
    from levelfield.shipping.index.folder import is_index

    index = None
    with without_collection():
        from levelfield.shipping import Index, load
        from levelfield.shipping.searching import search_folder, search_index

        if is_index(run):
            if gallery is not None:
                raise BadInput(f"{run} is an index: leave out --gallery, or give a run to search {gallery}.")
            index = Index.open(run)
        elif gallery is None:
            raise BadInput(
                f"{run} is not an index. Name the photos to search with --gallery FOLDER, or make an index of them: "
                f"levelfield index {quoted(run)} FOLDER --out index"
            )
        elif model is not None:
            raise BadInput("--model belongs to an index; here the model is the first argument.")
        network = load(run, device=device) if index is None else index.model(model)
    with bar("embedding") as progress:
        if gallery is not None:
            neighbours = search_folder(network, gallery, queries, k=k, progress=progress)
        elif index is not None:
            neighbours = search_index(index, network, queries, k=k, progress=progress)
    if as_json:
        print_json(neighbours)
    else:
        _print(neighbours, None if index is None else index.threshold)
    gone = {near["path"] for row in neighbours.values() for near in row if not near.get("exists", True)}
    tell_missing(len(gone), "these photos")


def _print(neighbours: Neighbours, threshold: float | None) -> None:
    for query, nearest in neighbours.items():
        say(f"Nearest to {query}:")
        for near in nearest:
            same = "" if threshold is None else "same  " if near["same"] else "other "
            say(f"  {near['similarity']:.3f}  {same}{near['path']}")
        if not nearest:
            say("  No other image is there to search.")
        elif threshold is not None and not any(near["same"] for near in nearest):
            say(f"  No image of its class: the nearest is below the threshold {threshold:.3f}.")


def tell_missing(count: int, among: str) -> None:
    """Say on stderr how many photos of an index were deleted since."""
    if count:
        note(
            f"{count:,} of {among} no longer {'exists' if count == 1 else 'exist'}. Make the index again with --force."
        )
