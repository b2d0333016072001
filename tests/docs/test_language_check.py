"""The check of plain English finds what it forbids, and leaves good sentences alone."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def language(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Give the check, which looks into a directory of the test's own."""
    spec = importlib.util.spec_from_file_location("language", ROOT / "tools/check_language.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "language", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    return module


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.md", "Whoever comes first gets it.\n", "whoever"),
        ("a.md", " ".join(["word"] * 26) + ".\n", "26 words"),
        ("a.py", '"""Do it."""\n# ' + "x " * 60 + "\n", "columns"),
        ("a.py", '"""Have the lock released."""\n', "use the verb"),
        ("src/a.py", '"""Ask the lookout."""\n', "Sentinel monitor"),
        ("a.py", '"""What nobody waits for any more is dropped."""\n', "a clause is the subject"),
    ],
)
def test_what_is_hard_to_read_is_found(
    language: Any, tmp_path: Path, name: str, text: str, found: str
) -> None:
    """Each rule finds a text that breaks it."""
    (tmp_path / "src").mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    assert any(found in finding.text for finding in language.check(name))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.md", "The first caller gets it. The others wait.\n"),
        ("a.md", "| " + "a long row of a table " * 9 + "|\n"),
        ("a.md", "```text\n" + "x " * 90 + "\n```\n"),
        ("a.py", '"""Drop a reply if its waiter has gone."""\n'),
    ],
)
def test_plain_text_passes(language: Any, tmp_path: Path, name: str, text: str) -> None:
    """Short sentences pass, and so do tables and code that cannot be wrapped."""
    (tmp_path / name).write_text(text)
    assert list(language.check(name)) == []


def test_a_finding_fails_the_check(
    language: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One finding in any file is told with its place, and the check fails."""
    monkeypatch.setattr(sys, "argv", ["check_language.py"])
    (tmp_path / "a.md").write_text("The first caller gets it.\n")
    assert language.main() == 0
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "b.md").write_text("Yes.\n\nWhoever comes first gets it.\n")
    assert language.main() == 1
    assert "docs/b.md:3: name the person" in capsys.readouterr().out
