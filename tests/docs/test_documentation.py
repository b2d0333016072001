"""What the documentation shows is run, and what it points to is there."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from interlock.cli.options import OPTIONS

if TYPE_CHECKING:
    from tests.support.servers import RedisServer

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = [
    pytest.param(block, id=f"{page.relative_to(ROOT)}:{number}")
    for page in PAGES
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
    # A page may show a part of a program; what can stand alone says what it imports.
    if block.startswith(("import ", "from ", "# runs"))
]


def test_there_are_examples() -> None:
    """The README has at least the two examples that a newcomer reads first."""
    assert sum(str(example.id).startswith("README.md") for example in EXAMPLES) >= 2


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs(example: str, server: RedisServer, redis_url: str, tmp_path: Path) -> None:
    """An example of the documentation runs as it stands, on a real server."""
    program = tmp_path / "example.py"
    for shown in ("redis://localhost:6379/0", "redis://localhost:6379", "redis://localhost"):
        example = example.replace(f'"{shown}"', f'"{redis_url}"')
    program.write_text(example)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        env={**os.environ, "INTERLOCK_URL": redis_url},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert server.alive


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """A relative link leads to a file that exists."""
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_links_of_the_readme_work_on_pypi() -> None:
    """Every link of the README is absolute, and those to the repository name files that exist."""
    text = (ROOT / "README.md").read_text()
    targets = re.findall(r"\]\(([^)]+)\)", text) + re.findall(
        r"^\[[^\]]+\]: (\S+)$", text, re.MULTILINE
    )
    used = set(re.findall(r"\]\[([^\]]+)\]", text))
    assert used == set(re.findall(r"^\[([^\]]+)\]: ", text, re.MULTILINE))
    ours = [target for target in targets if "/interlock-py/interlock/" in target]
    assert len(ours) > 30
    for target in targets:
        assert target.startswith("https://"), target
    for target in ours:
        path = re.split(r"/main/", target)[1].partition("#")[0]
        assert (ROOT / path).is_file(), target


def test_the_checks_run_the_command_of_the_readme() -> None:
    """The line that CI takes from the README is there exactly once, and is the one that runs the tests."""
    pattern = re.compile(r"^python3 -m venv .*pytest$", re.MULTILINE)
    assert len(pattern.findall((ROOT / "README.md").read_text())) == 1
    assert "grep -m1 '^python3 -m venv .*pytest$' README.md" in (ROOT / ".ci/run").read_text()


def test_every_option_of_the_command_is_in_its_reference() -> None:
    """The reference names every option of `interlock run`."""
    reference = (ROOT / "docs/reference/cli.md").read_text()
    for option in OPTIONS:
        for flag in option.flags:
            assert flag in reference, flag


def test_the_first_page_tells_the_same_as_the_readme() -> None:
    """The site's first page and the README make the same promises and name the same objects."""
    pages = [(ROOT / name).read_text() for name in ("README.md", "docs/index.md")]
    for heading in ("What is promised, and what is not", "The family"):
        told = []
        for page in pages:
            part = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
            told.append(re.sub(r"\[([^\]]+)\](\([^)]+\)|\[[^\]]+\])", r"\1", part).split())
        assert told[0], heading
        assert told[0] == told[1], heading


def test_diagrams_are_drawn_from_their_sources() -> None:
    """Every diagram has a picture of its present source, which some page shows."""
    shown = "".join(page.read_text() for page in PAGES)
    sources = sorted((ROOT / "docs/pictures").glob("*.mmd"))
    assert len(sources) >= 5
    for source in sources:
        digest = hashlib.sha256(source.read_bytes()).hexdigest()
        picture = source.with_suffix(".svg")
        first = picture.read_text(encoding="utf-8").partition("\n")[0]
        assert first == f"<!-- {source.name}, SHA-256 {digest} -->", "run tools/draw_diagrams.py"
        assert f"pictures/{picture.name})" in shown, source.name
