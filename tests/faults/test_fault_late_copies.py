"""The network delivers a copy of a command after a later call was answered: nothing is undone.

A copy is late if its connection stood still and another connection has sent the command again. The
proxy breaks the first connection of each call before the server sees the command. Then each command
of the run is sent again, after each later call.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import redis
from tests.objects.awaited import OF_ONE_KEY
from tests.support.faults import drop_request

import interlock
from interlock import HoldLostError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.objects.kinds import Kind
    from tests.support.proxy import FaultProxy

    Kept = dict[bytes, tuple[int, bytes]]
    State = dict[bytes, tuple[dict[bytes, Any], int]]

HELPS = (
    *(
        *(b"interlock_request:", b"interlock_queue:", b"interlock_rw_queue:"),
        *(b"interlock_forced:", b"interlock_latch_ending:"),
    ),
    *(b"interlock_election_leader:", b"interlock_semaphore_queue:"),
    b"redisson_lock_token",
)
"""Beginnings of keys of which nobody holds anything."""
ENTRY = re.compile(rb"\{(?P<lock>.*)\}:(?P<reader>.*):rwlock_timeout:\d+")
MARGIN = 300
"""Milliseconds by which a lease may be shorter: the time between two commands."""


def _end(server: redis.Redis, key: bytes) -> int:
    """Return when *key* ends, in epoch milliseconds by the server's clock; -1 if it does not."""
    with server.pipeline(transaction=True) as both:
        (seconds, micros), left = both.time().pttl(key).execute()
    return left if left < 0 else seconds * 1000 + micros // 1000 + left


def _state(server: redis.Redis) -> State:
    """Return the members and the end of each object; keys that only help are left out.

    So is the entry of a reader that reads no more: a forced release leaves it until it expires.
    """
    found: State = {}
    for key in server.scan_iter():
        if key.startswith(HELPS):
            continue
        entry = ENTRY.fullmatch(key)
        if entry and not server.hexists(entry["lock"], entry["reader"]):
            continue
        kind, left = server.type(key), _end(server, key)
        if kind == b"hash":
            # A depth says nothing: each command names the depth to reach.
            found[key] = (
                {
                    field: float(value) if field.endswith(b":expire_time") else b""
                    for field, value in server.hgetall(key).items()
                },
                left,
            )
        elif kind == b"zset":
            found[key] = (dict(server.zrange(key, 0, -1, withscores=True)), left)
        elif kind == b"string":
            if key.startswith(b"interlock_event:"):
                found[key] = ({b"": server.get(key).partition(b" ")[0]}, -1)
                continue
            # A late try may take permits for a lease. All permits are counted, free and held.
            held, value = server.zcard(f"{{{key.decode()}}}:timeout"), server.get(key)
            if value is not None:  # its end has come just now
                found[key] = ({b"": int(value.partition(b" ")[0]) + held}, left)
    return found


def _undone(before: State, after: State) -> list[str]:
    """Return what was held *before* and is not held, or not for as long, *after*."""
    found: list[str] = []
    for key, (members, end) in before.items():
        now, still = after.get(key, ({}, -2))
        if end > 0 and still != -1 and still < end - MARGIN:
            found.append(f"{key!r}: its end, {end} ms, became {still}")
        for member, value in members.items():
            shorter = isinstance(value, float) and now.get(member, 0) < value - MARGIN
            if shorter or (not isinstance(value, float) and now.get(member) != value):
                found.append(f"{key!r} {member!r}: {value!r} became {now.get(member)!r}")
    return found


