"""Credentials that change: `connect(credentials=...)`."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from tests.objects.awaited import renewed, until
from tests.support.patience import wait_until
from tests.support.rotation import Rotation
from tests.support.servers import RedisServer

import interlock
from interlock import ConfigError, ServerUnavailableError
from interlock._links import login
from interlock._links.shared import Shared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import FrameType

    from tests.objects.awaited import Stage


@pytest.fixture
def rotation() -> Iterator[Rotation]:
    """Give a user whose password is new."""
    with RedisServer(users=["app on nopass ~* &* +@all"]) as server:
        yield Rotation(server, 0.2)


def url_of(server: RedisServer) -> str:
    return f"redis://127.0.0.1:{server.port}"


async def test_holds_and_waiters_outlive_many_passwords(rotation: Rotation, stage: Stage) -> None:
    """Passwords change five times a second: no hold is lost, and a waiter gets its turn."""
    client = stage.client(url_of(rotation.server), credentials=rotation, renewed="soon")
    owner, waiter = stage.owner(), stage.owner()
    lock = client.lock("kept")
    await owner.do(lambda: lock.acquire(timeout=5))
    hold = await owner.do(lambda: lock.hold)
    with rotation.turning():
        waiting = asyncio.ensure_future(waiter.do(lambda: lock.acquire(timeout=20)))
        before = rotation.logins()
        await until(lambda: rotation.logins() > before + 5, 20, "it logs in again and again")
        await renewed(hold)
        assert hold.valid
        await owner.do(lock.release)
        assert await waiting
        await waiter.do(lock.release)


async def test_open_connections_log_in_anew(rotation: Rotation, stage: Stage) -> None:
    """After a change the connections stay open, and log in with the new password."""
    client = stage.client(url_of(rotation.server), credentials=rotation)
    owner = stage.owner()
    lock = client.lock("name")
    await owner.do(lambda: lock.acquire(timeout=5))
    connections = rotation.connections()
    assert connections
    before = rotation.logins()
    rotation.change()
    wait_until(lambda: rotation.logins() > before, 10, "somebody logs in")
    await owner.do(lock.release)
    assert connections <= rotation.connections()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda: 1 / 0, "did not come: ZeroDivisionError: division by zero"),
        (lambda: sys.exit(3), "did not come: SystemExit: 3"),
        (lambda: None, "must be .username, password., not NoneType"),
        (lambda: ("app", 7), "each a str"),
        (lambda: ("app", "pw", -1), "a number above 0"),
        (lambda: time.sleep(1), "within 0.2 s: the provider hangs"),  # longer than it may take
    ],
)
async def test_a_provider_that_fails_is_told_at_once(
    stage: Stage, redis_url: str, monkeypatch: pytest.MonkeyPatch, answer: Any, says: str
) -> None:
    """A provider that raises, exits, hangs or answers nonsense is an error of ours, at once."""
    monkeypatch.setattr(login, "LIMIT", 0.2)
    client = stage.client(redis_url, credentials=answer)
    with pytest.raises(ServerUnavailableError, match=says) as caught:
        await stage.owner().do(lambda: client.lock("name").acquire(timeout=12))
    assert caught.value.code == "CREDENTIALS"


async def test_a_refused_login_is_told_at_once(rotation: Rotation, stage: Stage) -> None:
    """Credentials that the server refuses are asked for once more, and then told."""
    asked: list[None] = []

    def wrong() -> tuple[str, str]:
        asked.append(None)
        return "app", "wrong"

    client = stage.client(url_of(rotation.server), credentials=wrong)
    with pytest.raises(ServerUnavailableError) as caught:
        await stage.owner().do(lambda: client.lock("name").acquire(timeout=12))
    assert caught.value.code == "WRONGPASS"
    assert len(asked) == 2


def test_a_provider_that_fails_later_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Open connections go on with what they have, and the log says so once."""
    answers = iter([("app", "wonder", 0.5)])

    def provider() -> tuple[str, str, float]:
        return next(answers)

    with (
        RedisServer(users=["app on >wonder ~* &* +@all"]) as server,
        interlock.connect(url_of(server), credentials=provider) as client,
        caplog.at_level(logging.WARNING, "interlock"),
        client.lock("name") as hold,
    ):
        wait_until(lambda: bool(caplog.records), 10, "the failure is logged")
        assert hold.valid
        time.sleep(1.2)  # the thread asks again after a second
    events = [getattr(record, "event", "") for record in caplog.records]
    assert events == ["credentials.failing"]


