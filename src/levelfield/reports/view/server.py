"""The server of `levelfield view`: on loopback only, at an address with a secret, for its own page only.

An address is matched as a whole and never decoded, so no path can come from a client: `..`, `%2e` or NUL match
nothing.
"""

from __future__ import annotations

import contextvars
import json
import logging
import re
import secrets
import socket
import socketserver
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from levelfield.errors import BadInput, LevelfieldError
from levelfield.reports.view.site import Answer, Asked, Refused, Site

logger = logging.getLogger(__name__)

HOST = "127.0.0.1"
LARGEST_BODY = 25_000_000  # bytes of an uploaded image: more than a photo of 50 megapixels needs
_SECONDS = 20.0  # without a byte until a connection is closed
_LINGER = 2.0  # seconds in which the rest of a refused upload is read, so that the client gets the answer
_METHODS = "GET, HEAD, POST"
_NUMBER = "(0|[1-9][0-9]{0,8})"
_ADDRESSES = {  # pattern of the path, and the name of the number that may follow after "?"
    "page": ("/", ""),
    "image": (f"/image/{_NUMBER}/{_NUMBER}", "size"),
    "neighbours": (f"/neighbours/{_NUMBER}/{_NUMBER}/{_NUMBER}", "k"),
    "search": (f"/search/{_NUMBER}/{_NUMBER}", "k"),
}
_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Connection": "close",
}


