"""The server of `levelfield view`: what it answers, and what it refuses."""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from levelfield.errors import BadInput
from levelfield.reports.view.server import LARGEST_BODY, Server
from levelfield.trust import trusted, trusting
from served import POLICY, ROWS, Client, made_site, serving


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with serving(made_site(tmp_path_factory.mktemp("study") / "run")) as client:
        yield client


def test_the_page_is_sent_with_its_policy_and_without_cors(client: Client) -> None:
    got = client.ask("/")
    assert (got.status, got.content) == (200, b"<!doctype html>page")
    assert got.headers["content-type"] == "text/html; charset=utf-8"
    assert got.headers["content-security-policy"] == f"{POLICY}; frame-ancestors 'none'"
    assert got.headers["x-content-type-options"] == "nosniff"
    assert got.headers["referrer-policy"] == "no-referrer"
    assert got.headers["cross-origin-resource-policy"] == "same-origin"
    assert got.headers["cache-control"] == "no-store"
    assert not [name for name in got.headers if name.startswith("access-control")]
    assert "server" not in got.headers


def test_head_has_the_headers_of_get_and_browsers_get_no_icon_and_no_error(client: Client) -> None:
    got = client.ask("/", "HEAD")
    assert (got.status, got.headers, got.content) == (200, client.ask("/").headers, b"")
    icon = client.ask_raw("/favicon.ico")
    assert (icon.status, icon.content) == (200, b"")


def test_another_host_is_refused(client: Client) -> None:
    port = client.server.server_port
    assert client.ask("/", Host=f"localhost:{port}").status == 200
    for host in ("", "evil.example", "127.0.0.1", "127.0.0.1:1", f"evil.example:{port}", f"[::1]:{port}"):
        got = client.ask("/", Host=host)
        assert (got.status, got.error) == (403, f"The header Host must be {client.host}.")
    twice = f"GET /{client.server.token}/ HTTP/1.1\r\nHost: {client.host}\r\nHost: evil.example\r\n\r\n"
    assert client.send(twice.encode()).status == 403


def test_without_the_token_nothing_is_shown(client: Client) -> None:
    token = client.server.token
    alike = [f"/{token[:-1]}/", f"/{token}x/", f"http://evil.example/{token}/"]
    for target in ("/", "/image/0/1", "/wrong/", "/wrong/image/0/1", "//", "/%2e%2e/", "*", "x", "/\xe9/", *alike):
        got = client.ask_raw(target)
        assert got.status == 403
        assert "token" in got.error
        assert token not in got.error


ELSEWHERE = """
|/..|/../|/image/0/..|/image/0/../1|/image/0/%2e%2e/1|/image/0/..%2f..%2fetc%2fpasswd|/image/0//etc/passwd|/etc/passwd
|//etc/passwd|/image/0/\0|/image/0/1%00|/image/0/-1|/image/0/+1|/image/0/01|/image/0/1.0|/image/0/1e3|/image/0/12
|/image/1/0|/image/0/\xb2|/image/0/\xd9\xa1|/image/0/1/|/image/0|/image/0/1#x|/neighbours/0/0/12|/neighbours/0/1/0
|/neighbours/0/0/-1|/search/0|/page"""  # \xb2, \xd9\xa1: digits to str.isdigit


def test_what_is_not_on_the_page_is_not_there(client: Client) -> None:
    for target in [*ELSEWHERE.replace("\n", "").split("|"), "/image/0/" + "9" * 5000]:
        got = client.ask(target)
        assert got.status in (400, 404), target
        assert got.error.endswith(".")
    for query in ("size=-1", "size=0", "size=1e3", "size=9999999999", "k=5", "size=5&size=6", "x", "size=%31"):
        assert client.ask(f"/image/0/1?{query}").status == 400
        assert client.ask(f"/?{query}").status == 400