@pytest.mark.parametrize("credentials", [7, ("app", "pw"), "secret"])
def test_wrong_credentials_are_refused(redis_url: str, credentials: Any) -> None:
    """Credentials that cannot be asked for are refused where they are given."""
    with pytest.raises(ConfigError, match="credentials must have get_credentials"):
        interlock.connect(redis_url, credentials=credentials)


def test_two_sources_of_credentials_are_refused() -> None:
    """A password in the URL and a provider contradict each other."""
    with pytest.raises(ConfigError, match="credentials twice"):
        interlock.connect("redis://app:pw@localhost", credentials=lambda: ("app", "pw"))


def test_a_file_is_read_again(rotation: Rotation, tmp_path: Path) -> None:
    """The file of a user whose password changes: the next login takes what it says then."""
    file = tmp_path / "credentials"
    file.write_text(f"app\n{rotation.password}\n")
    credentials = interlock.FileCredentials(file)
    with interlock.connect(url_of(rotation.server), credentials=credentials) as client:
        with client.lock("name"):
            before = rotation.logins()
        rotation.change()
        file.write_text(f"app\n{rotation.password}\n")
        wait_until(lambda: rotation.logins() > before, 10, "the client logs in anew")
        with client.lock("name"):
            pass


async def test_a_refused_change_leaves_open_connections(rotation: Rotation, stage: Stage) -> None:
    """The server does not know the new password yet: what is open stays open and holds go on."""
    now = {"password": rotation.password}
    client = stage.client(
        url_of(rotation.server), credentials=lambda: ("app", now["password"], 0.2), lease=2.4
    )
    owner = stage.owner()
    lock = client.lock("name")
    await owner.do(lambda: lock.acquire(timeout=5))
    hold = await owner.do(lambda: lock.hold)
    wait_until(lambda: len(rotation.connections()) > 1, 10, "the hold is renewed")
    connections = rotation.connections()
    now["password"] = "not yet"
    before = rotation.logins()
    wait_until(lambda: rotation.logins() > before, 10, "the client has tried")
    await asyncio.sleep(3.6)  # a lease and a half of a real server
    assert hold.valid
    assert connections <= rotation.connections()
    before = rotation.logins()
    rotation.server.execute("ACL", "SETUSER", "app", "resetpass", ">not yet")
    wait_until(lambda: rotation.logins() > before, 10, "the client tries again")
    await owner.do(lock.release)


async def test_a_token_that_is_new_each_time_ends_no_subscription(
    rotation: Rotation, stage: Stage
) -> None:
    """A provider that signs anew at each call is not asked because a subscription connects."""
    asked = 0

    def sign() -> tuple[str, str, float]:
        nonlocal asked
        asked += 1
        password = f"token-{asked}"
        rotation.server.execute("ACL", "SETUSER", "app", f">{password}")
        return "app", password, 600.0

    client = stage.client(url_of(rotation.server), credentials=sign)
    holder, waiter = stage.owner(), stage.owner()
    lock = client.lock("name")
    await holder.do(lambda: lock.acquire(timeout=5))
    waiting = asyncio.ensure_future(waiter.do(lambda: lock.acquire(timeout=20)))
    await asyncio.sleep(3)  # the thread tells every follower again and again
    before = asked
    await asyncio.sleep(2)  # and asks nobody for another password
    assert asked == before
    await holder.do(lock.release)
    assert await waiting
    await waiter.do(lock.release)


class Follows:
    """Connections that are told of a change."""

    def __init__(self, asking: login.Login) -> None:
        self._asking = asking
        self.told = threading.Event()

    def log_in_anew(self) -> None:
        """Note that there is a change, and follow no more."""
        self.told.set()
        self._asking.leave(self)


def test_a_follower_that_comes_while_another_one_comes() -> None:
    """Wherever another thread or a signal handler connects too, new credentials reach both."""
    at, reached = 0, True
    while reached:
        at += 1
        asking = login.Login(lambda: ("app", "pw"))
        first, second = Follows(asking), Follows(asking)
        reached = _followed(asking, second, login.Login.follow, at, partial(asking.follow, first))
        assert first.told.wait(5), f"after {at}"
        assert second.told.wait(5), f"after {at}"
    assert at > 10


