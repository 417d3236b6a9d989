"""The `levelfield` command: its verbs, and what happens to errors and Ctrl-C."""

from __future__ import annotations

import io
import logging
import os
import sys
import tempfile
import traceback
from typing import NoReturn

import typer
from rich.text import Text

from levelfield import __version__
from levelfield.cli import (
    cache,
    check,
    compare,
    corruptions,
    datasets,
    ensemble,
    init,
    list_parts,
    maps,
    published,
    ranks,
    report,
    toy,
    train,
    tune,
    use,
)
from levelfield.cli.console import error_console
from levelfield.cli.evaluate import command as evaluate
from levelfield.errors import LevelfieldError
from levelfield.trust import trusting

app = typer.Typer(
    name="levelfield",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="The level playing field of deep metric learning: which way of learning an embedding is best here, "
    "how sure is that, and what did it cost?",
)
# typer brings its own click, which need not be the installed one: its errors are known by typer's names only
_UsageError: type[Exception] = next(kind for kind in typer.BadParameter.mro() if kind.__name__ == "ClickException")
_INTERRUPTED = 130
UNEXPECTED = 70  # EX_SOFTWARE

_PANELS = {
    "Compare": (compare, tune, train, init),
    "Use": (use, evaluate, ensemble),
    "Look": (report, maps, ranks, corruptions),
    "Papers": (published, toy),
    "Parts": (list_parts, check, datasets, cache),
}
for _panel, _commands in _PANELS.items():
    for _command in _commands:
        _command.add_to(app, _panel)


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
    logging.basicConfig(level=max(level, logging.WARNING), format="%(message)s", force=True)  # others stay quiet
    logging.getLogger("levelfield").setLevel(level)


def _for_all_commands_first(arguments: list[str]) -> list[str]:
    """`levelfield compare ... -q` means the same as `levelfield -q compare ...`.

    >>> _for_all_commands_first(["embed", "run", "-q", "--", "-q"])
    ['-q', 'embed', 'run', '--', '-q']
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    moved = [word for word in arguments[:end] if word in ("-q", "--quiet", "-v", "--verbose")]
    return [*moved, *(word for word in arguments[:end] if word not in moved), *arguments[end:]]


def _tell(text: str) -> None:
    error_console.print(Text.assemble(("Error:", "red"), f" {text}"), soft_wrap=True)


def _shortened(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:60]}..."


def _end_unexpectedly(error: Exception) -> NoReturn:
    """One line, the place of the traceback, and an exit code that no other end has."""
    with tempfile.NamedTemporaryFile("w", prefix="levelfield-", suffix=".txt", delete=False, errors="replace") as file:
        file.write(traceback.format_exc())
    said = _shortened(f"{type(error).__name__}: {error}")
    _tell(f"This is a fault of levelfield itself ({said}). Please report it with the traceback in {file.name}")
    sys.exit(UNEXPECTED)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line. Errors on purpose print one message; the exit code is never 0 then."""
    for printed in (sys.stdout, sys.stderr):
        if isinstance(printed, io.TextIOWrapper):  # a name that is no UTF-8 is shown in escapes, and stops nothing
            printed.reconfigure(errors="backslashreplace")
    arguments = _for_all_commands_first(sys.argv[1:] if arguments is None else arguments)
    try:
        with trusting():  # a command runs no file but those that it trusts because the user named them
            code = app(arguments, standalone_mode=False)
    except LevelfieldError as error:
        if {"-v", "--verbose"} & set(arguments):
            traceback.print_exc()
        _tell(str(error))
        sys.exit(1)
    except _UsageError as error:
        error.show()  # type: ignore[attr-defined]
        sys.exit(2)
    except BrokenPipeError:  # whoever read what is printed has enough, as in `levelfield list metrics | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if error.filename is None:
            _end_unexpectedly(error)
        _tell(f"Cannot use {_shortened(str(error.filename))}: {error.strerror}.")
        sys.exit(1)
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except SystemExit as error:  # no part of ours does that: code from a file that the user named
        told = "" if error.code is None else repr(error.code)
        _tell(f"A file that was named called sys.exit({told}) when it was used.")
        sys.exit(1)
    except Exception as error:  # a fault of ours: what is needed to mend it is kept
        _end_unexpectedly(error)
    if code == _INTERRUPTED:  # newer typers turn Ctrl-C into this code themselves
        error_console.print("\nStopped. Nothing is lost: the same command goes on where it was.")
    sys.exit(code or 0)
