"""The documentation: its examples run, its links lead somewhere, its promises have tests."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.docs.programs import assert_runs
from tests.promises import held, promised
from tools import site_hooks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import RedisServer

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINKING = [*PAGES, *(ROOT / f"{name}.md" for name in ("CHANGELOG", "SECURITY", "CODE_OF_CONDUCT"))]
BLOCKS = [
    pytest.param(page, block, id=f"{page.relative_to(ROOT)}:{number}")
    for page in PAGES
    for number, block in enumerate(
        re.findall(r"```py(?:thon)?\b[^\n]*\n(.*?)```", page.read_text(), re.DOTALL)
    )
]
STANDING_ALONE = ("import ", "from ", "# runs")
"""How a program begins that is run here. A file that another test runs begins with its name."""
EXAMPLES = [
    pytest.param(block.values[1], id=block.id)
    for block in BLOCKS
    if str(block.values[1]).startswith(STANDING_ALONE)
]
SITE = "https://interlock-py.github.io/interlock/"
REPOSITORY = re.compile(
    r"https://(?:github\.com|raw\.githubusercontent\.com)/interlock-py/interlock/"
)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs(example: str, server: RedisServer, redis_url: str, tmp_path: Path) -> None:
    """An example of the documentation runs as it stands, on a real server."""
    assert_runs(example, redis_url, tmp_path)
    assert server.alive


def local_file(target: str, page: Path) -> Path | None:
    """Return the file that a link of *page* to *target* leads to, None if it leads elsewhere."""
    if target.startswith(SITE):
        path = target.removeprefix(SITE).rstrip("/") or "index"
        return ROOT / "docs" / f"{path}.md"
    if repository := REPOSITORY.match(target):
        path = target[repository.end() :]
        _, branch, inside = path.partition("main/")
        return ROOT / inside if branch else None
    return None if "://" in target or target.startswith("mailto:") else page.parent / target


def anchors(page: Path) -> set[str]:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    plain = (
        re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    )
    found = {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", each)).strip("-") for each in plain}
    return found | set(re.findall(r"^::: (\S+)$", text, re.MULTILINE))


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """A link into the project leads to a file that exists, and to one of its headings."""
    text = page.read_text()
    targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(
        r"^\[[^\]]+\]: (\S+)$", text, re.MULTILINE
    )
    for target in targets:
        path, _, anchor = target.partition("#")
        file = page if not path else local_file(path, page)
        if file is not None:
            assert file.exists(), target
            assert not anchor or anchor in anchors(file), target


def test_links_of_the_package_work_on_pypi() -> None:
    """In the description of the built package every link has an address of the site."""
    text = importlib.metadata.metadata("interlock").get_payload()
    assert isinstance(text, str)
    targets = re.findall(r"^\[[^\]]+\]: (\S+)$", text, re.MULTILINE)
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    assert urls["Documentation"] == SITE
    assert sum(target.startswith(SITE) for target in targets) > 20
    for target in targets:
        assert target.startswith("https://"), target
        assert not target.endswith(".md") or "/blob/main/" in target, target


def tabs() -> Iterator[Any]:
    """Yield each program that the site makes for a tab: the one that it is made from, and for whom."""
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for number, block in enumerate(site_hooks.FENCE.findall(page.read_text())):
            measured = "interlock.prometheus" in block or "interlock.otel" in block
            for library, extra in (("asyncio", "monitoring" * measured), ("trio", "hosts")):
                if site_hooks.qualifies(block, library):
                    marks = [pytest.mark.needs(extra)] if extra else []
                    name = f"{page.relative_to(ROOT)}:{number}:{library}"
                    yield pytest.param(block, library, id=name, marks=marks)


@pytest.mark.parametrize(("block", "library"), [*tabs()])
def test_the_tab_of_a_program_runs(
    block: str, library: str, redis_url: str, tmp_path: Path
) -> None:
    """A program for tasks, which the site makes for a tab, runs as it stands."""
    assert_runs(site_hooks.face(block, library), redis_url, tmp_path)


def test_each_promise_has_a_test() -> None:
    """Each row of the page of promises has an id, and a test that is marked with it."""
    ids = promised()
    assert "" not in ids
    assert set(held()) == set(ids)
