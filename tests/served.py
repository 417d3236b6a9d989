"""A server of a small made-up study, and requests to it."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from levelfield.reports.page.image_set import ImageSet
from levelfield.reports.view.server import Server
from levelfield.reports.view.site import Searched, Site
from levelfield.studies.runs.folder.files import EMBEDDINGS, write_training
from levelfield.studies.runs.folder.items import Items

ROWS = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)
ROWS[7] = ROWS[3]  # a tie
POLICY = "default-src 'none'; connect-src 'self'"


def made_run(folder: Path, rows: np.ndarray = ROWS) -> Path:
    """A run folder with images and embeddings, without a model."""
    folder.mkdir(parents=True)
    paths = []
    for number in range(len(rows)):
        paths.append(folder / f"{number}.png")
        Image.new("RGB", (40, 20), (20 * number % 256, 0, 0)).save(paths[-1])
    Items([str(path) for path in paths], np.arange(len(rows)) // 2).write(folder)
    np.save(folder / EMBEDDINGS, rows)
    summary = {"step": 0, "seconds": 1.0, "collapsed": False, "idle_batches": 0}
    write_training(folder, {"summary": summary, "measured": {"dim": rows.shape[1]}, "deviations": []})
    return folder


def made_site(folder: Path, *, distance: str = "cosine", asked: np.ndarray | None = None) -> Site:
    run = made_run(folder)
    codes = np.arange(len(ROWS)) // 2
    images = ImageSet([run / f"{number}.png" for number in range(len(ROWS))], list("abcdef"), codes, asked)
    return Site(b"<!doctype html>page", POLICY, [(images, [Searched(run, distance, 0.5)])])


@dataclass(frozen=True)
class Got:
    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)

    @property
    def error(self) -> str:
        """The one sentence of a refusal."""
        assert self.headers["content-type"] == "application/json"
        assert list(self.json) == ["error"]
        assert "Traceback" not in self.json["error"]
        return str(self.json["error"])


@dataclass(frozen=True)
class Client:
    server: Server

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server.server_port}"

    def ask(self, target: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Got:
        """A request below the token; a header of the value '' is left out."""
        return self.ask_raw(f"/{self.server.token}{target}", method, body, **headers)

    def ask_raw(self, target: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Got:
        sent = {"Host": self.host}
        if method == "POST":
            sent |= {"Origin": f"http://{self.host}", "Content-Length": str(len(body or b""))}
        sent = {name: value for name, value in {**sent, **headers}.items() if value}
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items())]
        return self.send("\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b""))

    def send(self, content: bytes) -> Got:
        """Any bytes as a request."""
        with socket.create_connection(("127.0.0.1", self.server.server_port), timeout=20) as connection:
            connection.sendall(content)
            response = http.client.HTTPResponse(connection, method="HEAD" if content[:4] == b"HEAD" else "GET")
            response.begin()
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Got(response.status, headers, response.read())


@contextmanager
def serving(site: Site | Callable[[str], Site], **settings: Any) -> Iterator[Client]:
    """The site, perhaps given its token, on a server in a thread of its own, ended afterwards."""
    with Server(**settings) as server:
        server.site = site if isinstance(site, Site) else site(server.token)
        thread = threading.Thread(target=server.serve)
        thread.start()
        try:
            yield Client(server)
        finally:
            server.end()
            thread.join()
