"""What elections promise: one leads, the next one follows, and whoever wants to know is told."""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import Any

import pytest
import redis
from tests.objects.acts import PROMPT, each_face, enter, in_asyncio, joins
from tests.objects.stage import NAME, Stage
from tests.support.child import Child
from tests.support.faults import drop_reply, drop_request
from tests.support.patience import wait_until

from interlock import (
    AcquireTimeoutError,
    HoldLostError,
    NotHeldError,
    ReentryError,
    ServerUnavailableError,
)

NEWS = f"interlock_election__news:{{{NAME}}}"
LEADER = f"interlock_election_leader:{{{NAME}}}".encode()
SOON = 3
"""A lease, in seconds: whoever leads is renewed, or told of a loss, in a third of it."""


def _candidate(scene: Stage, candidate: str | None = None, **options: Any) -> Any:
    return scene.client(**options).election(NAME, candidate=candidate)


@pytest.mark.sample
def test_one_leads_and_the_next_one_follows(scene: Stage) -> None:
    """One of three candidates leads; when it resigns the next one does, with a larger token."""
    actors = [scene.actor() for _ in range(3)]
    elections = [_candidate(scene, name) for name in "abc"]
    actors[0].do(elections[0].acquire)
    waiting = [
        joins(scene, actor, election.acquire)
        for actor, election in zip(actors[1:], elections[1:], strict=True)
    ]
    tokens = []
    for number, (actor, election) in enumerate(zip(actors, elections, strict=True)):
        if number:
            assert waiting[number - 1].result(PROMPT)
        assert not any(each.done() for each in waiting[number:])
        term = actor.do(lambda each=election: each.hold)
        info = scene.actor().do(elections[2 - number].leader)
        assert (info.name, info.candidate, info.token) == (NAME, "abc"[number], term.token)
        assert info.holder == term.holder
        tokens.append(term.token)
        with pytest.raises(NotHeldError):
            scene.actor().do(election.release)
        actor.do(election.release)
    assert tokens == sorted(set(tokens))
    assert actors[0].do(elections[0].leader) is None


def test_a_leader_says_who_it_is(scene: Stage) -> None:
    """Everybody can ask who leads, where and since when, and for how long at least."""
    owner, election = scene.actor(), _candidate(scene)
    assert owner.do(election.leader) is None
    leave = enter(scene, owner, election)
    info = scene.actor().do(_candidate(scene).leader)
    assert info.candidate == f"{socket.gethostname()}:{os.getpid()}"
    assert (info.host, info.pid) == (socket.gethostname(), os.getpid())
    assert abs(info.since - time.time()) < 30
    assert 0 < info.remaining <= 30
    owner.do(leave)
    assert owner.do(election.leader) is None


def test_a_block_waits_no_longer_than_told(scene: Stage) -> None:
    """A candidate with a timeout raises; one that leads already is told so."""
    owner, other, election = scene.actor(), scene.actor(), _candidate(scene)
    leave = enter(scene, owner, election)
    with pytest.raises(ReentryError):
        owner.do(election.acquire)
    impatient = scene.client().election(NAME, timeout=0.2)
    with pytest.raises(AcquireTimeoutError):
        other.enter(impatient)
    assert owner.do(election.owned)
    owner.do(leave)
    other.do(enter(scene, other, impatient))
    assert not other.do(election.locked)


@pytest.mark.sample
def test_a_function_runs_while_its_candidate_leads(scene: Stage) -> None:
    """It gets the term if it takes one; leadership ends with it, also if it raises."""
    owner, other, seen = scene.actor(), scene.actor(), list[Any]()
    election = _candidate(scene, "a")
    waits = scene.world.cancels

    def look(term: Any) -> str:
        seen.append((term.valid, term.token > 0))
        return "done"

    def fail() -> None:
        raise LookupError

    async def look_later(term: Any) -> str:
        assert (await election.leader()).candidate == "a"
        return look(term)

    async def fail_later() -> None:
        fail()

    async def idle_later() -> str:
        return "idle"

    assert owner.do(election.run, look_later if waits else look) == "done"
    assert seen[-1] == (True, True)
    assert owner.do(election.run, idle_later if waits else lambda: "idle") == "idle"
    with pytest.raises(LookupError):
        owner.do(election.run, fail_later if waits else fail)
    assert other.do(election.leader) is None


