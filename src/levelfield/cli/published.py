"""`levelfield published`: results that papers report."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from levelfield import evaluation, papers
from levelfield.cli.console import console, print_json, say
from levelfield.cli.options import option
from levelfield.errors import BadInput, unknown


def published(
    what: Annotated[
        str | None, typer.Argument(help="A paper, a table such as roth2020/table4, or a method's name.")
    ] = None,
    table: Annotated[str | None, typer.Argument(help="One of the paper's tables, such as table4.")] = None,
    method: Annotated[str | None, option("--method", "Print all reported results of a method.")] = None,
    metric: Annotated[str, option("--metric", "Metric to print for a method.")] = "recall@1",
    as_json: Annotated[bool, option("--json", "Print JSON, each number with its setting.")] = False,
    as_csv: Annotated[bool, option("--csv", "Print CSV, one line per number.")] = False,
) -> None:
    """Print the papers' result tables, or all results of a method."""
    from levelfield.reports import paper_tables

    titles = papers.published.papers()
    if what is not None and table is None and what.partition("/")[0] in titles:
        what, _, named = what.partition("/")
        table = named or None
    if what is not None and what not in titles:
        if method is not None or table is not None:
            raise unknown("paper", what, titles, see="levelfield published")
        what, method = None, what
    if method is not None:
        _print_method(method, metric, as_json, as_csv)
        return
    chosen = [entry for entry in papers.published.tables() if what in (None, entry.paper)]
    if table is not None and what is not None:
        chosen = [papers.published.table(what, table)]
    if as_json:
        print_json([asdict(entry) for entry in chosen] if table is None else asdict(chosen[0]))
    elif as_csv:
        typer.echo(paper_tables.as_csv([line for entry in chosen for line in entry.lines]), nl=False)
    else:
        console.print(
            paper_tables.as_list(chosen) if table is None else paper_tables.as_terminal(chosen[0], width=console.width)
        )


def _print_method(method: str, metric: str, as_json: bool, as_csv: bool) -> None:
    from levelfield.methods import names as method_names
    from levelfield.reports import paper_tables

    evaluation.parse(metric)
    every = [line for entry in papers.published.tables() for line in entry.lines if line.value is not None]
    reported = [line for line in every if method in (line.method, line.printed_method)]
    if not reported:
        if method in method_names():
            raise BadInput(f"No paper here reports '{method}'. See `levelfield published`.")
        known = {line.method or line.printed_method for line in every}
        raise unknown(
            "paper or reported method", method, [*papers.published.papers(), *known], see="levelfield published"
        )
    if as_json:
        print_json([asdict(line) for line in reported])
    elif as_csv:
        typer.echo(paper_tables.as_csv(reported), nl=False)
    else:
        lines = [line for line in reported if papers.published.is_about(line, metric)]
        others = sorted({line.metric for line in reported} - {line.metric for line in lines})
        if not lines:
            raise unknown(f"metric reported for '{method}'", metric, others)
        console.print(paper_tables.of_method(method, metric, lines))
        if others:
            say(f"Also reported (--metric): {', '.join(others)}.")
