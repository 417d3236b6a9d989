"""`levelfield init`: a study file for somebody's own photos."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from levelfield.cli.console import console, looking
from levelfield.errors import BadInput


def add_to(app: typer.Typer, panel: str) -> None:
    app.command("init", epilog="Example: levelfield init photos", rich_help_panel=panel)(init)


def init(
    folder: Annotated[Path, typer.Argument(help="Your photos (one sub-folder per class, or a CSV), or a benchmark.")],
    out: Annotated[Path | None, typer.Option("--out", help="The study file to write.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    skip_unreadable: Annotated[
        bool, typer.Option("--skip-unreadable", help="Leave out images that cannot be read.")
    ] = False,
    root: Annotated[Path | None, typer.Option("--root", help="Root folder of the benchmark.")] = None,
) -> None:
    """Look at your photos and write an editable study file for them."""
    import yaml

    from levelfield.files import write_text
    from levelfield.registry import references_in
    from levelfield.studies.planning.own_photos import fit_to
    from levelfield.trust import trust

    trust(*references_in(str(folder)))
    with looking() as told:
        content, changes = fit_to(folder, root=root, skip_unreadable=skip_unreadable, progress=told)
    target = out or Path(f"{content['name']}.yaml")
    if target.exists() and not force:
        raise BadInput(f"{target} exists already: choose another name with --out, or replace it with --force.")
    remarks = "".join(f"# {line}\n" for line in changes)
    write_text(target, remarks + yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
    for change in changes:
        console.print(f"- {change}", highlight=False)
    command = f"levelfield compare {shlex.quote(str(target))}"
    console.print(f"Written: {target}. Look at it, then: {command}", highlight=False, soft_wrap=True)
