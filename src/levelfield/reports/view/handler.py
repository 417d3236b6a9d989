"""One request over one connection: check it, then answer it."""

from __future__ import annotations

import json
import logging
import socket
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING

from levelfield.errors import LevelfieldError
from levelfield.reports.view.addresses import METHODS, Refused, asked_by, body_length, check_host, check_origin
from levelfield.reports.view.site import Answer

if TYPE_CHECKING:
    from levelfield.reports.view.server import Server

logger = logging.getLogger(__name__)

_PART = 65_536  # bytes read at a time
_LINGER = 2.0  # seconds in which the rest of a refused upload is read, so that the client gets the answer
_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Connection": "close",
}


class Handler(BaseHTTPRequestHandler):
    """HTTP/1.0 on purpose: one request for each connection, so nothing can follow a request."""

    server: Server
    protocol_version = "HTTP/1.0"

    def setup(self) -> None:
        super().setup()
        self.connection.settimeout(self.server.seconds)  # for each part that is read or written

    def do_GET(self) -> None:
        try:
            answer = self._answer()
        except Refused as error:
            self._refuse(error.status, str(error))
        else:
            self._reply(HTTPStatus.OK, answer)

    do_HEAD = do_POST = do_GET

    def _answer(self) -> Answer:
        """Check the request, then ask the site; an error inside becomes one sentence."""
        host = check_host(self.headers, self.server.server_port)
        if self.path == "/favicon.ico":  # browsers ask for it by themselves
            return Answer("image/x-icon", b"")
        asked = asked_by(self.command, self.path, self.server.token)
        if self.command == "POST":
            check_origin(self.headers, host)
            body_length(self.headers)  # refuse a wrong upload before it joins the queue
        try:
            return self.server.site.answer(asked, self._body)
        except (Refused, ConnectionError):
            raise
        except LevelfieldError as error:
            raise Refused(422, str(error)) from error
        except Exception as error:  # a bug, or no memory is left: the server goes on
            logger.debug("Internal error", exc_info=True)
            raise Refused(500, f"Internal error in levelfield ({type(error).__name__}).") from error

    def _body(self) -> bytes:
        """The uploaded bytes."""
        length = body_length(self.headers)
        try:
            content = self.rfile.read(length)
        except TimeoutError:
            content = b""
        if len(content) < length:
            raise Refused(408, "The upload did not arrive completely or in time.")
        return content

    def _reply(self, status: int, answer: Answer) -> None:
        logger.debug("%s %s: %s", self.command, _without_token(getattr(self, "path", "")), int(status))
        self.request_version = "HTTP/1.0"  # an answer in HTTP/0.9 would have no headers
        self.send_response_only(status)
        headers = {
            "Content-Type": answer.kind,
            "Content-Length": str(len(answer.content)),
            "Content-Security-Policy": f"{answer.policy}; frame-ancestors 'none'",
            "Cache-Control": "private, max-age=600" if answer.lasting else "no-store",
            **_ALWAYS,
            **({"Allow": ", ".join(METHODS)} if status == HTTPStatus.METHOD_NOT_ALLOWED else {}),
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
        while time.monotonic() < end and self.connection.recv(_PART):
            pass

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Called by `http.server` for methods without a `do_` and for requests that it cannot parse."""
        if code == HTTPStatus.NOT_IMPLEMENTED:
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, f"This server supports {', '.join(METHODS)} only.")
        else:
            self._refuse(code, "The request is not valid HTTP, or too long.")

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: requests are logged by `_reply`, for --verbose."""


def _without_token(path: str) -> str:
    """The part of an address that may be logged.

    >>> _without_token("/5ecret/image/0/17")
    '/.../image/0/17'
    """
    return ascii("/.../" + path.removeprefix("/").partition("/")[2])[1:-1]
