"""The server of `levelfield view`: what it answers, and what it refuses."""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from served import POLICY, ROWS, Client, made_site, serving

from levelfield.errors import BadInput
from levelfield.reports.view.addresses import LARGEST_BODY
from levelfield.reports.view.server import Server
from levelfield.trust import trusted, trusting


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


def test_head_has_the_headers_of_get_and_no_content(client: Client) -> None:
    got = client.ask("/", "HEAD")
    assert (got.status, got.headers, got.content) == (200, client.ask("/").headers, b"")


def test_localhost_is_a_name_of_this_machine(client: Client) -> None:
    assert client.ask("/", Host=f"localhost:{client.server.server_port}").status == 200


@pytest.mark.parametrize(
    "host", ["", "evil.example", "127.0.0.1", "127.0.0.1:1", "evil.example:{port}", "[::1]:{port}"]
)
def test_another_host_is_refused(client: Client, host: str) -> None:
    got = client.ask("/", Host=host.format(port=client.server.server_port))
    assert got.status == 403
    assert got.error == f"The header Host must be {client.host}."


def test_two_hosts_are_refused(client: Client) -> None:
    twice = f"GET /{client.server.token}/ HTTP/1.1\r\nHost: {client.host}\r\nHost: evil.example\r\n\r\n"
    assert client.send(twice.encode()).status == 403


@pytest.mark.parametrize(
    "target", ["/", "/image/0/1", "/wrong/", "/wrong/image/0/1", "//", "/%2e%2e/", "*", "x", "/\xe9/"]
)
def test_without_the_token_nothing_is_shown(client: Client, target: str) -> None:
    got = client.ask_raw(target)
    assert got.status == 403
    assert "token" in got.error
    assert client.server.token not in got.error


def test_a_part_of_the_token_is_not_enough(client: Client) -> None:
    assert client.ask_raw(f"/{client.server.token[:-1]}/").status == 403
    assert client.ask_raw(f"/{client.server.token}x/").status == 403
    assert client.ask_raw(f"http://evil.example/{client.server.token}/").status == 403


def test_browsers_get_no_icon_and_no_error(client: Client) -> None:
    got = client.ask_raw("/favicon.ico")
    assert (got.status, got.content) == (200, b"")


@pytest.mark.parametrize(
    "target",
    [
        "",
        "/..",
        "/../",
        "/image/0/..",
        "/image/0/../1",
        "/image/0/%2e%2e/1",
        "/image/0/..%2f..%2fetc%2fpasswd",
        "/image/0//etc/passwd",
        "/etc/passwd",
        "//etc/passwd",
        "/image/0/\0",
        "/image/0/1%00",
        "/image/0/-1",
        "/image/0/+1",
        "/image/0/01",
        "/image/0/1.0",
        "/image/0/1e3",
        "/image/0/" + "9" * 5000,
        "/image/0/12",
        "/image/1/0",
        "/image/0/\xb2",  # superscript two, a digit to str.isdigit
        "/image/0/\xd9\xa1",  # an Arabic one in UTF-8
        "/image/0/1/",
        "/image/0",
        "/image/0/1#x",
        "/neighbours/0/0/12",
        "/neighbours/0/1/0",
        "/neighbours/0/0/-1",
        "/search/0",
        "/page",
    ],
)
def test_what_is_not_on_the_page_is_not_there(client: Client, target: str) -> None:
    got = client.ask(target)
    assert got.status in (400, 404)
    assert got.error.endswith(".")


@pytest.mark.parametrize(
    "query", ["size=-1", "size=0", "size=1e3", "size=9999999999", "k=5", "size=5&size=6", "x", "size=%31"]
)
def test_a_wrong_size_is_refused(client: Client, query: str) -> None:
    assert client.ask(f"/image/0/1?{query}").status == 400
    assert client.ask(f"/?{query}").status == 400


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH", "get", "__class__"])
def test_other_methods_are_refused(client: Client, method: str) -> None:
    got = client.ask("/", method)
    assert got.status == 405
    assert got.headers["allow"] == "GET, HEAD, POST"
    assert not [name for name in got.headers if name.startswith("access-control")]