def test_other_methods_are_refused(client: Client) -> None:
    for method in ("PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH", "get", "__class__"):
        got = client.ask("/", method)
        assert got.status == 405
        assert got.headers["allow"] == "GET, HEAD, POST"
        assert not [name for name in got.headers if name.startswith("access-control")]
    assert client.ask("/", "POST", b"x").status == 405
    assert client.ask("/image/0/1", "POST", b"x").status == 405
    assert client.ask("/search/0/0").status == 405


def test_an_image_is_sent_as_jpeg_at_most_as_large_as_asked_and_a_lost_one_is_named(tmp_path: Path) -> None:
    site = made_site(tmp_path / "run")
    site.tests[0][0].paths[3].unlink()
    with serving(site) as client:
        got = client.ask("/image/0/5")
        assert got.headers["content-type"] == "image/jpeg"
        assert Image.open(io.BytesIO(got.content)).size == (40, 20)
        assert abs(Image.open(io.BytesIO(got.content)).getpixel((9, 9))[0] - 100) < 5
        assert Image.open(io.BytesIO(client.ask("/image/0/5?size=10").content)).size == (10, 5)
        assert Image.open(io.BytesIO(client.ask("/image/0/5?size=999999").content)).size == (40, 20)
        lost = client.ask("/image/0/3")
        message = f"Cannot read the image {tmp_path}/run/3.png: the file does not exist."
        assert (lost.status, lost.error) == (404, message)


def cosines(number: int) -> np.ndarray:
    rows = ROWS.astype(np.float64)
    return np.array([row @ rows[number] / np.sqrt((row @ row) * (rows[number] @ rows[number])) for row in rows])


def test_neighbours_are_those_of_a_plain_loop_without_the_image_itself(client: Client) -> None:
    for number in range(len(ROWS)):
        wanted = cosines(number)
        order = [place for place in np.argsort(-wanted, kind="stable") if place != number]
        found = client.ask(f"/neighbours/0/0/{number}").json
        if number not in (3, 7):  # whose rows are equal: below
            assert [place for place in found["neighbours"] if place != 7] == [place for place in order if place != 7]
        np.testing.assert_allclose(found["similarity"], wanted[found["neighbours"]], rtol=1e-12, atol=1e-12)
    assert client.ask("/neighbours/0/0/3?k=1").json["neighbours"] == [7]
    assert client.ask("/neighbours/0/0/7?k=1").json["neighbours"] == [3]
    tied = client.ask("/neighbours/0/0/0").json["neighbours"]
    assert tied.index(7) == tied.index(3) + 1


@pytest.mark.parametrize("distance", ["dot", "euclidean", "hamming"])
def test_neighbours_follow_the_distance_and_the_gallery(tmp_path: Path, distance: str) -> None:
    gallery = np.arange(len(ROWS)) % 2 == 0
    with serving(made_site(tmp_path / "run", distance=distance, asked=~gallery)) as client:
        found = client.ask("/neighbours/0/0/1").json
    rows = ROWS.astype(np.float64)
    near = {
        "dot": rows @ rows[1],
        "euclidean": -np.sqrt(((rows - rows[1]) ** 2).sum(1)),
        "hamming": -((rows > 0) != (rows[1] > 0)).sum(1),
    }[distance]
    assert sorted(found["neighbours"]) == [0, 2, 4, 6, 8, 10]
    np.testing.assert_allclose(found["similarity"], sorted(near[gallery], reverse=True), rtol=1e-12)


def test_a_damaged_run_or_a_bug_is_one_sentence_and_the_server_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = made_site(tmp_path / "run")
    (tmp_path / "run" / "embeddings.npy").write_bytes(b"nothing")
    with serving(site) as client:
        got = client.ask("/neighbours/0/0/0")
        assert got.status == 422
        assert "checksum differs" in got.error
        monkeypatch.setattr(site, "of_image", lambda *given: 1 / 0)
        got = client.ask("/neighbours/0/0/0")
        assert (got.status, got.error) == (500, "Internal error in levelfield (ZeroDivisionError).")
        assert client.ask("/").status == 200


