"""The `levelfield` command: sub-commands, errors and Ctrl-C."""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import logging
import os
import sys
import traceback
from typing import Any, NoReturn

import typer
from rich.text import Text

from levelfield import __version__
from levelfield.cli.console import SafeFormatter, error_console
from levelfield.cli.running import with_ray_address
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

# panel -> command -> the arguments of its example
PANELS: dict[str, dict[str, str]] = {
    "Compare": {
        "compare": "demo conditions.dim=64 seeds=5 --jobs 2",
        "tune": "demo --trials 30 --jobs 2 --compare",
        "train": "demo --method best --all-classes",
        "init": "--from demo my.yaml",
    },
    "Use": {
        "embed": "runs/demo/best photos --out e.npy",
        "search": "index query.jpg",
        "index": "runs/demo/best photos --out index",
        "export": "runs/demo/best --out exported",
    },
    "Measure": {
        "evaluate": "--embeddings e.npy --labels y.npy --metrics recall@1,map@r",
        "threshold": "runs/demo/margin --choose-on training",
        "compact": "runs/demo/margin",
        "corrupt": "runs/demo/margin --only jpeg,rotation",
        "ensemble": "runs/demo/margin runs/demo/hist --out both",
    },
    "Look": {
        "report": "runs/demo",
        "view": "runs/demo --open",
        "maps": "runs/demo/best --image photo.jpg --out maps.png",
        "ranks": "runs/demo runs/photos --out ranks",
        "corruptions": "photo.jpg --out sheet.png",
        "published": "roth2020/table4",
        "toy": "--form vertical --seeds 3 --out toy.png",
    },
    "Parts": {
        "list": "objectives margin",
        "check": "my_losses.py:MyLoss",
        "datasets": "",
        "cache": "--clear",
        "cluster": "check HOST:6379 --study demo",
    },
}
# a command is the function of its name in the file of its name, except for these; a group has commands of its own
_FILES = {"list": "list_parts", "corruptions": "corrupt", **dict.fromkeys(("ranks", "ensemble"), "report")}
for _panel, _examples in PANELS.items():
    for _name, _example in _examples.items():
        _module = importlib.import_module(f"levelfield.cli.{_FILES.get(_name, _name)}")
        _about: dict[str, Any] = {
            "epilog": f"Example: levelfield {_name} {_example}".strip(),
            "rich_help_panel": _panel,
        }
        if hasattr(_module, "group"):
            app.add_typer(_module.group, name=_name, **_about)
        else:
            app.command(_name, **_about)(getattr(_module, "list_parts" if _name == "list" else _name))


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
    # other libraries stay quiet
    handler = logging.StreamHandler()
    handler.setFormatter(SafeFormatter("%(message)s"))
    logging.basicConfig(level=max(level, logging.WARNING), handlers=[handler], force=True)
    logging.getLogger("levelfield").setLevel(level)


def _for_all_commands_first(arguments: list[str]) -> list[str]:
    """`levelfield compare ... -q` means the same as `levelfield -q compare ...`.

    >>> _for_all_commands_first(["embed", "run", "-q", "--", "-q"])
    ['-q', 'embed', 'run', '--', '-q']
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    moved = [word for word in arguments[:end] if word in ("-q", "--quiet", "-v", "--verbose")]
    return [*moved, *(word for word in arguments[:end] if word not in moved), *arguments[end:]]


def _refuse(text: str, code: int = 1) -> NoReturn:
    error_console.print(Text.assemble(("Error:", "red"), f" {text}"), soft_wrap=True)
    sys.exit(code)


def _shortened(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:60]}..."


def _end_unexpectedly(error: Exception) -> NoReturn:
    """Print one line, save the traceback, and exit with a code of its own."""
    import tempfile

    with tempfile.NamedTemporaryFile("w", prefix="levelfield-", suffix=".txt", delete=False, errors="replace") as file:
        file.write(traceback.format_exc())
    message = _shortened(f"{type(error).__name__}: {error}")
    _refuse(f"Internal error in levelfield ({message}). Please report it with the traceback in {file.name}", UNEXPECTED)


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
    except (LevelfieldError, CommandEnded) as error:
        if {"-v", "--verbose"} & set(arguments):
            error_console.print(traceback.format_exc(), soft_wrap=True)
        _refuse(str(error))
    except _UsageError as error:
        error.show()  # type: ignore[attr-defined]
        sys.exit(2)
    except BrokenPipeError:  # the reader closed the pipe, e.g. `levelfield list metrics | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if error.filename is None:
            _end_unexpectedly(error)
        _refuse(f"Cannot use {_shortened(str(error.filename))}: {error.strerror}.")
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # rich ends a help text whose reader closed the pipe
            sys.exit(1)
        # otherwise raised by code in a file that the user named
        argument = "" if error.code is None else repr(error.code)
        _refuse(f"Code in a file that you named called sys.exit({argument}).")
    except Exception as error:  # a bug of levelfield
        if type(error).__name__ != "OutOfMemoryError":  # torch's; a run explains its own
            _end_unexpectedly(error)
        _refuse("The memory of the GPU is not enough. Use --device cpu, or end other programs that use the GPU.")
    if code == _INTERRUPTED:  # newer versions of typer turn Ctrl-C into this code
        error_console.print("\nStopped. Nothing is lost: run the same command again to continue.")
    sys.exit(code or 0)
