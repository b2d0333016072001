"""The directory of a server is this user's alone, or it is refused."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from interlock._embedded.place import place_of, private
from interlock.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", ["default", "A-b_c.9", "x" * 32])
def test_names(runtime: Path, name: str) -> None:
    """A plain name becomes a directory of that name."""
    assert place_of(name) == runtime / f"interlock-{os.getuid()}" / name


@pytest.mark.parametrize("name", ["", "..", "a/b", "é", "a\n", "x" * 33])
def test_other_names_are_refused(runtime: Path, name: str) -> None:
    """A name that could lead elsewhere, or nowhere, is refused and leaves nothing behind."""
    with pytest.raises(ConfigError, match="cannot name an embedded server"):
        place_of(name)
    assert list(runtime.iterdir()) == []


@pytest.mark.parametrize("mode", [0o755, 0o701])
def test_open_directory_is_refused(runtime: Path, mode: int) -> None:
    """A directory that others may enter is refused, not repaired."""
    base = runtime / f"interlock-{os.getuid()}"
    base.mkdir()
    base.chmod(mode)
    with pytest.raises(ConfigError, match=f"its mode is {mode:04o}, not 0700"):
        place_of("default")
    assert list(base.iterdir()) == []


def test_what_another_user_laid_out_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory that another user made first is refused and left alone, whatever its mode."""
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    with pytest.raises(ConfigError, match=f"belongs to user {owner}"):
        private(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_symbolic_link_is_refused(runtime: Path) -> None:
    """A link is refused even where it leads to a directory of our own."""
    (runtime / "elsewhere").mkdir(mode=0o700)
    (runtime / f"interlock-{os.getuid()}").symlink_to("elsewhere")
    with pytest.raises(ConfigError, match="not a directory"):
        place_of("default")
