"""Work in threads that all who want its result share: a signal anywhere hinders no later caller."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest
from tests.core.strikes import strike

from interlock._links.login import Login
from interlock._links.multiplexer import Multiplexer
from interlock._links.pool import Pool
from interlock._links.shared import Shared
from interlock._links.urls import open_url
from interlock.errors import ServerUnavailableError
from interlock.options import Options

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 5.0
"""Seconds for what takes milliseconds."""


def test_a_signal_as_work_begins() -> None:
    """Whoever wants the same afterwards gets it, though no thread was started for the first one."""
    shared, at, struck = Shared[int]("interlock-test"), 0, True
    while struck:
        at += 1
        struck = strike(lambda: shared.begin("key", lambda: 1), at)
        assert shared.begin("key", lambda: 1).result(LIMIT) == 1, f"after {at}"
    assert at > 30


def _connect() -> tuple[Any, Callable[[], object]]:
    servers: Any = open_url("redis+sentinel://sentinel/mymaster", Options())[0]
    return servers, lambda: servers.connect(LIMIT)


def _log_in() -> tuple[Any, Callable[[], object]]:
    login = Login(lambda: ("app", "pw"))
    return login, lambda: login.now(LIMIT)


def _learn(then: Callable[[Any], object]) -> tuple[Any, Callable[[], object]]:
    servers: Any = open_url("redis+cluster://localhost:1", Options())[0]
    servers._asking = servers._fetching
    return servers, lambda: then(servers)


def _open() -> tuple[Any, Callable[[], object]]:
    return _learn(lambda servers: Pool(servers).open("auto", LIMIT))


def _open_in_loop() -> tuple[Any, Callable[[], object]]:
    return _learn(lambda servers: asyncio.run(Multiplexer(servers, LIMIT).open("auto", LIMIT)))


def _find() -> tuple[Any, Callable[[], object]]:
    return _learn(lambda servers: servers.primaries(LIMIT))


@pytest.mark.parametrize("asking", [_connect, _log_in, _open, _open_in_loop, _find])
def test_each_who_waits_gets_an_error_of_its_own(
    asking: Callable[[], tuple[Any, Callable[[], object]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No error keeps the frames of others who waited for the same, nor shows them."""
    asked, want = asking()
    failed, cause = Future[object](), OSError("it hangs up")
    error = ServerUnavailableError("nobody answers", code="ERR", transient=True)
    error.__cause__ = cause
    failed.set_exception(error)
    monkeypatch.setattr(asked._asking, "begin", lambda *_: failed)
    errors = list[ServerUnavailableError]()
    for _ in range(2):
        with pytest.raises(ServerUnavailableError) as caught:
            _ = want()
        errors.append(caught.value)
    assert errors[0] is not errors[1]
    assert error.__traceback__ is None
    for each in errors:
        assert (str(each), each.code, each.transient) == ("nobody answers", "ERR", True)
        assert each.__cause__ is cause