class Server(ThreadingHTTPServer):
    """Serves a site at `address`, which holds a random token. `site` can be set until the first request.

    Requests see the context variables of the thread that made the server: the files that a command trusts.
    """

    daemon_threads = True
    timeout = 0.1  # seconds until `serve` checks whether it should end
    request_queue_size = 64
    site: Site

    def __init__(self, *, port: int = 0, seconds: float = _SECONDS) -> None:
        self.token = secrets.token_urlsafe(24)
        self.seconds = seconds
        self._context = contextvars.copy_context()
        self._ended = False
        try:
            super().__init__((HOST, port), Handler)
        except OSError as error:
            raise BadInput(
                f"Cannot use port {port}: {(error.strerror or str(error)).lower()}. Choose another with --port, or "
                "leave --port out for any free one."
            ) from error

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    def serve(self) -> None:
        """Serve until `end` is called."""
        while not self._ended:
            self.handle_request()

    def end(self) -> None:
        """Let `serve` return within a moment. Only sets a flag, so that a signal handler may call it at any time."""
        self._ended = True

    def server_bind(self) -> None:
        """Bind without looking the host name up, which may ask the network."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.server_address[1]

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        self._context.copy().run(super().process_request_thread, request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.debug("A connection ended with an error.", exc_info=True)


class Handler(BaseHTTPRequestHandler):
    """HTTP/1.0 on purpose: one request for each connection, so nothing can follow a request."""

    server: Server
    protocol_version = "HTTP/1.0"

    def setup(self) -> None:
        super().setup()
        self.connection.settimeout(self.server.seconds)  # for each part that is read or written

    def do_GET(self) -> None:
        try:
            self._reply(HTTPStatus.OK, self._answer())
        except Refused as error:
            self._refuse(error.status, str(error))

    do_HEAD = do_POST = do_GET

    def _answer(self) -> Answer:
        """Check the request, then ask the site; an error inside becomes one sentence."""
        host = self._host()
        if self.path == "/favicon.ico":  # browsers ask for it by themselves
            return Answer("image/x-icon", b"")
        asked = asked_by(self.command, self.path, self.server.token)
        body = self._upload(host) if self.command == "POST" else b""
        try:
            return self.server.site.answer(asked, body)
        except Refused:
            raise
        except LevelfieldError as error:
            raise Refused(422, str(error)) from error
        except Exception as error:  # a bug, or no memory is left: the server goes on
            logger.debug("Internal error", exc_info=True)
            raise Refused(500, f"Internal error in levelfield ({type(error).__name__}).") from error

    def _host(self) -> str:
        """The Host of a request, which must be this server: a page elsewhere whose name points here has another."""
        allowed = [f"{name}:{self.server.server_port}" for name in (HOST, "localhost")]
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or hosts[0] not in allowed:
            raise Refused(403, f"The header Host must be {allowed[0]}.")
        return str(hosts[0])

    def _upload(self, host: str) -> bytes:
        """The uploaded bytes, which must come from the server's own page."""
        if self.headers.get_all("Origin") != [f"http://{host}"]:
            raise Refused(403, f"The header Origin must be http://{host}.")
        lengths = self.headers.get_all("Content-Length", [])
        if "Transfer-Encoding" in self.headers or not lengths:
            raise Refused(411, "An upload needs the header Content-Length, and no Transfer-Encoding.")
        if len(lengths) != 1 or re.fullmatch("[0-9]{1,18}", lengths[0]) is None or not int(lengths[0]):
            raise Refused(400, "The header Content-Length is not valid: send the bytes of an image, and their number.")
        length = int(lengths[0])
        if length > LARGEST_BODY:
            raise Refused(413, f"The image has {length:,} bytes; the limit is {LARGEST_BODY:,}.")
        try:
            content = self.rfile.read(length)
        except TimeoutError:
            content = b""
        if len(content) < length:
            raise Refused(408, "The upload did not arrive completely or in time.")
        return content

    def _reply(self, status: int, answer: Answer) -> None:
        below = getattr(self, "path", "").removeprefix("/").partition("/")[2]  # without the token
        logger.debug("%s /.../%s: %s", self.command, ascii(below)[1:-1], int(status))
        self.request_version = "HTTP/1.0"  # an answer in HTTP/0.9 would have no headers
        self.send_response_only(status)
        headers = {
            "Content-Type": answer.kind,
            "Content-Length": str(len(answer.content)),
            "Content-Security-Policy": f"{answer.policy}; frame-ancestors 'none'",
            "Cache-Control": "private, max-age=600" if answer.lasting else "no-store",
            **_ALWAYS,
            **({"Allow": _METHODS} if status == HTTPStatus.METHOD_NOT_ALLOWED else {}),
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.content)

    def _refuse(self, status: int, sentence: str) -> None:
        """Send an error as one JSON sentence. The rest of the request is read for a moment and thrown away: closing
        the connection with unread bytes would take the answer from the client."""
        self._reply(status, Answer("application/json", json.dumps({"error": sentence}).encode()))
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_WR)
        self.connection.settimeout(_LINGER)
        end = time.monotonic() + _LINGER
        while time.monotonic() < end and self.connection.recv(65_536):
            pass

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Called by `http.server` for methods without a `do_` and for requests that it cannot parse."""
        if code == HTTPStatus.NOT_IMPLEMENTED:
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, f"This server supports {_METHODS} only.")
        else:
            self._refuse(code, "The request is not valid HTTP, or too long.")

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: requests are logged by `_reply`, for --verbose."""


def asked_by(method: str, target: str, token: str) -> Asked:
    """Read the target of a request.

    >>> asked_by("GET", "/t0ken/image/0/17?size=512", "t0ken")
    Asked(what='image', numbers=(0, 17), option=512)
    """
    path, _, query = target.partition("?")
    match = re.fullmatch("/([A-Za-z0-9_-]{1,100})(/.*)?", path, re.DOTALL)
    if match is None or not secrets.compare_digest(match[1], token):
        raise Refused(403, "The address lacks the token that `levelfield view` printed with it.")
    for what, (pattern, option) in _ADDRESSES.items():
        numbers = re.fullmatch(pattern, match[2] or "")
        if numbers is None:
            continue
        if (method == "POST") != (what == "search"):
            raise Refused(405, f"This address does not support {method}.")
        value = re.fullmatch(f"{option}=([1-9][0-9]{{0,8}})", query) if option else None
        if query and value is None:
            raise Refused(400, "The part of the address after '?' is not valid.")
        return Asked(what, tuple(map(int, numbers.groups())), int(value[1]) if value else None)
    raise Refused(404, "Nothing is at this address.")
