"""`levelfield view`: the page, its images and live search from a server that ends with Ctrl-C or SIGTERM."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import numpy as np
import pytest
from cli_room import Ended, Levelfield

from levelfield.embedder import load
from levelfield.reports.view.server import Server
from levelfield.studies.runs.finished import stored_test

STUDY = "runs/small"


def ask(address: str, below: str = "", body: bytes | None = None) -> tuple[int, bytes]:
    url = urlsplit(address)
    connection = http.client.HTTPConnection(url.netloc, timeout=60)
    method, headers = ("GET", {}) if body is None else ("POST", {"Origin": f"http://{url.netloc}"})
    connection.request(method, url.path + below, body, headers)
    response = connection.getresponse()
    return response.status, response.read()


def data_of(page: bytes) -> Any:
    [data] = re.findall(rb'<script type="application/json" id="page-data">(.*?)</script>', page, re.DOTALL)
    return json.loads(data)


@contextmanager
def started(folder: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command in a process of its own, and the address that it printed."""
    command = [sys.executable, "-m", "levelfield", "view", *words]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def cosine(*rows: np.ndarray) -> float:
    first, second = (row.astype(np.float64) / np.linalg.norm(row.astype(np.float64)) for row in rows)
    return float(first @ second)


def test_a_photo_is_searched_and_ctrl_c_ends_the_server_at_once(compared: Path) -> None:
    with started(compared, STUDY) as (process, address):
        status, page = ask(address)
        data = data_of(page)
        assert status == 200
        assert data["live"] == {"token": urlsplit(address).path.strip("/"), "runs": [0, 1, 2]}
        for number, method in enumerate(data["tests"][0]["methods"]):
            row = data["rows"][method["row"]]
            assert row["embedded"] == number
            rows, items = stored_test(compared / STUDY / row["run"])
            content = json.loads(ask(address, f"search/0/{number}", Path(items.paths[5]).read_bytes())[1])
            assert content["neighbours"][0] == 5
            # one image is not filled up to a block, so that the last bits of its row may differ from the stored ones
            query = load(compared / STUDY / row["run"]).embed(items.paths[5], normalize=False, exact=False)[0]
            assert content["similarity"][0] == pytest.approx(cosine(query, rows[5]), abs=1e-12)
            assert content["same"] == [value >= content["threshold"] for value in content["similarity"]]
            assert len(content["neighbours"]) == 16
            stored = json.loads(ask(address, f"neighbours/0/{number}/5?k=3")[1])
            assert stored["neighbours"] == content["neighbours"][1:4]
        url = urlsplit(address)
        head = f"POST {url.path}search/0/0 HTTP/1.1\r\nHost: {url.netloc}\r\nOrigin: http://{url.netloc}\r\n"
        with socket.create_connection((str(url.hostname), int(url.port or 0))) as unfinished:
            unfinished.sendall(f"{head}Content-Length: 99\r\n\r\n".encode())
            assert ask(address, "image/0/3")[0] == 200
            process.send_signal(signal.SIGINT)
            _, text = process.communicate(timeout=20)
        assert process.returncode == 0
        assert text == "Device: cpu\nOpen this address in a browser on this machine. Ctrl-C ends the server.\n"


