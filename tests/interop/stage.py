"""Plays sequences, and tells what each step leaves on the server.

That is the answer, all keys (type, fields, values, time to live) and the messages that were sent.
Ids and times are replaced: an owner by its thread, a permit by its number, a date by the seconds
until it, which are rounded.
"""

from __future__ import annotations

import math
import re
import time
from typing import TYPE_CHECKING, Any

from .agent import PATIENCE, AgentError
from .pair import settle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

    import redis

    from .agent import Agent, Answer
    from .sequences import Step

State = dict[str, Any]

_PRIVATE = ("redisson_unlock_latch:", "interlock_")
"""Keys that only the client that made them reads; each language has its own."""

_END = "end of step"
_EPOCH = re.compile(r"\d{13}(?:\.\d+)?")
_NEVER = 922337203685477
_SOON = 15.0


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
        self._client = ""
        self._acting = ""
        self._waits: list[str] = []

    def close(self) -> None:
        self._pubsub.close()

    def play(self, agent: Agent, name: str, steps: list[Step]) -> Iterator[State]:
        """Run *steps* in *agent* in an empty database; yield what each left."""
        self._redis.flushdb()
        # Threads that never held anything: a lost hold makes Python's owners draw another number.
        threads = {step.thread: f"{step.thread} of {time.monotonic()}" for step in steps}
        self._ids = {agent.owner(own): f"<{thread}>" for thread, own in threads.items()}
        self._client = agent.client_ids["main"]
        self._owner = re.compile(rf"{re.escape(self._client)}:[^:\s]+")
        given: dict[int, list[str]] = {}
        waiting: dict[str, Future[Answer]] = {}
        for number, step in enumerate(steps):
            rest, self._acting = dict(step.rest), step.thread
            if step.permits is not None:
                rest["ids"] = given[step.permits]
            ending = agent.start(threads[step.thread], step.do, kind=step.kind, name=name, **rest)
            state: State = {"step": f"{step.thread} {step.do} {step.kind} {step.rest}"}
            if step.waits:
                waiting[step.thread] = ending
            else:
                state["answer"] = self._answer(ending, given, number)
            if waiting:  # let it begin to, or go on because of this
                settle()
            if step.waits:
                state["answer"] = "done" if ending.done() else "waits"
            self._waits = list(waiting)
            yield state | {"keys": self._keys(), "messages": self._messages()}
            waiting = {who: future for who, future in waiting.items() if not future.done()}
        assert not waiting

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
            value = self._text(self._redis.get(key) or b"")
        return {"type": kind, "value": value, "ttl": ttl if ttl < 0 else rounded(ttl / 1000)}

    def _messages(self) -> list[list[str]]:
        self._redis.publish("interlock-tests", _END)
        messages = []
        while True:
            message = self._pubsub.get_message(timeout=PATIENCE)
            if message is None or message["type"] != "pmessage":
                continue
            if message["data"] == _END.encode():
                return messages
            channel = self._text(message["channel"]).replace(self._client, "<client>")
            if channel.startswith("interlock_asking:"):  # nobody hears it
                continue
            messages.append([channel, self._text(message["data"])])

    def _word(self, owner: str) -> str:
        """Return the word for *owner*.

        A new one belongs to the one that acted last, or to the thread that has waited longest if that
        one does not wait.
        """
        acting = self._acting in self._waits or not self._waits
        return self._ids.setdefault(owner, f"<{self._acting if acting else self._waits[0]}>")

    def _date(self, score: float) -> str:
        if score >= _NEVER:
            return "never"
        return f"in {rounded(score / 1000 - self._now())} s"

    def _now(self) -> float:
        seconds, micros = self._redis.time()
        return float(seconds) + float(micros) / 1e6

    def _text(self, raw: bytes) -> str:
        if len(raw) == 16 and raw.hex() in self._ids:
            return self._ids[raw.hex()]
        text = self._owner.sub(
            lambda found: self._word(found[0]), raw.decode(errors="backslashreplace")
        )
        return _EPOCH.sub(lambda found: self._date(float(found[0])), text)


def rounded(seconds: float) -> int:
    """Round *seconds* up to half minutes: this tells leases apart even on a slow machine.

    What ends within `_SOON` seconds is rounded to tens.
    """
    return math.ceil((seconds - 1) / 30) * 30 if seconds > _SOON else round(seconds / 10) * 10
