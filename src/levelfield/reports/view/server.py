"""The server: on loopback only, at an address with a secret."""

from __future__ import annotations

import contextvars
import logging
import secrets
import socketserver
from http.server import ThreadingHTTPServer
from typing import Any

from levelfield.errors import BadInput
from levelfield.reports.view.handler import Handler
from levelfield.reports.view.site import Site

logger = logging.getLogger(__name__)

HOST = "127.0.0.1"
_SECONDS = 20.0  # without a byte until a connection is closed


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