def test_a_page_is_not_posted_to_and_a_search_is_not_got(client: Client) -> None:
    assert client.ask("/", "POST", b"x").status == 405
    assert client.ask("/image/0/1", "POST", b"x").status == 405
    assert client.ask("/search/0/0").status == 405


def test_an_image_is_sent_as_jpeg_at_most_as_large_as_asked(client: Client) -> None:
    got = client.ask("/image/0/5")
    assert got.headers["content-type"] == "image/jpeg"
    assert Image.open(io.BytesIO(got.content)).size == (40, 20)
    assert abs(Image.open(io.BytesIO(got.content)).getpixel((9, 9))[0] - 100) < 5
    assert Image.open(io.BytesIO(client.ask("/image/0/5?size=10").content)).size == (10, 5)
    assert Image.open(io.BytesIO(client.ask("/image/0/5?size=999999").content)).size == (40, 20)


def test_a_lost_image_is_named(tmp_path: Path) -> None:
    site = made_site(tmp_path / "run")
    Path(site.tests[0].paths[3]).unlink()
    with serving(site) as client:
        got = client.ask("/image/0/3")
        assert (got.status, got.error) == (404, f"Cannot read the image {tmp_path}/run/3.png: the file does not exist.")
        assert client.ask("/image/0/4").status == 200


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
    with serving(made_site(tmp_path / "run", distance=distance, gallery=gallery)) as client:
        found = client.ask("/neighbours/0/0/1").json
    rows = ROWS.astype(np.float64)
    near = {
        "dot": rows @ rows[1],
        "euclidean": -np.sqrt(((rows - rows[1]) ** 2).sum(1)),
        "hamming": -((rows > 0) != (rows[1] > 0)).sum(1),
    }[distance]
    assert sorted(found["neighbours"]) == [0, 2, 4, 6, 8, 10]
    np.testing.assert_allclose(found["similarity"], sorted(near[gallery], reverse=True), rtol=1e-12)


def test_a_damaged_run_is_one_sentence(tmp_path: Path) -> None:
    site = made_site(tmp_path / "run")
    (tmp_path / "run" / "embeddings.npy").write_bytes(b"nothing")
    with serving(site) as client:
        got = client.ask("/neighbours/0/0/0")
        assert got.status == 422
        assert "checksum differs" in got.error


def test_a_bug_is_one_sentence_and_the_server_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = made_site(tmp_path / "run")
    monkeypatch.setattr(site.finder, "of_image", lambda *given: 1 / 0)
    with serving(site) as client:
        got = client.ask("/neighbours/0/0/0")
        assert (got.status, got.error) == (500, "Internal error in levelfield (ZeroDivisionError).")
        assert client.ask("/").status == 200


@pytest.mark.parametrize("origin", ["", "null", "http://evil.example", "https://{host}", "http://{host}.evil.example"])
def test_an_upload_from_elsewhere_is_refused(client: Client, origin: str) -> None:
    got = client.ask("/search/0/0", "POST", b"image", Origin=origin.format(host=client.host))
    assert got.status == 403
    assert "Origin" in got.error


@pytest.mark.parametrize(
    ("length", "status"),
    [("", 411), ("-1", 400), ("1x", 400), ("+5", 400), ("9" * 30, 400), ("0", 400), (str(LARGEST_BODY + 1), 413)],
)
def test_the_length_of_an_upload_is_checked_before_it_is_read(client: Client, length: str, status: int) -> None:
    got = client.ask("/search/0/0", "POST", b"image", **{"Content-Length": length})
    assert got.status == status
    assert got.error


def test_chunked_and_two_lengths_are_refused(client: Client) -> None:
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
    monkeypatch.setattr(site.finder, "of_picture", lambda *given: ([1, 2], [0.75, 0.25]))
    written = io.BytesIO()
    Image.new("RGB", (4, 4)).save(written, "PNG")
    with serving(site) as client:
        got = client.ask("/search/0/0", "POST", written.getvalue()).json
    assert got == {"neighbours": [1, 2], "similarity": [0.75, 0.25], "same": [True, False], "threshold": 0.5}


def test_requests_trust_what_the_command_trusts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = made_site(tmp_path / "run")
    seen: list[object] = []
    monkeypatch.setattr(site.finder, "of_image", lambda *given: (seen.append(trusted()), ([], []))[1])
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