@in_asyncio
def test_a_lost_term_cancels_what_runs(scene: Stage) -> None:
    """With asyncio a function is cancelled when the term is lost, and `run` raises."""
    owner, began, ended = scene.actor(), threading.Event(), threading.Event()
    election = _candidate(scene, lease=SOON)
    forever = scene.client().semaphore("nobody releases it", 0)

    async def lead() -> None:
        began.set()
        try:
            await forever.acquire()
        finally:
            ended.set()

    running = owner.start(election.run, lead)
    assert began.wait(PROMPT)
    assert scene.actor().do(_candidate(scene).force_release)
    with pytest.raises(HoldLostError):
        running.result(SOON + PROMPT)
    assert ended.is_set()


def test_a_term_with_a_lease_is_not_renewed(scene: Stage) -> None:
    """With ``lease=`` a leader leads that long at most, and the next one follows at once."""
    owner, waiter = scene.actor(), scene.actor()
    first = scene.client().election(NAME, lease=1)
    second = _candidate(scene)
    began = time.monotonic()
    assert owner.do(first.acquire)
    term = owner.do(lambda: first.hold)
    assert waiter.do(second.acquire, timeout=PROMPT)
    assert time.monotonic() - began > 0.9
    wait_until(term.lost.is_set, 5, "the former leader is told")
    assert waiter.do(lambda: second.hold).token > term.token


@pytest.mark.promise("death")
@each_face
def test_a_dead_leader_is_followed_within_its_lease(scene: Stage) -> None:
    """While it lives it is renewed; when it is killed the next candidate leads, with more."""
    other, waiter = _candidate(scene, "b"), scene.actor()
    code = """
        client = interlock.connect(url, lease=3)
        election = client.election("the name", candidate="dead")
        election.acquire()
        say(election.hold.token)
        threading.Event().wait()
    """
    with Child(code, scene.place.urls[0]) as child:
        token = int(child.hear())
        waiting = waiter.start(other.acquire)
        time.sleep(3.5)  # longer than its lease
        assert not waiting.done()
        assert scene.actor().do(other.leader).candidate == "dead"
        child.kill()
        assert waiting.result(SOON + PROMPT)
    assert waiter.do(lambda: other.hold).token > token
    assert waiter.do(other.leader).candidate == "b"


@pytest.mark.sample
def test_observers_are_told(scene: Stage) -> None:
    """An observer hears who leads now, of each change, and of nobody, until it is closed."""
    owner, election, seen = scene.actor(), _candidate(scene, "a"), list[Any]()

    def tell(info: Any) -> None:
        seen.append(info and info.candidate)

    observation = owner.do(_candidate(scene).observe, tell)
    wait_until(lambda: seen == [None], 10, "it is told of nobody")
    scene.place.rests(NAME)
    assert owner.do(election.acquire)
    wait_until(lambda: seen == [None, "a"], 10, "it is told of the leader")
    owner.do(election.release)
    wait_until(lambda: seen == [None, "a", None], 10, "it is told of the end")
    assert owner.do(election.acquire)
    wait_until(lambda: seen[3:] == ["a"], 10, "it is told of the leader")
    assert scene.actor().do(_candidate(scene).force_release)
    wait_until(lambda: seen[4:] == [None], 10, "it is told of an end by force")
    owner, election = scene.actor(), _candidate(scene, "b")
    waiter, theirs = scene.actor(), _candidate(scene, "c")
    assert owner.do(election.acquire)
    waiting = joins(scene, waiter, theirs.acquire)
    owner.do(election.release)
    assert waiting.result(PROMPT)
    wait_until(lambda: seen[-1] == "c", 10, "it is told of who was waiting")
    waiter.do(theirs.release)
    wait_until(lambda: seen[-1] is None, 10, "it is told of the end")
    told = list(seen)
    owner.do(observation.close)
    other = scene.actor()
    assert other.do(_candidate(scene, "d").acquire)
    assert seen == told


