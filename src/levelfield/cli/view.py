"""`levelfield view`: a study's page from a server on this machine, with live search."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from levelfield.cli.console import bar, error_console, note, say
from levelfield.cli.options import DeviceOption, ImagesOption, TrustOption, option


def view(
    folder: Annotated[Path, typer.Argument(help="Folder of a study, such as runs/demo.")],
    open_browser: Annotated[bool, option("--open", "Open the page in the browser.")] = False,
    port: Annotated[int, option("--port", "Port; 0: any free one.", min=0, max=65535)] = 0,
    root: ImagesOption = None,
    device: DeviceOption = "auto",
    trust_files: TrustOption = None,
) -> None:
    """Look at a study, and search with your own photos.

    Shows the page of `report --page` with full-size images, any query, and search with photos that you drop onto it.
    Only this machine can open it; photos are not stored. Ctrl-C ends it.
    """
    from levelfield.reports.view.server import Server
    from levelfield.reports.view.site import read_site

    with Server(port=port) as server:  # a port in use is known before the page is made
        with bar("making the page") as progress:
            server.site = read_site(folder, server.token, progress=progress)
        # browsers installed as snaps cannot read the system's own temporary folder
        home = folder if os.access(folder, os.W_OK) else None
        new_folder = partial(TemporaryDirectory, prefix="view-", dir=home, ignore_cleanup_errors=True)
        # no exceptions: one that is raised while Python collects garbage would be lost
        before = {name: signal.signal(name, lambda *_: server.end()) for name in (signal.SIGINT, signal.SIGTERM)}
        with new_folder() if open_browser else nullcontext() as private, warnings.catch_warnings():
            say(server.address)
            note("Open this address in a browser on this machine. Ctrl-C ends the server.")
            if private is not None:  # of this user alone
                _open(_redirect_to(server.address, Path(private)))
            warnings.simplefilter("ignore")  # such as Pillow's about large images; errors reach the page
            server.serve()
        for name, handler in before.items():
            signal.signal(name, handler)
    _leave()


def _leave() -> None:
    """End the process at once. Ending Python takes seconds when torch is imported, and aborts if a thread is inside it;
    there is nothing to save."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _redirect_to(address: str, folder: Path) -> str:
    """The URI of a new file in `folder` that leads to the address.

    A browser's command line is visible to all users of the machine, and the address holds the token.
    """
    path = folder / "open.html"
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={address}"><a href="{address}">Open</a>')
    return path.resolve().as_uri()


def _open(address: str) -> None:
    """Open the address in a browser, without waiting for it."""
    import threading
    import webbrowser

    def opened() -> None:
        if not webbrowser.open(address):
            error_console.print("The browser could not be started: open the address yourself.")

    with suppress(webbrowser.Error):
        # a generic one, such as lynx or w3m, would need this terminal
        if type(webbrowser.get()) is not webbrowser.GenericBrowser or "BROWSER" in os.environ:
            threading.Thread(target=opened, daemon=True).start()
            return
    error_console.print("No graphical browser was found: open the address yourself.")
