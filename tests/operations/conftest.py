"""Fixtures for the tests of what operators use."""

from __future__ import annotations

import signal
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, NoReturn

import pytest
from tests.cli import cli_process

from interlock import connect
from interlock.cli import listing

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

    import redis

    from interlock import Client


@pytest.fixture
def client(redis_url: str) -> Iterator[Client]:
    with connect(redis_url) as made:
        yield made


@pytest.fixture
def command(redis_url: str) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(*arguments: str, url: str = redis_url) -> subprocess.CompletedProcess[str]:
        return cli_process.interlock(*arguments, INTERLOCK_URL=url)

    return run


@pytest.fixture
def one_picture(monkeypatch: pytest.MonkeyPatch) -> int:
    """Press Ctrl-C after the first picture of `list --watch`, and give the status of that."""

    def press(seconds: float) -> NoReturn:
        del seconds
        raise KeyboardInterrupt

    monkeypatch.setattr(listing, "time", SimpleNamespace(sleep=press, strftime=time.strftime))
    return 128 + signal.SIGINT


@pytest.fixture
def narrow(redis_url: str, redis_client: redis.Redis) -> Iterator[Callable[..., str]]:
    """Give a function that makes a user with these rules about keys, and returns its URL."""

    def make(*rules: str) -> str:
        user = ("narrow", "reset", "on", ">secret", "allchannels", "+@all", *rules)
        redis_client.execute_command("ACL", "SETUSER", *user)
        return redis_url.replace("redis://", "redis://narrow:secret@")

    yield make
    redis_client.execute_command("ACL", "DELUSER", "narrow")