@each_face
def test_observers_find_out_without_messages(troubled_scene: Stage) -> None:
    """Without any message an observer is told within two seconds."""
    scene, seen = troubled_scene, list[Any]()
    scene.place.lose_messages()
    owner, election, watcher = scene.actor(), _candidate(scene, "a"), _candidate(scene)
    observation = owner.do(watcher.observe, lambda info: seen.append(info and info.candidate))
    owner.do(election.acquire)
    wait_until(lambda: seen[-1:] == ["a"], 10, "it looked")
    owner.do(election.release)
    wait_until(lambda: seen[-1:] == [None], 10, "it looked")
    owner.do(observation.close)


@each_face
@pytest.mark.parametrize("given", [False, True], ids=["taken", "given"])
def test_a_term_is_announced_once(troubled_scene: Stage, given: bool) -> None:
    """A candidate whose reply is lost finds its term, with the token that was announced."""
    scene, place = troubled_scene, troubled_scene.place
    election = _candidate(scene, "a", command_timeout=0.5)
    other = scene.client(place.direct[0]).election(NAME)
    owner, first = scene.actor(), scene.actor()
    if given:
        first.do(other.acquire)
        entering = joins(scene, owner, election.acquire)
    else:
        owner.do(election.acquire)
        owner.do(election.release)
    with redis.Redis.from_url(place.direct[0]) as server, server.pubsub() as news:
        news.subscribe(NEWS)
        assert news.get_message(timeout=5), "it hears"
        once = iter([True])
        place.on_request(lambda request: LEADER in request and next(once, False), drop_reply)
        if given:
            first.do(other.release)
        else:
            entering = owner.start(election.acquire)
        assert entering.result(20)
        term, info = owner.do(lambda: election.hold), owner.do(other.leader)
        assert (info.holder, info.token, info.candidate) == (term.holder, term.token, "a")
        heard = [each["data"] for each in iter(lambda: news.get_message(timeout=0.2), None)]
    assert heard == ([b"0"] if given else []) + [b"1"]
    owner.do(election.release)


@each_face
def test_a_term_that_the_server_does_not_announce_does_not_begin(troubled_scene: Stage) -> None:
    """Without an answer nobody leads, and soon another one may."""
    scene, owner = troubled_scene, troubled_scene.actor()
    election = _candidate(scene, command_timeout=0.3, outage_timeout=0.3)
    other = scene.client(scene.place.direct[0]).election(NAME)
    owner.do(election.acquire)
    owner.do(election.release)
    scene.place.on_request(lambda request: LEADER in request, drop_reply)
    with pytest.raises(ServerUnavailableError):
        owner.do(election.acquire)
    owner.do(other.acquire)
    owner.do(other.release)


@each_face
def test_who_was_granted_the_lock_does_not_lead_yet(troubled_scene: Stage) -> None:
    """A candidate leads from when it has asked: the record before is another term's."""
    scene, place = troubled_scene, troubled_scene.place
    first, second = scene.actor(), scene.actor()
    mine, theirs = scene.client(place.direct[0]).election(NAME), _candidate(scene)
    first.do(mine.acquire)
    waiting = joins(scene, second, theirs.acquire)
    place.on_request(lambda request: LEADER in request, drop_request)
    first.do(mine.release)
    with redis.Redis.from_url(place.direct[0]) as server:
        assert server.hlen(f"interlock_election:{{{NAME}}}") == 1
    assert first.do(mine.leader) is None
    place.clear()
    assert waiting.result(20)
    assert first.do(mine.leader).holder == second.do(lambda: theirs.hold).holder
    second.do(theirs.release)
