"""A browser for the tests of this folder. It ends with them: no other event loop can run in its process meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browsers import Opener, launched
from made_page import made
from playwright.sync_api import Browser

from levelfield.reports.page.content import Data


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


@pytest.fixture(scope="session")
def shapes() -> Data:
    """The page that most tests look at."""
    return made()


@pytest.fixture(scope="module")
def opener(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opener]:
    """Tabs that the tests of a module share."""
    yield Opener(browser, tmp_path_factory.mktemp("page"))
    for context in browser.contexts:
        context.close()


@pytest.fixture
def opened(opener: Opener) -> Iterator[Opener]:
    """Open a page; afterwards, there must be no error on the console and no request but for the file itself."""
    yield opener
    errors, elsewhere = opener.errors, opener.elsewhere()
    opener.close()
    assert errors == []
    assert elsewhere == []