@pytest.fixture
def viewed(levelfield: Levelfield, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    """The command in this process; `look(address)` is called while it serves, then SIGTERM ends it."""

    def run(look: Callable[[str], object], *words: str) -> Ended:
        def served(server: Server) -> None:
            def meanwhile() -> None:
                try:
                    look(server.address)
                finally:
                    os.kill(os.getpid(), signal.SIGTERM)

            threading.Thread(target=meanwhile).start()
            plainly(server)

        plainly = Server.serve
        monkeypatch.setattr(Server, "serve", served)
        monkeypatch.setattr("levelfield.cli.view._leave", lambda: None)  # it would end this process
        return levelfield("view", STUDY, *words)

    return run


def test_sigterm_ends_it_and_nothing_is_written(compared: Path, viewed: Callable[..., Ended]) -> None:
    before = {path: path.stat().st_mtime_ns for path in compared.rglob("*")}
    handler = signal.getsignal(signal.SIGTERM)
    seen: list[int] = []
    ended = viewed(lambda address: seen.append(ask(address)[0]), "-q")
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{32}/\n", ended.printed)
    assert (seen, ended.err) == ([200], "")
    assert {path: path.stat().st_mtime_ns for path in compared.rglob("*")} == before
    assert signal.getsignal(signal.SIGTERM) == handler


def test_the_data_of_a_written_page_are_used_again_but_not_its_script(
    compared: Path, levelfield: Levelfield, viewed: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **more: object) -> None:
        raise AssertionError("the page is there")

    levelfield("-q", "report", STUDY, "--page")
    monkeypatch.setattr("levelfield.reports.view.site.collect", refuse)
    written = compared / STUDY / "report.html"
    text = written.read_text()
    written.write_text(text.replace("<script>", "<script>alert(1);"))
    pages: list[bytes] = []
    assert viewed(lambda address: pages.append(ask(address)[1])).code == 0
    [page] = pages
    assert b"alert(1)" not in page
    assert b"connect-src 'self'" in page
    shown = data_of(page)
    assert shown.pop("live")["runs"] == [0, 1, 2]
    wanted = data_of(text.encode())
    assert wanted.pop("live") is None
    assert shown == wanted


def test_a_written_page_of_other_runs_is_not_used(
    compared: Path, levelfield: Levelfield, viewed: Callable[..., Ended]
) -> None:
    levelfield("-q", "report", STUDY, "--page")
    written = compared / STUDY / "report.html"
    written.write_text(written.read_text().replace('"study":"small"', '"study":"another"')[:-10] + "changed -->\n")
    pages: list[bytes] = []
    viewed(lambda address: pages.append(ask(address)[1]))
    assert data_of(pages[0])["study"] == "small"


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ('"tests":[', '"tests":[5,'),
        ('"methods":[', '"methods":[7,'),
        ('"row":0', '"row":99'),
        ('"rows":', '"lines":'),
        ('"about":', f'"deep":{"[" * 700}{"]" * 700},"about":'),
    ],
)
def test_a_page_with_forged_data_is_one_message(compared: Path, levelfield: Levelfield, text: str, other: str) -> None:
    levelfield("-q", "report", STUDY, "--page")
    written = compared / STUDY / "report.html"
    assert text in written.read_text()
    written.write_text(written.read_text().replace(text, other))
    ended = levelfield("view", STUDY)
    assert f"{STUDY}/report.html does not have the data of the study's runs; write it again: levelfield" in ended.error
    written.write_bytes(written.read_bytes().replace(b'"study":"small"', b'"study":"\xff"'))
    assert "report.html is not a page of levelfield" in levelfield("view", STUDY).error


def test_verbose_logs_requests_without_the_token(compared: Path, viewed: Callable[..., Ended]) -> None:
    ended = viewed(lambda address: ask(address, "image/0/2"), "-v")
    assert "GET /.../image/0/2: 200" in ended.err
    assert urlsplit(ended.printed.strip()).path.strip("/") not in ended.err


def test_open_gives_the_browser_a_private_file_that_leads_to_the_address_and_is_gone_afterwards(
    compared: Path, viewed: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[tuple[str, str, int, int]] = []
    called = threading.Event()

    def open_it(address: str) -> bool:
        path = Path(url2pathname(urlsplit(address).path))
        modes = [stat.S_IMODE(entry.stat().st_mode) for entry in (path, path.parent)]
        opened.append((address, path.read_text(), *modes))
        called.set()
        return True

    monkeypatch.setattr(webbrowser, "get", webbrowser.BaseBrowser)
    monkeypatch.setattr(webbrowser, "open", open_it)
    before = sorted(compared.rglob("*"))
    ended = viewed(lambda address: called.wait(20), "--open")
    [(address, text, mode, mode_of_folder)] = opened
    assert address.startswith("file://")
    assert urlsplit(ended.printed.strip()).path.strip("/") not in address
    assert f'content="0; url={ended.printed.strip()}"' in text
    assert (mode, mode_of_folder) == (0o600, 0o700)
    assert sorted(compared.rglob("*")) == before


def test_without_a_browser_the_address_is_left_to_the_user(
    compared: Path, viewed: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> None:
        raise webbrowser.Error("could not locate runnable browser")

    monkeypatch.setattr(webbrowser, "get", none)
    ended = viewed(lambda address: None, "--open")
    assert ended.code == 0
    assert "No graphical browser was found: open the address yourself." in ended.err


def test_what_cannot_be_viewed_gets_one_message(levelfield: Levelfield, compared: Path) -> None:
    assert "runs is not a study folder: it has no runs.json" in levelfield("view", "runs").error
    assert "nowhere is not a study folder" in levelfield("view", "nowhere").error
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        message = levelfield("view", STUDY, "--port", port).error
    assert message.startswith(f"Error: Cannot use port {port}: address already in use. Choose another with --port")
    assert levelfield("view", STUDY, "--port", "70000").code == 2
    for rows in (compared / STUDY).glob("*/*/embeddings.npy"):
        rows.unlink()
    assert "has test embeddings, so there is nothing to search" in levelfield("view", STUDY).error