def test_an_upload_from_elsewhere_or_of_a_wrong_length_is_refused_before_it_is_read(client: Client) -> None:
    elsewhere = ("null", "http://evil.example", f"https://{client.host}", f"http://{client.host}.evil.example")
    for origin in ("", *elsewhere):
        got = client.ask("/search/0/0", "POST", b"image", Origin=origin)
        assert got.status == 403
        assert "Origin" in got.error
    large = str(LARGEST_BODY + 1)
    wrong = {"": 411, "-1": 400, "1x": 400, "+5": 400, "9" * 30: 400, "0": 400, large: 413}
    for length, status in wrong.items():
        got = client.ask("/search/0/0", "POST", b"image", **{"Content-Length": length})
        assert (got.status, bool(got.error)) == (status, True)
    chunked = client.ask("/search/0/0", "POST", b"5\r\nimage\r\n0\r\n\r\n", **{"Transfer-Encoding": "chunked"})
    assert chunked.status == 411
    head = f"POST /{client.server.token}/search/0/0 HTTP/1.1\r\nHost: {client.host}\r\nOrigin: http://{client.host}\r\n"
    got = client.send(f"{head}Content-Length: 5\r\nContent-Length: 6\r\n\r\nimages".encode())
    assert got.status == 400


def test_a_too_large_upload_gets_its_answer_although_it_is_not_read(client: Client) -> None:
    got = client.ask("/search/0/0", "POST", bytes(LARGEST_BODY + 1))
    assert (got.status, got.error) == (413, "The image has 25,000,001 bytes; the limit is 25,000,000.")


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\n\r\n", 505),
        (b"GET / HTTP/x\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),  # TLS
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n", 431),
    ],
)
def test_what_is_not_http_or_too_long_is_refused(client: Client, content: bytes, status: int) -> None:
    got = client.send(content)
    assert got.status == status
    assert got.error


def test_a_second_request_in_the_same_connection_is_not_answered(client: Client) -> None:
    one = f"GET /{client.server.token}/ HTTP/1.1\r\nHost: {client.host}\r\nConnection: keep-alive\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", client.server.server_port), timeout=20) as connection:
        connection.sendall(one + one)
        received = b""
        try:
            while part := connection.recv(65536):
                received += part
        except ConnectionResetError:  # the second request was not read
            pass
    assert received.count(b"HTTP/1.0 200") == 1


def test_an_upload_that_stops_is_ended(tmp_path: Path) -> None:
    with serving(made_site(tmp_path / "run"), seconds=0.2) as client:
        head = f"POST /{client.server.token}/search/0/0 HTTP/1.1\r\nHost: {client.host}\r\nContent-Length: 9999\r\n"
        got = client.send(f"{head}Origin: http://{client.host}\r\n\r\nx".encode())
        assert (got.status, got.error) == (408, "The upload did not arrive completely or in time.")
        assert client.ask("/").status == 200


def test_an_upload_is_searched_and_compared_with_the_threshold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = made_site(tmp_path / "run")
    monkeypatch.setattr(site, "of_picture", lambda *given: ([1, 2], [0.75, 0.25]))
    written = io.BytesIO()
    Image.new("RGB", (4, 4)).save(written, "PNG")
    with serving(site) as client:
        got = client.ask("/search/0/0", "POST", written.getvalue()).json
    assert got == {"neighbours": [1, 2], "similarity": [0.75, 0.25], "same": [True, False], "threshold": 0.5}


def test_requests_trust_what_the_command_trusts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = made_site(tmp_path / "run")
    seen: list[object] = []
    monkeypatch.setattr(site, "of_image", lambda *given: (seen.append(trusted()), ([], []))[1])
    with trusting(tmp_path / "mine.py"), serving(site) as client:
        assert client.ask("/neighbours/0/0/0").status == 200
    assert seen == [(str(tmp_path / "mine.py"),)]


def test_only_this_machine_is_served_and_every_address_is_new() -> None:
    with Server() as one, Server() as other:
        assert one.socket.getsockname()[0] == "127.0.0.1"
        assert len(one.token) >= 32
        assert one.token != other.token
        with pytest.raises(BadInput, match=f"Cannot use port {one.server_port}: .*in use.*--port"):
            Server(port=one.server_port)
