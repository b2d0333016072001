"""The documentation site in a browser: everything can be read, found, and comes from one host."""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.needs("chromium")
ROOT = Path(__file__).parents[2]
SHOW_TABS = """() => document.querySelectorAll('.tabbed-block')
    .forEach(block => { block.style.display = 'block'; })"""
CUT = """() => [...document.querySelectorAll('.md-typeset pre > code')]
    .filter(code => code.offsetParent && code.scrollWidth > code.clientWidth + 1)
    .map(code => code.innerText)"""
BROKEN = """() => [...document.querySelectorAll('.md-typeset td code')]
    .filter(code => !/\\s/.test(code.innerText) && code.getClientRects().length > 1)
    .map(code => code.innerText)"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[str]]]:
    """Give the address of the built site, and its pages."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir"]
    subprocess.run(
        [*build, str(folder)], cwd=ROOT, check=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(folder))

        def log_message(self, format: str, *_: Any) -> None:  # noqa: A002 - its name there
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        pages = [str(path.parent.relative_to(folder)) for path in folder.rglob("index.html")]
        yield f"http://127.0.0.1:{server.server_port}", sorted(pages)
        server.shutdown()
        thread.join()


def _page(browser: Browser, width: int) -> Page:
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.set_default_timeout(60_000)
    return page


@pytest.mark.timeout(600)  # it opens each page of the site
def test_nothing_is_cut(browser: Browser, site: tuple[str, list[str]]) -> None:
    """No line of code is cut, no name in a table is broken, and no other host is asked.

    A phone's width breaks no name, either.
    """
    base, pages = site
    page = _page(browser, 1280)
    foreign: list[str] = []
    page.on(
        "request",
        lambda request: (
            None if request.url.startswith((base, "data:")) else foreign.append(request.url)
        ),
    )
    for path in pages:
        page.set_viewport_size({"width": 1280, "height": 900})
        page.goto(f"{base}/{path}/", wait_until="domcontentloaded")
        assert page.evaluate(CUT) == [], path
        assert page.evaluate(BROKEN) == [], path
        page.set_viewport_size({"width": 390, "height": 900})
        assert page.evaluate(BROKEN) == [], path
    page.close()
    assert foreign == []


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("how to install", "Install"),
        ("password", "Install"),
        ("try_lock", "Lock"),
        ("stuck lock", "Troubleshooting"),
    ],
)
def test_a_question_finds_its_page(
    browser: Browser, site: tuple[str, list[str]], question: str, answer: str
) -> None:
    """A newcomer's words find the page that answers, among the first five."""
    page = _page(browser, 1280)
    page.goto(f"{site[0]}/?q={question.replace(' ', '+')}")
    page.wait_for_selector(".md-search-result__item")
    titles = [each.inner_text() for each in page.query_selector_all(".md-search-result__item h1")]
    page.close()
    assert answer in titles[:5]
