"""What the command says on stderr, and how it ends."""

from __future__ import annotations

import errno

import pytest

from interlock import cli
from interlock.cli import run


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("broken"),
        OSError(errno.ENOSPC, "No space left on device", "/var/lib/door"),
        OSError(errno.EIO, "Input/output error", "/var/lib/door"),
        OSError(errno.EMFILE, "Too many open files"),
    ],
    ids=str,
)
def test_a_fault_of_interlock_is_no_conflict(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A traceback comes with a status of its own, and nothing is said about the output."""

    def broken(*_: object) -> int:
        raise error

    monkeypatch.setattr(run, "main", broken)
    assert cli.main(["run", "NAME", "--", "true"], {}) == 71
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Traceback ")
    assert err.endswith(f"{type(error).__name__}: {error}\n")
    assert "output could" not in err
