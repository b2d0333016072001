"""`interlock ticket`: a pipeline holds a lock without a process."""

from __future__ import annotations

import io
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.cli.cli_process import ENVIRON

import interlock
from interlock.cli import main, ticket
from interlock.errors import ServerUnavailableError
from interlock.sync.ticket import Ticket

if TYPE_CHECKING:
    from pathlib import Path

    import redis


class Shell:
    """Runs commands in this process, and tells what they print."""

    def __init__(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._environ = {"INTERLOCK_URL": url}
        self._capsys = capsys
        self.out = self.err = ""

    def run(self, *arguments: object) -> int:
        status = main([str(each) for each in arguments], self._environ)
        self.out, self.err = self._capsys.readouterr()
        return status


@pytest.fixture
def shell(redis_url: str, capsys: pytest.CaptureFixture[str], patient: None) -> Shell:
    """Run commands against the emptied shared server."""
    del patient
    return Shell(redis_url, capsys)


def test_a_pipeline(shell: Shell, tmp_path: Path, redis_client: redis.Redis) -> None:
    """A ticket in a file holds the lock from one step of a pipeline to the next."""
    path = tmp_path / "ticket"
    acquire = ("ticket", "acquire", "deploy", "--lease", "1m", "--reason", "release 1.7")
    assert shell.run(*acquire, "--ticket-file", path) == 0
    assert (shell.out, shell.err) == ("", "")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["ticket"]
    assert 50_000 < redis_client.pttl("deploy") <= 60_000

    kept = path.read_text()
    assert shell.run(*acquire, "--wait", "0.05", "--ticket-file", path) == 1
    assert "held by" in shell.err
    assert path.read_text() == kept

    assert shell.run("ticket", "extend", "--ticket-file", path, "--lease", 90) == 0
    assert 80_000 < redis_client.pttl("deploy") <= 90_000
    assert shell.run("ticket", "status", "--ticket-file", path) == 0
    assert "release 1.7" in shell.out
    assert shell.run("list") == 0
    assert "by ticket release 1.7" in shell.out
    assert shell.run("why", "deploy") == 0
    assert "(release 1.7) for" in shell.out
    assert "No process is needed for that" in shell.out
    assert shell.run("ticket", "release", "--ticket-file", path) == 0
    assert not redis_client.exists("deploy")


def test_a_ticket_that_is_over(
    shell: Shell, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ticket that was used, or came late, is refused by each word; stderr names the holder."""
    assert shell.run("ticket", "acquire", "deploy") == 0
    text = shell.out

    def use(word: str) -> int:
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        return shell.run("ticket", word, "--ticket-file", "-")

    assert use("release") == 0
    with interlock.connect(redis_url) as client, client.lock("deploy") as hold:
        for word in ("release", "extend", "status"):
            assert use(word) == 1
            assert "not held by this ticket" in shell.err
            assert f"held by {hold.holder}" in shell.err
        assert hold.valid


def test_a_death_before_the_ticket_is_written(
    shell: Shell, tmp_path: Path, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the ticket is written, the lock has a client's short lease; then what was asked for."""
    left: list[int] = []
    write = ticket._write

    def look_and_write(*arguments: str) -> None:
        left.append(redis_client.pttl("deploy"))
        write(*arguments)

    monkeypatch.setattr(ticket, "_write", look_and_write)
    assert (
        shell.run("ticket", "acquire", "deploy", "--lease", "15m", "--ticket-file", tmp_path / "t")
        == 0
    )
    assert 0 < left[0] <= 30_000
    assert 800_000 < redis_client.pttl("deploy") <= 900_000


def test_a_ticket_that_cannot_be_written(
    shell: Shell, tmp_path: Path, redis_url: str, redis_client: redis.Redis
) -> None:
    """If nobody can get the ticket, the lock is free again, and no file is left."""
    (tmp_path / "t").mkdir()
    for path in (tmp_path / "missing" / "t", tmp_path / "t"):
        assert shell.run("ticket", "acquire", "deploy", "--ticket-file", path) == 74
        assert "the lock is free again" in shell.err
        assert not redis_client.exists("deploy")
    assert [each.name for each in tmp_path.iterdir()] == ["t"]
    command = [sys.executable, "-m", "interlock", "ticket", "acquire", "deploy"]
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device
        done = subprocess.run(
            command, env={**ENVIRON, "INTERLOCK_URL": redis_url}, stdout=full, check=False
        )
    assert done.returncode == 74
    assert not redis_client.exists("deploy")


def test_a_lock_that_is_not_free_again(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the lock of a ticket that cannot be written is not released either, nobody says it is."""

    def release(ticket: Ticket) -> None:
        raise ServerUnavailableError("it is down", sent=True, transient=True)

    monkeypatch.setattr(Ticket, "release", release)
    path = tmp_path / "missing" / "t"
    assert shell.run("ticket", "acquire", "deploy", "--ticket-file", path) == 69
    assert "it is down" in shell.err
    assert "free" not in shell.err


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("acquire",),
        ("acquire", "a", "--lease", "0"),
        ("acquire", "a", "--reason", "x" * 100_000),
        ("extend",),
        ("extend", "--ticket-file", "/dev/null"),
        ("status", "--ticket-file", "/no/such/file"),
        ("release", "--ticket-file", "/"),
        ("release", "a", "--ticket-file", "/dev/null"),
        ("release", "a"),
    ],
)
def test_usage(shell: Shell, arguments: tuple[str, ...], redis_client: redis.Redis) -> None:
    """What cannot work exits with 64 and says why; nothing was locked."""
    assert shell.run("ticket", *arguments) == 64
    assert shell.err.startswith("interlock: ")
    assert not redis_client.exists("a")


@pytest.mark.parametrize("content", ["KEY BEGINS, AND IS A SECRET", "root:x:0::A SECRET"])
def test_a_wrong_file_is_not_printed(shell: Shell, tmp_path: Path, content: str) -> None:
    """A file that was named by mistake may be secret: its beginning is enough to know it."""
    path = tmp_path / "wrong"
    path.write_text(content[:-6] + "." * 60 + content[-6:])
    assert shell.run("ticket", "status", "--ticket-file", path) == 64
    assert content[:10] in shell.err
    assert "SECRET" not in shell.err
    assert "is not a ticket" in shell.err
