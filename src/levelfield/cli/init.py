"""`levelfield init`: write a study file to edit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from levelfield import library
from levelfield.cli.console import checking_images, console
from levelfield.cli.options import RootOption, SkipOption, option, quoted, trust_named
from levelfield.errors import BadInput
from levelfield.files.writing import write_text


def init(
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="Your photos (one sub-folder per class, or a CSV), or a benchmark; with --from, the file to write."
        ),
    ] = None,
    source: Annotated[str | None, option("--from", "Copy a built-in study, such as demo.")] = None,
    out: Annotated[Path | None, option("--out", "Study file to write.")] = None,
    force: Annotated[bool, option("--force", "Replace an existing file.")] = False,
    skip_unreadable: SkipOption = False,
    root: RootOption = None,
) -> None:
    """Write a study file: for your photos, or from a built-in study."""
    changes: list[str] = []
    if source is not None:
        text = library.copy(source)
        target = out or folder or Path(f"{source.replace('/', '-')}.yaml")
    elif folder is None:
        raise BadInput("Name your photos (levelfield init FOLDER), or a study to copy (levelfield init --from demo).")
    else:
        import yaml

        from levelfield.studies.planning.own_photos import fit_to

        trust_named(str(folder))
        with checking_images() as progress:
            content, changes, _ = fit_to(folder, root=root, skip_unreadable=skip_unreadable, progress=progress)
        text = "".join(f"# {line}\n" for line in changes)
        text += yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
        target = out or Path(f"{content['name']}.yaml")
    if target.exists() and not force:
        raise BadInput(f"{target} already exists: choose another name, or replace it with --force.")
    write_text(target, text)
    for change in changes:
        console.print(f"- {change}")
    console.print(f"Written: {target}. Review it, then run: levelfield compare {quoted(target)}", soft_wrap=True)
