"""The directory of a server is this user's alone, or it is refused."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from interlock._embedded.place import place_of
from interlock.errors import ConfigError


@pytest.mark.parametrize("name", ["default", "a", "A-b_c.9", "x" * 32, "..a"])
def test_names(runtime: Path, name: str) -> None:
    """A plain name becomes a directory of that name."""
    assert place_of(name) == runtime / f"interlock-{os.getuid()}" / name


@pytest.mark.parametrize("name", ["", ".", "..", "...", "a/b", "a b", "é", "a\n", "x" * 33])
def test_other_names_are_refused(runtime: Path, name: str) -> None:
    """A name that could lead elsewhere, or nowhere, is refused and leaves nothing behind."""
    with pytest.raises(ConfigError, match="cannot name an embedded server"):
        place_of(name)
    assert list(runtime.iterdir()) == []


@pytest.mark.parametrize("mode", [0o755, 0o710, 0o701, 0o777])
def test_open_directory_is_refused(runtime: Path, mode: int) -> None:
    """A directory that others may enter is refused, not repaired."""
    base = runtime / f"interlock-{os.getuid()}"
    base.mkdir()
    base.chmod(mode)
    with pytest.raises(ConfigError, match=f"its mode is {mode:04o}, not 0700"):
        place_of("default")
    assert list(base.iterdir()) == []


def test_symbolic_link_is_refused(runtime: Path) -> None:
    """A link is refused even where it leads to a directory of our own."""
    (runtime / "elsewhere").mkdir(mode=0o700)
    (runtime / f"interlock-{os.getuid()}").symlink_to("elsewhere")
    with pytest.raises(ConfigError, match="not a directory"):
        place_of("default")


@pytest.mark.parametrize("value", [None, "", "relative", "/nonexistent/run"])
def test_temporary_directory_is_the_fallback(
    runtime: Path, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    """Without a usable XDG_RUNTIME_DIR, systemd's directory is used, or else a temporary one."""
    if value is None:
        monkeypatch.delenv("XDG_RUNTIME_DIR")
    else:
        monkeypatch.setenv("XDG_RUNTIME_DIR", value)
    monkeypatch.setattr(tempfile, "tempdir", str(runtime))
    systemd = Path(f"/run/user/{os.getuid()}")
    expected = systemd if systemd.is_dir() else runtime
    assert place_of("il-fallback").parent == expected / f"interlock-{os.getuid()}"
    place_of("il-fallback").rmdir()
