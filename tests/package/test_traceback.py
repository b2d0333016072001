"""Tracebacks tell a user's own frames, and the causes as text."""

from __future__ import annotations

import traceback

import pytest
import redis
from tests.support.address import free_port

import interlock
from interlock import InterlockError, _traceback
from interlock._traceback import shorten


def _fail(url: str) -> InterlockError:
    with (
        interlock.connect(url) as client,
        pytest.raises(interlock.ServerUnavailableError) as caught,
    ):
        client.lock("x").acquire()
    return caught.value


def test_no_frame_of_redis_py_is_shown() -> None:
    """Without a server, the story is a user's frame, two of ours and the message."""
    error = _fail(f"redis://127.0.0.1:{free_port()}")
    text = "".join(traceback.format_exception(error))
    assert "redis/connection.py" not in text
    assert text.count("/src/interlock/") <= 2
    assert error.__cause__ is None


def test_debugging_shows_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """``INTERLOCK_DEBUG=1`` keeps every frame and every cause."""
    monkeypatch.setattr(_traceback, "DEBUG", True)
    error = _fail(f"redis://127.0.0.1:{free_port()}")
    assert isinstance(error.__cause__, redis.ConnectionError | OSError)
    assert "".join(traceback.format_exception(error)).count("/src/interlock/") > 3


def test_a_cause_becomes_a_note() -> None:
    """A note tells the cause if the message does not."""
    error = InterlockError("it failed")
    error.__cause__ = OSError("the disk is full")
    shorten(error)
    assert error.__cause__ is None
    assert error.__notes__ == ["caused by OSError: the disk is full"]


def test_the_error_of_a_users_code_stays() -> None:
    """What a provider of credentials raised is the cause, with its own frames."""

    def fail() -> tuple[str, str]:
        raise KeyError("no token")

    with (
        interlock.connect(f"redis://127.0.0.1:{free_port()}", credentials=fail) as client,
        pytest.raises(interlock.ServerUnavailableError) as caught,
    ):
        client.lock("x").acquire(timeout=0)
    assert isinstance(caught.value.__cause__, KeyError)


def test_what_the_user_was_handling_stays() -> None:
    """An error inside a user's ``except`` block still tells of the first one."""
    client = interlock.connect(f"redis://127.0.0.1:{free_port()}")
    with client, pytest.raises(interlock.ServerUnavailableError) as caught:
        try:
            raise ZeroDivisionError
        except ZeroDivisionError:
            client.lock("x").acquire()
    assert isinstance(caught.value.__context__, ZeroDivisionError)


def test_a_time_without_end_is_told_briefly() -> None:
    """A timeout that is too long names what waits for ever, below one frame of ours."""
    with (
        interlock.connect("redis://localhost:1") as client,
        pytest.raises(OverflowError, match="not inf; None waits for ever") as caught,
    ):
        client.lock("x", timeout=float("inf"))
    assert "".join(traceback.format_exception(caught.value)).count("/src/interlock/") <= 1
