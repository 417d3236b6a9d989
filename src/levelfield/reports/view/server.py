"""The server: on loopback only, with a bounded number of connections and a deadline for each request."""

from __future__ import annotations

import contextvars
import logging
import secrets
import socket
import socketserver
import threading
import time
from contextlib import suppress
from http.server import ThreadingHTTPServer
from typing import Any

from levelfield.errors import BadInput
from levelfield.reports.view.handler import Handler, turned_away
from levelfield.reports.view.site import Site

logger = logging.getLogger(__name__)

HOST = "127.0.0.1"
_CONNECTIONS = 64
_HEAD_SECONDS, _SECONDS = 5.0, 20.0  # for sending a request up to its body, and for the body
_MOMENT = 1.0  # seconds for a connection to give up its place


class Server(ThreadingHTTPServer):
    """Serves a site at `address`, which holds a random token. `site` can be set until the first request.

    Requests see the context variables of the thread that made the server: the files that a command trusts.
    """

    daemon_threads = True
    timeout = 0.1  # seconds until `serve` looks at deadlines, and whether it should end
    request_queue_size = _CONNECTIONS
    site: Site

    def __init__(self, *, port: int = 0, seconds: float = _SECONDS, connections: int = _CONNECTIONS) -> None:
        self.token = secrets.token_urlsafe(24)
        self._seconds = seconds
        self._context = contextvars.copy_context()
        self._places = threading.BoundedSemaphore(connections)
        self._heads: dict[socket.socket, float] = {}  # deadlines of connections without a request yet, oldest first
        self._bodies: dict[socket.socket, float] = {}  # and of uploads
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
            self.service_actions()

    def end(self) -> None:
        """Let `serve` return within a moment. Only sets a flag, so that a signal handler may call it at any time."""
        self._ended = True

    def server_bind(self) -> None:
        """Bind without looking the host name up, which may ask the network."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._has_place():
            turned_away(request)
            self.shutdown_request(request)
            return
        self._heads[request] = time.monotonic() + min(_HEAD_SECONDS, self._seconds)
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._done(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            self._context.copy().run(super().process_request_thread, request, client_address)
        finally:
            self._done(request)

    def expects_body(self, request: socket.socket) -> None:
        """The request may upload an image: it gets the time for that."""
        self._heads.pop(request, None)
        self._bodies[request] = time.monotonic() + self._seconds

    def is_read(self, request: socket.socket) -> None:
        """The whole request has arrived: its deadline no longer applies."""
        self._heads.pop(request, None)
        self._bodies.pop(request, None)

    def service_actions(self) -> None:
        """End the requests that have not arrived in time."""
        now = time.monotonic()
        for request, deadline in (*tuple(self._heads.items()), *tuple(self._bodies.items())):
            if now > deadline:
                with suppress(OSError):  # closed meanwhile
                    request.shutdown(socket.SHUT_RD)

    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.debug("A connection ended with an error.", exc_info=True)

    def _has_place(self) -> bool:
        """Take a place, if need be that of the oldest connection without a request: others must not wait for it."""
        if self._places.acquire(blocking=False):
            return True
        oldest = next(iter(tuple(self._heads)), None)
        if oldest is None or self._heads.pop(oldest, None) is None:  # it has asked meanwhile
            return False
        with suppress(OSError):  # closed meanwhile
            oldest.shutdown(socket.SHUT_RDWR)
        return self._places.acquire(timeout=_MOMENT)

    def _done(self, request: socket.socket) -> None:
        self.is_read(request)
        self._places.release()
