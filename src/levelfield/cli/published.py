"""`levelfield published`: results that papers report."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from levelfield.cli.console import console, say
from levelfield.errors import BadInput, unknown

if TYPE_CHECKING:
    from levelfield.papers.published import Line


def published(
    what: Annotated[
        str | None, typer.Argument(help="A paper, a table such as roth2020/table4, or a method's name.")
    ] = None,
    table: Annotated[str | None, typer.Argument(help="One of the paper's tables, such as table4.")] = None,
    method: Annotated[str | None, typer.Option("--method", help="Print all reported results of a method.")] = None,
    metric: Annotated[str, typer.Option("--metric", help="Metric to print for a method.")] = "recall@1",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, each number with its setting.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, one line per number.")] = False,
) -> None:
    """Print the papers' result tables, or all results of a method."""
    from levelfield.papers import published as papers_tables
    from levelfield.reports import paper_tables as shown

    papers = papers_tables.papers()
    if what is not None and table is None and what.partition("/")[0] in papers:
        what, _, named = what.partition("/")
        table = named or None
    if what is not None and what not in papers:
        if method is not None or table is not None:
            raise unknown("paper", what, papers, see="levelfield published")
        what, method = None, what
    if method is not None:
        _print_method(method, metric, as_json, as_csv)
        return
    chosen = [one for one in papers_tables.tables() if what in (None, one.paper)]
    if table is not None and what is not None:
        chosen = [papers_tables.table(what, table)]
    if as_json:
        typer.echo(json.dumps([asdict(one) for one in chosen] if table is None else asdict(chosen[0]), indent=1))
    elif as_csv:
        typer.echo(shown.as_csv([line for one in chosen for line in one.lines]), nl=False)
    else:
        console.print(shown.as_list(chosen) if table is None else shown.as_terminal(chosen[0], width=console.width))


def _print_method(method: str, metric: str, as_json: bool, as_csv: bool) -> None:
    from levelfield.evaluation import parse
    from levelfield.methods import names as method_names
    from levelfield.papers import published as papers_tables
    from levelfield.reports import paper_tables as shown

    parse(metric)
    every = [line for one in papers_tables.tables() for line in one.lines if line.value is not None]
    own = [line for line in every if method in (line.method, line.printed_method)]
    if not own:
        if method in method_names():
            raise BadInput(f"No paper here reports '{method}'. See `levelfield published`.")
        known = {line.method or line.printed_method for line in every}
        raise unknown("paper or reported method", method, [*papers_tables.papers(), *known], see="levelfield published")
    if as_json:
        typer.echo(json.dumps([asdict(line) for line in own], indent=1))
    elif as_csv:
        typer.echo(shown.as_csv(own), nl=False)
    else:
        _print_metric(method, metric, own)


def _print_metric(method: str, metric: str, own: list[Line]) -> None:
    from levelfield.papers.published import is_about
    from levelfield.reports import paper_tables as shown

    lines = [line for line in own if is_about(line, metric)]
    others = sorted({line.metric for line in own} - {line.metric for line in lines})
    if not lines:
        raise unknown(f"metric reported for '{method}'", metric, others)
    console.print(shown.of_method(method, metric, lines))
    if others:
        say(f"Also reported (--metric): {', '.join(others)}.")
