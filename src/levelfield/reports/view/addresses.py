"""Which requests are answered: addresses made of a token and numbers, from this machine's own page only.

An address is matched as a whole and never decoded, so no path can come from a client: `..`, `%2e` or NUL match
nothing.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from levelfield.errors import LevelfieldError

LARGEST_BODY = 25_000_000  # bytes of an uploaded image: more than a photo of 50 megapixels needs
METHODS = ("GET", "HEAD", "POST")
_NUMBER = "(0|[1-9][0-9]{0,8})"
_ADDRESSES = {
    "page": re.compile("/"),
    "image": re.compile(f"/image/{_NUMBER}/{_NUMBER}"),
    "neighbours": re.compile(f"/neighbours/{_NUMBER}/{_NUMBER}/{_NUMBER}"),
    "search": re.compile(f"/search/{_NUMBER}/{_NUMBER}"),
}
_OPTIONS = {"image": "size", "neighbours": "k", "search": "k"}
_TOKEN = re.compile("/([A-Za-z0-9_-]{1,100})(/.*)?", re.DOTALL)


class Refused(LevelfieldError):
    """A request that is answered with an HTTP error: correct the request."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Headers(Protocol):
    """Headers of a request, as `http.server` parses them."""

    def get_all(self, name: str) -> Sequence[str] | None: ...


@dataclass(frozen=True)
class Asked:
    """What a request asks for: `page`, `image`, `neighbours` or `search`, with its numbers."""

    what: str
    numbers: tuple[int, ...] = ()
    option: int | None = None


def asked_by(method: str, target: str, token: str) -> Asked:
    """Read the target of a request.

    >>> asked_by("GET", "/t0ken/image/0/17?size=512", "t0ken")
    Asked(what='image', numbers=(0, 17), option=512)
    >>> asked_by("GET", "/t0ken/image/0/../17", "t0ken")
    Traceback (most recent call last):
    ...
    levelfield.reports.view.addresses.Refused: Nothing is at this address.
    """
    path, _, query = target.partition("?")
    match = _TOKEN.fullmatch(path)
    if match is None or not secrets.compare_digest(match[1], token):
        raise Refused(403, "The address lacks the token that `levelfield view` printed with it.")
    rest = match[2] or ""
    for what, address in _ADDRESSES.items():
        if (numbers := address.fullmatch(rest)) is not None:
            if (method == "POST") != (what == "search"):
                raise Refused(405, f"This address does not support {method}.")
            return Asked(what, tuple(map(int, numbers.groups())), _option(what, query))
    raise Refused(404, "Nothing is at this address.")


def _option(what: str, query: str) -> int | None:
    if not query:
        return None
    match = re.fullmatch(f"{_OPTIONS.get(what, '')}={_NUMBER}", query)
    if what not in _OPTIONS or match is None or not int(match[1]):
        raise Refused(400, "The part of the address after '?' is not valid.")
    return int(match[1])


def check_host(headers: Headers, port: int) -> str:
    """The Host of a request, which must be this server: a page elsewhere whose name points here has another Host."""
    names = ("127.0.0.1", "localhost")
    allowed = [f"{name}:{port}" for name in names] + (list(names) if port == 80 else [])
    hosts = headers.get_all("Host") or []
    if len(hosts) != 1 or hosts[0] not in allowed:
        raise Refused(403, f"The header Host must be {allowed[0]}.")
    return hosts[0]


def check_origin(headers: Headers, host: str) -> None:
    """Refuse an upload that does not come from the server's own page."""
    if (headers.get_all("Origin") or []) != [f"http://{host}"]:
        raise Refused(403, f"The header Origin must be http://{host}.")


def body_length(headers: Headers) -> int:
    """The number of bytes of an upload."""
    lengths = headers.get_all("Content-Length") or []
    if headers.get_all("Transfer-Encoding") or not lengths:
        raise Refused(411, "An upload needs the header Content-Length, and no Transfer-Encoding.")
    if len(lengths) != 1 or re.fullmatch("[0-9]{1,18}", lengths[0]) is None:
        raise Refused(400, "The header Content-Length is not valid.")
    length = int(lengths[0])
    if length > LARGEST_BODY:
        raise Refused(413, f"The image has {length:,} bytes; the limit is {LARGEST_BODY:,}.")
    if not length:
        raise Refused(400, "The upload is empty: send the bytes of an image.")
    return length
