"""Studies of these tests write their pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from one_process import pages_as_for_users


@pytest.fixture(scope="module", autouse=True)
def _with_pages() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        pages_as_for_users(patch)
        yield