class Run:
    """One program, whose commands are sent again late."""

    def __init__(self, proxy: FaultProxy, server: redis.Redis) -> None:
        self.proxy = proxy
        self.server = server
        self.sent: list[tuple[bytes, ...]] = []
        self._lost: set[tuple[bytes, ...]] | None = None
        proxy.on_request(self._first, drop_request)

    def _first(self, args: Sequence[bytes]) -> bool:
        lost, sent = self._lost, tuple(args)
        if lost is None or args[0] not in (b"EVALSHA", b"EVAL") or sent in lost:
            return False
        lost.add(sent)
        return True

    def step(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Make one call, of which each command is lost once; then send each earlier one again.

        The background may send a command just then. If that were lost alone, an owner of the first
        core would use its number again.
        """
        begin, self._lost = len(self.proxy.record), set()
        result = call(*args, **kwargs)
        self._lost = None
        for copy in dict.fromkeys(self.sent):
            self._send(copy)
        self.sent += [
            tuple(request.args)
            for request in self.proxy.record[begin:]
            if request.args[0] in (b"EVALSHA", b"EVAL")
        ]
        return result

    def _send(self, copy: tuple[bytes, ...]) -> None:
        keys = {
            key: (max(self.server.pttl(key), 0), dump)
            for key in self.server.scan_iter()
            if (dump := self.server.dump(key)) is not None  # it has not expired meanwhile
        }
        before = _state(self.server)
        try:
            _ = self.server.execute_command(*copy)
        except redis.ResponseError as error:
            # It asks for a call that declares the keys of other readers, and does nothing.
            if not str(error).startswith("ENTRIES"):
                raise
        undone = _undone(before, _state(self.server))
        assert not undone, f"a late copy of {copy[:3] + copy[3:]} has undone: {undone}"
        # Another copy is to meet the same state. A late try may have taken a free lock.
        for key in self.server.scan_iter():
            if key not in keys:
                self.server.delete(key)
        for key, (left, dump) in keys.items():
            self.server.restore(key, left, dump, replace=True)


def _lock(run: Run, one: Any, other: Any, *, transfers: bool) -> None:
    run.step(one.acquire)
    hold = one.hold
    run.step(one.extend, 40)
    run.step(one.acquire)
    run.step(one.release)
    if transfers:
        run.step(hold.extend, 50)
    run.step(one.release)
    run.step(one.acquire)
    run.step(other.force_release)
    assert run.step(other.acquire)
    run.step(other.force_release)
    with suppress(HoldLostError):
        other.release()
    # Without a lost command the owner keeps its number.
    assert other.acquire()
    run.step(one.force_release, holder=other.hold.holder)
    with suppress(HoldLostError):
        other.release()
    assert other.acquire()
    run.step(other.extend, 50)
    if transfers:
        run.step(other.release)
        run.step(other.acquire)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=() if kind.name in ("lock", "read") else pytest.mark.rest)
        for kind in OF_ONE_KEY
    ],
    ids=lambda kind: kind.name,
)
def test_no_copy_undoes_a_later_call_of_a_lock(
    kind: Kind, proxy: FaultProxy, redis_client: redis.Redis
) -> None:
    """No late copy ends or shortens a hold that a later call has acquired or lengthened."""
    with (
        interlock.connect(proxy.url(), card=False) as one,
        interlock.connect(proxy.url(), card=False) as other,
    ):
        run = Run(proxy, redis_client)
        locks = [kind.make(client, "name") for client in (one, other)]
        for lock in locks:
            lock.locked()
        _lock(run, *locks, transfers=kind.tickets)


def test_no_copy_undoes_a_later_call_of_a_leased_semaphore(
    proxy: FaultProxy, redis_client: redis.Redis
) -> None:
    """No late copy ends or shortens a permit, or changes the number of permits."""
    with interlock.connect(proxy.url(), card=False) as client:
        run, semaphore = Run(proxy, redis_client), client.leased_semaphore("name")
        run.step(semaphore.set_permits, 3)
        permit = run.step(semaphore.acquire, lease=10)
        run.step(semaphore.extend, permit, 20)
        run.step(semaphore.set_permits, 7)
        run.step(semaphore.set_permits, 5)
        run.step(semaphore.add_permits, 2)
        other = run.step(semaphore.acquire, 2, lease=30)
        run.step(semaphore.release, permit)
        run.step(other.extend, 50)


def test_no_copy_undoes_a_later_call_of_a_semaphore(
    proxy: FaultProxy, redis_client: redis.Redis
) -> None:
    """No late copy changes the number of permits."""
    with interlock.connect(proxy.url(), card=False) as client:
        run, semaphore = Run(proxy, redis_client), client.semaphore("name")
        run.step(semaphore.try_set_permits, 3)
        run.step(semaphore.acquire)
        run.step(semaphore.acquire, 2)
        run.step(semaphore.release)
        run.step(semaphore.add_permits, 5)
        run.step(semaphore.set_permits, 12)
        run.step(semaphore.set_permits, 9)
        run.step(semaphore.drain_permits)
        run.step(semaphore.release, 2)
        run.step(semaphore.acquire)


@pytest.mark.rest
def test_no_copy_undoes_a_later_call_of_an_event_or_latch(
    proxy: FaultProxy, redis_client: redis.Redis
) -> None:
    """No late copy sets, clears or counts down what a later call has changed."""
    with interlock.connect(proxy.url(), card=False) as client:
        event, latch = client.event("name"), client.count_down_latch("gate")
        run = Run(proxy, redis_client)
        run.step(event.set)
        run.step(event.clear)
        run.step(event.set)
        named = client.count_down_latch("named", count=1)
        run.step(named.count)
        run.step(named.count_down)
        run.step(named.delete)
        run.step(named.count)
        run.step(latch.try_set_count, 2)
        run.step(latch.count_down)
        run.step(latch.count_down)
        run.step(latch.try_set_count, 3)
        run.step(latch.delete)
        run.step(latch.try_set_count, 4)
        run.step(event.clear)
        assert latch.count() == 4
        assert not event.is_set()


def test_no_copy_undoes_a_later_call_of_an_election(
    proxy: FaultProxy, redis_client: redis.Redis
) -> None:
    """No late copy ends a term that a later call has begun."""
    with (
        interlock.connect(proxy.url(), card=False) as one,
        interlock.connect(proxy.url(), card=False) as other,
    ):
        run, mine, others = Run(proxy, redis_client), one.election("name"), other.election("name")
        run.step(mine.acquire)
        run.step(mine.release)
        run.step(others.acquire)
        run.step(others.release)
        run.step(mine.acquire)
        run.step(others.leader)
        run.step(mine.release)
