"""The `levelfield` command: its verbs, and what happens to errors and Ctrl-C."""

from __future__ import annotations

import logging
import sys
import traceback

import click
import typer

from levelfield import __version__
from levelfield.cli import compare, look, use
from levelfield.cli.console import error_console
from levelfield.errors import LevelfieldError

app = typer.Typer(
    name="levelfield",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="The level playing field of deep metric learning: which way of learning an embedding is best here, "
    "how sure is that, and what did it cost?",
)
compare.add_to(app)
use.add_to(app)
look.add_to(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"levelfield {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Say more; show tracebacks of errors."),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="Say only results and errors."),
) -> None:
    level = logging.DEBUG if verbose else logging.ERROR if quiet else logging.WARNING
    logging.basicConfig(level=level, format="%(message)s", force=True)
    logging.getLogger("levelfield").setLevel(level)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line. Errors on purpose print one message; the exit code is never 0 then."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        code = app(arguments, standalone_mode=False)
    except LevelfieldError as error:
        if {"-v", "--verbose"} & set(arguments):
            traceback.print_exc()
        error_console.print(f"[red]Error:[/red] {_plain(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(1)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        error_console.print("\nStopped. Nothing is lost: the same command goes on where it was.")
        sys.exit(130)
    sys.exit(code or 0)


def _plain(text: str) -> str:
    return text.replace("[", "\\[")
