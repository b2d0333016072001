"""The rights that docs/reference/acl.md names: enough, and not one too many."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.objects.awaited import until
from tests.support.binary import main_version

from interlock import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis
    from tests.objects.awaited import Stage
    from tests.support.servers import RedisServer

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "acl.md"
RULE = re.search(r"^user app (.*)$", DOCUMENT.read_text(), re.MULTILINE)
assert RULE is not None
RIGHTS = RULE[1].split()
COMMANDS = sorted(word[1:] for word in RIGHTS if word.startswith("+"))
SPARED = {"publish", "subscribe", "unsubscribe", "ping", "pubsub|numsub", "get", "set"}
"""Without these no call fails.

Instead waiters hear nothing, or the server does not know a late copy of a call.
"""
NAME = "locks:a"


@pytest.fixture
def app(any_server: RedisServer) -> RedisServer:
    any_server.execute("ACL", "SETUSER", "app", "reset", *RIGHTS)
    any_server.execute("SCRIPT", "FLUSH")
    return any_server


async def _do_everything(stage: Stage, url: str, server: redis.Redis) -> bytes:
    client, owner, other = stage.client(url), stage.owner(), stage.owner()
    lock, theirs = client.lock(NAME), stage.client(url).lock(NAME)
    assert await owner.do(lock.acquire)
    assert await owner.do(lock.acquire)
    assert await owner.do(lock.hold_count) == 2
    await owner.do(lock.release)
    [counted] = server.hvals(NAME)
    waiting = asyncio.create_task(other.do(theirs.acquire, timeout=5))
    rests = asyncio.create_task(_looks_again(stage, server))
    await asyncio.wait([waiting, rests], return_when=asyncio.FIRST_COMPLETED)
    rests.cancel()
    if not waiting.done():  # else it failed
        await owner.do(lock.release)
    assert await waiting
    await other.do(theirs.force_release)
    assert not server.exists(NAME)
    return counted


async def _looks_again(stage: Stage, server: redis.Redis) -> None:
    """Wait until a waiter stands in the queue, and let it ask once more: that takes more rights."""

    def asked() -> int:
        stats: Any = server.info("commandstats")
        return stats.get("cmdstat_zscore", {"calls": 0})["calls"]

    await stage.waits()
    await until(lambda: server.exists(f"interlock_queue:{{{NAME}}}"), 5, "it stands in the queue")
    before = asked()
    server.publish(f"redisson_lock__channel:{{{NAME}}}", "0")
    await until(lambda: asked() > before, 5, "it asks again")


@pytest.mark.parametrize("face", ["sync"], indirect=True)
@pytest.mark.parametrize("command", COMMANDS)
async def test_no_documented_right_is_one_too_many(
    stage: Stage, server_of_version: Callable[[str], RedisServer], command: str
) -> None:
    """Without any one command a call fails, or the server refuses a part of it."""
    guarded = server_of_version(main_version())
    guarded.execute("FLUSHALL")
    guarded.execute("SCRIPT", "FLUSH")
    guarded.execute("ACL", "LOG", "RESET")
    guarded.execute("ACL", "SETUSER", "app", "reset", *RIGHTS, f"-{command}")
    url = guarded.url(0, "app", "secret")
    with guarded.client() as server:
        if command in SPARED:
            counted = await _do_everything(stage, url, server)
            assert counted == b"1"
            if command in {"get", "set"}:
                assert command in {entry["object"] for entry in server.acl_log()}
        else:
            with pytest.raises(ServerUnavailableError) as caught:
                await _do_everything(stage, url, server)
            assert caught.value.code == "NOPERM"
        guarded.execute("ACL", "SETUSER", "app", *RIGHTS)
        await stage.end()
        await until(lambda: not server.exists(NAME), 3, "what was begun is undone")


@pytest.mark.promise("rights")
async def test_keys_of_others_are_out_of_reach(stage: Stage, app: RedisServer) -> None:
    """A name that the rights do not cover is refused at once, with nothing changed."""
    client, owner = stage.client(app.url(0, "app", "secret")), stage.owner()
    lock = client.lock("other")
    with pytest.raises(ServerUnavailableError) as caught:
        await owner.do(lock.acquire)
    assert caught.value.code == "NOPERM"
    assert app.execute("EXISTS", "other") == 0


@pytest.mark.parametrize("face", ["sync"], indirect=True)
async def test_a_channel_of_others_is_not_heard(stage: Stage, app: RedisServer) -> None:
    """Without its channels a waiter polls; others of its client hear as before."""
    heard = {
        f"{channel}:{{locks:heard}}" for channel in ("redisson_lock__channel", "interlock_waiting")
    }
    rules = [f"&{channel}" for channel in (*heard, "interlock_wake:{locks:heard}:*")]
    app.execute("ACL", "SETUSER", "app", "resetchannels", *rules)
    client = stage.client(app.url(0, "app", "secret"))
    deaf, hearing = stage.owner(), stage.owner()
    names = ("locks:deaf", "locks:heard")
    with app.client() as server:
        for name in names:
            server.hset(name, "somebody", 1)
        waiting = [
            asyncio.create_task(owner.do(client.lock(name).acquire, timeout=5))
            for owner, name in zip((deaf, hearing), names, strict=True)
        ]
        await stage.waits(2)
        heard |= {f"interlock_wake:{{locks:heard}}:{client.client_id}"}
        await until(
            lambda: {each.decode() for each in server.pubsub_channels()} == heard,
            *(5, "one of them listens"),
        )
        server.delete(*names)
        assert await asyncio.gather(*waiting) == [True, True]
    await deaf.do(client.lock("locks:deaf").release)
    await hearing.do(client.lock("locks:heard").release)
