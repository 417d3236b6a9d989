"""The `levelfield` command: sub-commands, errors and Ctrl-C."""

from __future__ import annotations

import atexit
import gc
import io
import logging
import os
import sys
from collections.abc import Callable
from typing import NoReturn

import typer
from rich.text import Text

from levelfield import __version__
from levelfield.cli import (
    cache,
    check,
    cluster,
    compact,
    compare,
    corrupt,
    corruptions,
    datasets,
    embed,
    ensemble,
    evaluate,
    export,
    index,
    init,
    list_parts,
    maps,
    published,
    ranks,
    report,
    search,
    threshold,
    toy,
    train,
    tune,
    view,
)
from levelfield.cli.console import error_console
from levelfield.cli.executors import with_ray_address
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

# panel -> command -> what runs it, and the arguments of its example
PANELS: dict[str, dict[str, tuple[Callable[..., None] | typer.Typer, str]]] = {
    "Compare": {
        "compare": (compare.compare, "demo conditions.dim=64 seeds=5 --jobs 2"),
        "tune": (tune.tune, "demo --trials 30 --jobs 2 --compare"),
        "train": (train.train, "demo --method best --all-classes"),
        "init": (init.init, "--from demo my.yaml"),
    },
    "Use": {
        "embed": (embed.embed, "runs/demo/best photos --out e.npy"),
        "search": (search.search, "index query.jpg"),
        "index": (index.index, "runs/demo/best photos --out index"),
        "export": (export.export, "runs/demo/best --out exported"),
    },
    "Measure": {
        "evaluate": (evaluate.evaluate, "--embeddings e.npy --labels y.npy --metrics recall@1,map@r"),
        "threshold": (threshold.threshold, "runs/demo/margin --choose-on training"),
        "compact": (compact.compact, "runs/demo/margin"),
        "corrupt": (corrupt.corrupt, "runs/demo/margin --only jpeg,rotation"),
        "ensemble": (ensemble.ensemble, "runs/demo/margin runs/demo/hist --out both"),
    },
    "Look": {
        "report": (report.report, "runs/demo"),
        "view": (view.view, "runs/demo --open"),
        "maps": (maps.maps, "runs/demo/best --image photo.jpg --out maps.png"),
        "ranks": (ranks.ranks, "runs/demo runs/photos --out ranks"),
        "corruptions": (corruptions.sheet, "photo.jpg --out sheet.png"),
        "published": (published.published, "roth2020/table4"),
        "toy": (toy.toy, "--form vertical --seeds 3 --out toy.png"),
    },
    "Parts": {
        "list": (list_parts.list_names, "objectives margin"),
        "check": (check.check, "my_losses.py:MyLoss"),
        "datasets": (datasets.group, ""),
        "cache": (cache.cache, "--clear"),
        "cluster": (cluster.group, "check HOST:6379 --study demo"),
    },
}
for _panel, _commands in PANELS.items():
    for _name, (_command, _example) in _commands.items():
        _epilog = f"Example: levelfield {_name} {_example}".strip()
        if isinstance(_command, typer.Typer):
            app.add_typer(_command, name=_name, epilog=_epilog, rich_help_panel=_panel)
        else:
            app.command(_name, epilog=_epilog, rich_help_panel=_panel)(_command)


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


def _print_error(text: str) -> None:
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
    _print_error(f"Internal error in levelfield ({message}). Please report it with the traceback in {file.name}")
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
        _print_error(str(error))
        sys.exit(1)
    except CommandEnded as error:
        _print_error(str(error))
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
        _print_error(f"Cannot use {_shortened(str(error.filename))}: {error.strerror}.")
        sys.exit(1)
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # rich ends a help text whose reader closed the pipe
            sys.exit(1)
        # otherwise raised by code in a file that the user named
        argument = "" if error.code is None else repr(error.code)
        _print_error(f"Code in a file that you named called sys.exit({argument}).")
        sys.exit(1)
    except Exception as error:  # a bug of levelfield
        if type(error).__name__ != "OutOfMemoryError":  # torch's; a run explains its own
            _end_unexpectedly(error)
        _print_error("The memory of the GPU is not enough. Use --device cpu, or end other programs that use the GPU.")
        sys.exit(1)
    if code == _INTERRUPTED:  # newer versions of typer turn Ctrl-C into this code
        error_console.print("\nStopped. Nothing is lost: run the same command again to continue.")
    sys.exit(code or 0)
