"""Sequences of operations, and what each step leaves on the server: the same by Java and by Python but for ids.

`SEQUENCES` are played by an agent; `play` returns after every step the answer, all keys (type, fields, values, time to live in
tens of seconds) and the messages that were sent. Ids and times are replaced: an owner by its thread, a permit by its number, a
date by the tens of seconds until it.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .agent import PATIENCE, AgentError
from .pair import SETTLE

if TYPE_CHECKING:
    from concurrent.futures import Future

    import redis

    from .agent import Agent, Answer

NAMES = ("orders", "{stock}:7")
"""One that gets braces in derived keys, one that has its own."""

State = dict[str, Any]

_PRIVATE = ("redisson_unlock_latch:", "interlock_")
"""Keys that only the client that made them reads; each language has its own."""

_END = "end of step"
_EPOCH = re.compile(r"\d{13}(?:\.\d+)?")
_NEVER = 922337203685477


@dataclass(frozen=True, slots=True)
class Step:
    """One command.

    Attributes:
        thread: who does it.
        do: what.
        kind: of the object.
        rest: arguments.
        waits: whether it cannot end yet; it is left waiting, and ends with a later step.
        permits: whose step's permits it is about, by the number of that step.
    """

    thread: str
    do: str
    kind: str
    rest: dict[str, Any] = field(default_factory=dict)
    waits: bool = False
    permits: int | None = None


def _step(thread: str, do: str, kind: str, **rest: Any) -> Step:
    waits, permits = rest.pop("waits", False), rest.pop("permits", None)
    return Step(thread, do, kind, rest, waits, permits)


def _group(thread: str, do: str, values: str, **rest: Any) -> Step:
    return _step(thread, do, "group", values=list(values), **rest)


def _lock(kind: str) -> list[Step]:
    """Enter twice, be refused, leave twice, be freed by force, expire by lease."""
    return [
        _step("t1", "acquire", kind, lease=60),
        _step("t1", "acquire", kind, lease=60),
        _step("t2", "acquire", kind, timeout=0),
        _step("t2", "release", kind),
        _step("t1", "release", kind),
        _step("t1", "release", kind),
        _step("t1", "acquire", kind),
        _step("t1", "release", kind),
        _step("t1", "release", kind),
        _step("t1", "acquire", kind, timeout=0, lease=90),
        _step("t2", "force_release", kind),
        _step("t2", "force_release", kind),
    ]


SEQUENCES: dict[str, list[Step]] = {
    "lock": _lock("lock"),
    "fenced": _lock("fenced"),
    "spin": _lock("spin"),
    "fair": _lock("fair"),
    "read": _lock("read"),
    "write": _lock("write"),
    "lock-leases": [
        _step("t1", "acquire", "lock", lease=30),
        _step("t1", "acquire", "lock", lease=90),
        _step("t1", "acquire", "lock", lease=60),
        _step("t1", "release", "lock"),
        _step("t1", "release", "lock"),
        _step("t1", "release", "lock"),
    ],
    "lock-waiting": [
        _step("t1", "acquire", "lock", lease=60),
        _step("t2", "acquire", "lock", timeout=60, lease=90, waits=True),
        _step("t1", "release", "lock"),
        _step("t2", "release", "lock"),
    ],
    "fair-waiting": [
        _step("t1", "acquire", "fair", lease=60),
        _step("t2", "acquire", "fair", timeout=60, lease=90, waits=True),
        _step("t3", "acquire", "fair", timeout=60, lease=90, waits=True),
        _step("t4", "acquire", "fair", timeout=0),
        _step("t1", "release", "fair"),
        _step("t2", "release", "fair"),
        _step("t3", "release", "fair"),
    ],
    "non_reentrant": [
        _step("t1", "acquire", "non_reentrant", lease=60),
        _step("t1", "acquire", "non_reentrant", lease=60, timeout=0),
        _step("t2", "acquire", "non_reentrant", timeout=0),
        _step("t1", "release", "non_reentrant"),
    ],
    "readers-and-writers": [
        _step("t1", "acquire", "read", lease=60),
        _step("t2", "acquire", "read", lease=90),
        _step("t3", "acquire", "write", timeout=0),
        _step("t1", "release", "read"),
        _step("t1", "release", "read"),
        _step("t2", "release", "read"),
        _step("t3", "acquire", "write", lease=60),
        _step("t1", "acquire", "read", timeout=0),
        _step("t3", "acquire", "read", lease=60),
        _step("t3", "release", "write"),
        _step("t1", "acquire", "read", lease=60),
        _step("t3", "release", "read"),
        _step("t1", "release", "read"),
    ],
    "read-force": [
        _step("t1", "acquire", "read", lease=60),
        _step("t2", "force_release", "write"),
        _step("t2", "force_release", "read"),
    ],
    "group": [
        _group("t1", "acquire", "ab", lease=60),
        _group("t2", "acquire", "bc", timeout=0, lease=60),
        _group("t2", "acquire", "cd", timeout=0, lease=90),
        _group("t1", "acquire", "ab", timeout=0, lease=60),
        _group("t2", "release", "ab"),
        _group("t1", "release", "ab"),
        _group("t1", "release", "ab"),
        _group("t2", "release", "cd"),
    ],
    "group-force": [
        _group("t1", "acquire", "ab", lease=60),
        _group("t2", "acquire", "cd", lease=60),
        _group("t2", "force_release", "ab"),
        _group("t2", "release", "cd"),
    ],
    "semaphore": [
        _step("t1", "try_set_permits", "semaphore", n=3),
        _step("t1", "try_set_permits", "semaphore", n=5),
        _step("t1", "acquire", "semaphore", n=2, timeout=0),
        _step("t2", "acquire", "semaphore", n=2, timeout=0),
        _step("t2", "acquire", "semaphore", n=2, timeout=60, waits=True),
        _step("t1", "release", "semaphore", n=1),
        _step("t1", "add_permits", "semaphore", n=4),
        _step("t1", "add_permits", "semaphore", n=-1),
        _step("t1", "available_permits", "semaphore"),
        _step("t1", "drain_permits", "semaphore"),
        _step("t1", "release_if_exists", "semaphore", n=1),
    ],
    "semaphore-missing": [
        _step("t1", "acquire", "semaphore", timeout=0),
        _step("t1", "release_if_exists", "semaphore", n=1),
        _step("t1", "drain_permits", "semaphore"),
        _step("t1", "available_permits", "semaphore"),
        _step("t1", "release", "semaphore", n=2),
        _step("t1", "drain_permits", "semaphore"),
        _step("t1", "add_permits", "semaphore", n=-2),
    ],
    "leased_semaphore": [
        _step("t1", "try_set_permits", "leased_semaphore", n=3),
        _step("t1", "try_set_permits", "leased_semaphore", n=4),
        _step("t1", "acquire", "leased_semaphore", n=2, timeout=0, lease=60),
        _step("t2", "acquire", "leased_semaphore", n=1, timeout=0, lease=90),
        _step("t2", "acquire", "leased_semaphore", n=1, timeout=0, lease=90),
        _step("t2", "available_permits", "leased_semaphore"),
        _step("t2", "acquired_permits", "leased_semaphore"),
        _step("t2", "permits", "leased_semaphore"),
        _step("t2", "update_lease", "leased_semaphore", lease=120, permits=3),
        _step("t1", "release", "leased_semaphore", permits=2),
        _step("t1", "release", "leased_semaphore", permits=2),
        _step("t2", "release", "leased_semaphore", permits=3),
        _step("t1", "set_permits", "leased_semaphore", n=1),
        _step("t1", "add_permits", "leased_semaphore", n=2),
        _step("t1", "add_permits", "leased_semaphore", n=-1),
    ],
    "latch": [
        _step("t1", "try_set_count", "latch", n=2),
        _step("t1", "try_set_count", "latch", n=5),
        _step("t2", "wait", "latch", timeout=60, waits=True),
        _step("t1", "count_down", "latch"),
        _step("t1", "count", "latch"),
        _step("t1", "count_down", "latch"),
        _step("t1", "count_down", "latch"),
        _step("t1", "try_set_count", "latch", n=1),
        _step("t1", "delete", "latch"),
        _step("t1", "delete", "latch"),
    ],
}


ON_PURPOSE: dict[str, dict[str, range]] = {
    "a-token-for-each-hold": {"fenced": range(1, 12)},
    "a-free-fair-lock-cannot-be-released": {"fair": range(8, 9)},
    "a-refused-release-is-silent": {"read": range(8, 9), "write": range(8, 9)},
    "force-removes-all-keys": {"read": range(10, 12), "read-force": range(2, 3)},
    "writers-leases-do-not-add-up": {"write": range(1, 4)},
    "a-re-entry-never-shortens": {"lock-leases": range(2, 5)},
    "waiters-keep-asking": {"fair-waiting": range(1, 5)},
    "a-partial-release-is-silent": {"group": range(5, 6)},
    "a-forced-release-says-what-it-did": {"group-force": range(2, 3)},
    "a-downgrade-is-announced": {"readers-and-writers": range(9, 10)},
    "no-message-that-breaks-java": {"semaphore-missing": range(6, 7)},
}
"""Where Python leaves something else, and why: a heading of docs/explanation/redisson.md."""


def purpose(sequence: str, step: int) -> str | None:
    """Return why Python differs from Java after *step* of *sequence*, or None where it must not."""
    for why, where in ON_PURPOSE.items():
        if step in where.get(sequence, ()):
            return why
    return None


class Stage:
    """A server that is looked at between steps.

    Args:
        client: of the server, which nothing else uses meanwhile.
    """

    def __init__(self, client: redis.Redis) -> None:
        self._redis = client
        self._pubsub = client.pubsub()
        self._pubsub.psubscribe("*")
        while (self._pubsub.get_message(timeout=5) or {}).get("type") != "psubscribe":
            pass
        self._ids: dict[str, str] = {}
        self._owner = re.compile("")
        self._acting = ""

    def close(self) -> None:
        """Stop listening."""
        self._pubsub.close()

    def play(self, agent: Agent, name: str, steps: list[Step]) -> list[State]:
        """Have *agent* do *steps* on an empty server; return what each left."""
        self._redis.flushall()
        # Threads that never held anything: a lost hold makes Python's owners draw another number.
        threads = {step.thread: f"{step.thread} of {time.monotonic()}" for step in steps}
        self._ids = {agent.owner(own): f"<{thread}>" for thread, own in threads.items()}
        self._owner = re.compile(rf"{agent.client_ids['main']}:\d+")
        states: list[State] = []
        given: dict[int, list[str]] = {}
        waiting: list[Future[Answer]] = []
        for number, step in enumerate(steps):
            rest, self._acting = dict(step.rest), step.thread
            if step.permits is not None:
                rest["ids"] = given[step.permits]
            ending = agent.start(threads[step.thread], step.do, kind=step.kind, name=name, **rest)
            state: State = {"step": f"{step.thread} {step.do} {step.kind} {step.rest}"}
            if step.waits:
                waiting.append(ending)
                state["answer"] = "waits"
            else:
                state["answer"] = self._answer(ending, given, number)
            if waiting:  # let it begin to, or go on because of this
                time.sleep(SETTLE)
            assert not (step.waits and ending.done()), state
            waiting = [future for future in waiting if not future.done()]
            states.append(state | {"keys": self._keys(), "messages": self._messages()})
        assert not waiting
        return states

    def _answer(self, ending: Future[Answer], given: dict[int, list[str]], number: int) -> Any:
        try:
            value = ending.result(PATIENCE).value
        except AgentError:
            return "refused"
        if isinstance(value, list):
            given[number] = value
            for ident in value:
                self._ids[ident] = f"<permit {value.index(ident)} of step {number}>"
            return f"{len(value)} permits"
        return "done" if value in (None, True) else value

    def _keys(self) -> dict[str, Any]:
        found = {
            self._text(key): self._key(key)
            for key in self._redis.scan_iter()
            if not key.decode().startswith(_PRIVATE)
        }
        return dict(sorted(found.items()))

    def _key(self, key: bytes) -> dict[str, Any]:
        kind = self._redis.type(key).decode()
        ttl = self._redis.pttl(key)
        if kind == "hash":
            pairs = self._redis.hgetall(key).items()
            value: Any = dict(sorted((self._text(name), self._text(text)) for name, text in pairs))
        elif kind == "list":
            value = [self._text(item) for item in self._redis.lrange(key, 0, -1)]
        elif kind == "zset":
            scored = self._redis.zrange(key, 0, -1, withscores=True)
            value = sorted([self._text(member), self._date(score)] for member, score in scored)
        else:
            value = self._text(self._redis.get(key))
        return {"type": kind, "value": value, "ttl": ttl if ttl < 0 else _tens(ttl / 1000)}

    def _messages(self) -> list[list[str]]:
        self._redis.publish("interlock-tests", _END)
        messages = []
        while True:
            message = self._pubsub.get_message(timeout=PATIENCE)
            if message is None or message["type"] != "pmessage":
                continue
            if message["data"] == _END.encode():
                return messages
            messages.append([self._text(message["channel"]), self._text(message["data"])])

    def _word(self, owner: str) -> str:
        """Return the word for *owner*: one that nobody has seen before belongs to who acted last."""
        return self._ids.setdefault(owner, f"<{self._acting}>")

    def _date(self, score: float) -> str:
        if score >= _NEVER:
            return "never"
        return f"in {_tens(score / 1000 - self._now())} s"

    def _now(self) -> float:
        seconds, micros = self._redis.time()
        return float(seconds) + float(micros) / 1e6

    def _text(self, raw: bytes) -> str:
        if len(raw) == 16 and raw.hex() in self._ids:
            return self._ids[raw.hex()]
        text = self._owner.sub(lambda found: self._word(found[0]), raw.decode())
        return _EPOCH.sub(lambda found: self._date(float(found[0])), text)


def _tens(seconds: float) -> int:
    """Return tens of seconds, as seconds: leases of that kind are told apart on a slow machine too."""
    return round(seconds / 10) * 10
