"""`levelfield datasets`: list the benchmarks, verify a copy of one, find leaks across the split."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from levelfield.cli.console import bar, checking_images, console, print_json, say
from levelfield.cli.options import JsonOption, SkipOption, option, trust_named
from levelfield.errors import BadSpecification
from levelfield.wording import plural

_MARKS = {"good": "ok", "remark": "note", "problem": "PROBLEM"}
RootArgument = Annotated[Path | None, typer.Argument(help="Its folder or archive; default: search in LEVELFIELD_DATA.")]

group = typer.Typer(invoke_without_command=True)


@group.callback()
def list_datasets(context: typer.Context) -> None:
    """List the benchmarks, verify a copy, or search for leaks."""
    if context.invoked_subcommand is not None:
        return

    from levelfield.data import describe, names, official
    from levelfield.table import Table, numbers

    rows = []
    for name in official.names():
        facts = describe(name)
        parts = "\n".join(f"{part} {images:,} / {classes:,}" for part, (images, classes) in facts.parts.items())
        rows.append([name, f"{facts.images:,}", f"{facts.classes:,}", parts, facts.page])
    Table(["name", *numbers("images", "classes"), "parts: images / classes", "official page"], rows).show(console)
    others = [f"{name} ({describe(name).what})" for name in names() if name not in official.names()]
    say(f"Also: {'; '.join(others)}.")


@group.command(epilog="Example: levelfield datasets check cub data/CUB_200_2011")
def check(
    name: Annotated[str, typer.Argument(help="Name of a dataset: cub, cars, sop, ...")],
    root: RootArgument = None,
    as_json: JsonOption = False,
) -> None:
    """Verify a copy of a dataset: counts, split, annotation files, every image, duplicates.

    The exit code is 1 if the copy differs from the official dataset.
    """
    from levelfield.data.checks.dataset import verify

    with bar(name) as progress:
        findings = verify(name, root, progress=progress)
    problems = sum(finding.weight == "problem" for finding in findings)
    if as_json:
        print_json({"dataset": name, "problems": problems, "found": [asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            say(f"{_MARKS[finding.weight]:<8} {finding.text}")
        console.print(f"{plural(problems, 'problem', 'problems')}." if problems else f"'{name}' can be used.")
    if problems:
        raise typer.Exit(1)


@group.command(epilog="Example: levelfield datasets leaks photos --out sheet.png")
def leaks(
    data: Annotated[str, typer.Argument(help="Name of a dataset, a folder with one sub-folder per class, or a CSV.")],
    root: RootArgument = None,
    out: Annotated[Path | None, option("--out", "Write a PNG with the pairs side by side.")] = None,
    protocol: Annotated[
        str | None, option("--protocol", "Split protocol; default: standard, for imagenet closed.")
    ] = None,
    radius: Annotated[
        int, option("--radius", "Bits (of 64) in which near-duplicates may differ; -1: off.", min=-1)
    ] = 6,  # equal to RADIUS of levelfield.data.checks.leaks, which a test checks
    allow_incomplete: Annotated[
        bool, option("--allow-incomplete", "Continue if counts differ from the official ones.")
    ] = False,
    skip_unreadable: SkipOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find classes, identical images and near-duplicates that are on both sides of the split.

    The exit code is 1 if a class or a file is on both sides. Judge near-duplicates yourself: see --out.
    """
    from levelfield.data import check_images, create, official, protocols
    from levelfield.data.checks.leaks import find_leaks

    with checking_images() as progress:
        if data in official.names():
            whole = create(data, root=root, allow_incomplete=allow_incomplete)
        elif root is not None:
            raise BadSpecification(f"'{data}' is not a benchmark, so it has no root: give only the folder.")
        else:
            trust_named(data)
            whole = create(data)
        catalog = check_images(whole, skip_unreadable=skip_unreadable, progress=progress)
    trust_named(protocol)
    fold = protocols.create(protocol or ("closed" if catalog.name == "imagenet" else "standard"), catalog)[0]
    with bar(data) as progress:
        crossings = find_leaks(catalog, fold, radius=radius, progress=progress)
    if as_json:
        print_json(crossings.as_data())
    else:
        say(str(crossings))
    if out is not None and crossings.pairs:
        from levelfield.reports.split_leaks import pair_sheet

        drawn = pair_sheet(crossings.pairs, out)
        if not as_json:
            part = f"of {plural(len(crossings.pairs), 'pair', 'pairs')}"
            say(f"{plural(drawn, f'{part} is', f'{part} are')} drawn: {out}")
    if crossings.grave:
        raise typer.Exit(1)
