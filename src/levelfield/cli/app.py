"""The `levelfield` command: sub-commands, errors and Ctrl-C."""

from __future__ import annotations

import atexit
import gc
import io
import logging
import os
import sys
from typing import NoReturn

import typer
from rich.text import Text

from levelfield import __version__
from levelfield.cli.compare import compare, init, train, tune
from levelfield.cli.compare.executors import with_ray_address
from levelfield.cli.console import error_console
from levelfield.cli.look import corruptions, maps, published, ranks, report, toy, view
from levelfield.cli.parts import cache, check, cluster, datasets, list_parts
from levelfield.cli.use import ensemble, export, index, use
from levelfield.cli.use.evaluate import command as evaluate
from levelfield.errors import CommandEnded, LevelfieldError
from levelfield.trust import trusting

app = typer.Typer(
    name="levelfield",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Compare deep metric learning methods fairly: which is best, how certain is it, at what cost?",
)
# typer bundles its own click, which may differ from the installed one, so its errors are found through typer
_UsageError: type[Exception] = next(kind for kind in typer.BadParameter.mro() if kind.__name__ == "ClickException")
_INTERRUPTED = 130
UNEXPECTED = 70  # EX_SOFTWARE

_PANELS = {
    "Compare": (compare, tune, train, init),
    "Use": (use, index, evaluate, ensemble, export),
    "Look": (report, view, maps, ranks, corruptions),
    "Papers": (published, toy),
    "Parts": (list_parts, check, datasets, cache, cluster),
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
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Print more; show tracebacks of errors."),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="Print only results and errors."),
) -> None:
    level = logging.DEBUG if verbose else logging.ERROR if quiet else logging.WARNING
    logging.basicConfig(
        level=max(level, logging.WARNING), format="%(message)s", force=True
    )  # other libraries stay quiet
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
    """Print one line, save the traceback, and exit with a code of its own."""
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile("w", prefix="levelfield-", suffix=".txt", delete=False, errors="replace") as file:
        file.write(traceback.format_exc())
    message = _shortened(f"{type(error).__name__}: {error}")
    _tell(f"Internal error in levelfield ({message}). Please report it with the traceback in {file.name}")
    sys.exit(UNEXPECTED)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line. A LevelfieldError prints one message; the exit code is then never 0."""
    for printed in (sys.stdout, sys.stderr):
        if isinstance(printed, io.TextIOWrapper):  # a name that is not valid UTF-8 is printed with escapes
            printed.reconfigure(errors="backslashreplace")
    atexit.register(gc.freeze)  # else Python searches torch for garbage at exit: half a second
    arguments = _for_all_commands_first(sys.argv[1:] if arguments is None else arguments)
    arguments = with_ray_address(arguments)
    try:
        with trusting():  # a command runs only files that the user named
            code = app(arguments, standalone_mode=False)
    except LevelfieldError as error:
        if {"-v", "--verbose"} & set(arguments):
            import traceback

            traceback.print_exc()
        _tell(str(error))
        sys.exit(1)
    except CommandEnded as error:
        _tell(str(error))
        sys.exit(1)
    except _UsageError as error:
        error.show()  # type: ignore[attr-defined]
        sys.exit(2)
    except BrokenPipeError:  # the reader closed the pipe, e.g. `levelfield list metrics | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if error.filename is None:
            _end_unexpectedly(error)
        _tell(f"Cannot use {_shortened(str(error.filename))}: {error.strerror}.")
        sys.exit(1)
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # rich ends a help text whose reader closed the pipe
            sys.exit(1)
        # otherwise raised by code in a file that the user named
        argument = "" if error.code is None else repr(error.code)
        _tell(f"Code in a file that you named called sys.exit({argument}).")
        sys.exit(1)
    except Exception as error:  # a bug of levelfield
        if type(error).__name__ != "OutOfMemoryError":  # torch's; a run explains its own
            _end_unexpectedly(error)
        _tell("The memory of the GPU is not enough. Use --device cpu, or end other programs that use the GPU.")
        sys.exit(1)
    if code == _INTERRUPTED:  # newer versions of typer turn Ctrl-C into this code
        error_console.print("\nStopped. Nothing is lost: run the same command again to continue.")
    sys.exit(code or 0)