def test_a_follower_that_comes_as_the_thread_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread has seen that nobody follows; whoever comes then is told of new credentials."""
    at, reached = 0, True
    while reached:
        at += 1
        asking = login.Login(lambda: ("app", "pw"))
        follower = Follows(asking)
        asking._keeping = Shared("interlock-credentials")
        with monkeypatch.context() as patch:
            # It runs here. Afterwards threads can start again.
            patch.setattr(threading, "Thread", partial(_no_thread, patch))
            keep = partial(asking._keeping.begin, asking, asking._keep)
            reached = _followed(asking, follower, login.Login._keep, at, keep)
        assert follower.told.wait(5), f"after {at}"
    assert at > 20


def _no_thread(patch: pytest.MonkeyPatch, **_: object) -> None:
    patch.undo()
    raise RuntimeError("can't start new thread")


def _followed(
    asking: login.Login, follower: Follows, method: Any, at: int, call: Callable[[], object]
) -> bool:
    """Have *follower* follow before the opcode *at* of *method*, which *call* calls, or after.

    Return whether it has so many opcodes.
    """
    seen = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal seen
        if frame.f_code is not method.__code__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            seen += 1
            if seen == at:
                asking.follow(follower)
        return trace

    former = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(former)
    if seen < at:
        asking.follow(follower)
    return seen >= at


class Moody:
    """A provider that gives the right answer, fails, or hangs."""

    def __init__(self) -> None:
        self.mood = "well"
        self.asked = 0
        self.gone_on = threading.Event()

    def __call__(self) -> tuple[str, str, float]:
        """Return the credentials, which work for a long time."""
        self.asked += 1
        if self.mood == "fails":
            raise OSError("no secrets today")
        if self.mood == "hangs":
            self.gone_on.wait(60)
        return "app", "wonder", 600.0


@pytest.fixture
def moody() -> Iterator[Moody]:
    provider = Moody()
    yield provider
    provider.gone_on.set()


@pytest.mark.parametrize("mood", ["fails", "hangs"])
async def test_a_provider_that_fails_loses_no_hold(stage: Stage, moody: Moody, mood: str) -> None:
    """Before the first renewal, which needs a connection of its own: the former answer serves."""
    with RedisServer(users=["app on >wonder ~* &* +@all"]) as server:
        client = stage.client(url_of(server), credentials=moody, lease=1.5)
        owner = stage.owner()
        lock = client.lock("name")
        await owner.do(lambda: lock.acquire(timeout=5))
        hold = await owner.do(lambda: lock.hold)
        moody.mood = mood
        await asyncio.sleep(3)  # two leases of a real server
        assert hold.valid
        await owner.do(lock.release)
        await stage.end()


def test_the_former_answer_serves_until_it_is_refused(moody: Moody) -> None:
    """A caller that has one waits shortly; without one that serves it waits, and is told."""
    asking = login.Login(moody)
    asking.limit = 1.0
    assert asking.now(5) == (("app", "wonder"), 1)
    for mood in ("fails", "hangs"):
        moody.mood = mood
        began = time.monotonic()
        assert asking.now(5) == (("app", "wonder"), 1)
        assert time.monotonic() - began < asking.limit
    asking.doubt(1)
    began = time.monotonic()
    with pytest.raises(ServerUnavailableError, match=r"within 0\.1 s: the provider hangs"):
        asking.now(0.1)  # as long as its caller has, who may just close
    assert time.monotonic() - began < asking.limit


def test_a_provider_that_hung_is_asked_again(moody: Moody) -> None:
    """A call that hangs is left behind, and so are a few; what it answers late is no news."""
    asking = login.Login(moody)
    asking.limit = 0.1
    moody.mood = "hangs"
    for _ in range(2 * login.MOST):
        with pytest.raises(ServerUnavailableError, match="the provider hangs"):
            asking.now(5)
    assert moody.asked == login.MOST
    moody.gone_on.set()
    wait_until(lambda: asking.version == 1, 10, "it has answered")
    moody.mood = "well"
    assert asking.now(5) == (("app", "wonder"), 1)
