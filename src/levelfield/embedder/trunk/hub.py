"""What the hub client of timm prints while it tries to reach the hub: one line instead of two for each attempt."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

_CLIENT = "huggingface_hub.utils._http"


class _Once(logging.Filter):
    """Drops all records of a logger; the first makes one of ours."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def filter(self, record: logging.LogRecord) -> bool:
        if self._text:
            logging.getLogger("levelfield").warning(self._text)
        self._text = ""
        return False


@contextmanager
def tries_told_once(network: str) -> Iterator[None]:
    """While this is open, the attempts of the client are one line."""
    client = logging.getLogger(_CLIENT)
    notice = _Once(f"The weights of '{network}' are not stored here, and the hub does not answer; trying for a minute.")
    client.addFilter(notice)
    try:
        yield
    finally:
        client.removeFilter(notice)
