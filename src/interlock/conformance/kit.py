"""Plays the recorded sequences, and tells where a client departs from them."""

from __future__ import annotations

import json
import math
import re
import time
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, cast

import redis

from interlock.conformance.client import UNSUPPORTED, Client, RefusedError, answer_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

QUIET = 0.2
"""Seconds without any command after which a call waits, or has gone on."""
PATIENCE = 10.0
"""Seconds after which a departure is one: a busy machine may need them to begin or to go on."""
_PRIVATE = ("redisson_unlock_latch:", "interlock_")
"""Beginnings of keys that only the client that made them reads; each language has its own."""
_EPOCH = re.compile(r"\d{13}(?:\.\d+)?")
_NEVER = 922337203685477
_PERMIT = 16
_SOON = 15.0
_END = "end of step"


@dataclass(frozen=True, slots=True)
class Departure:
    """Where a client did something else than Redisson.

    Attributes:
        step: what was called.
        part: ``answer``, ``keys`` or ``messages``.
        wanted: what Redisson does.
        found: what the client did.
    """

    step: str
    part: str
    wanted: object
    found: object


@dataclass(slots=True)
class Outcome:
    """How a client played one sequence under one name.

    Attributes:
        sequence: which.
        name: of the object.
        steps: how many calls were compared.
        unsupported: whether the client does not have such an object.
        departures: where it departs; the first one may be the cause of others.
    """

    sequence: str
    name: str
    steps: int = 0
    unsupported: bool = False
    departures: list[Departure] = field(default_factory=list[Departure])


def run(command: Sequence[str], url: str, only: Sequence[str] = ()) -> Iterator[Outcome]:
    """Yield how the client that *command* starts plays each sequence.

    Args:
        command: program and arguments.
        url: a server whose database is emptied again and again.
        only: names of sequences; none for all.

    Raises:
        ClientError: the client cannot be started, or does not keep to the protocol.
    """
    text = (files("interlock.conformance") / "vectors.json").read_text(encoding="utf-8")
    with Client(command) as client, cast("Any", redis.Redis).from_url(url) as server:
        client.connect(url)
        stage = _Stage(client, server)
        # A client may remember what it has set up: first come those about missing objects.
        vectors = json.loads(text)
        for vector in sorted(vectors, key=lambda each: "missing" not in each["sequence"]):
            if not only or vector["sequence"] in only:
                yield stage.play(vector)
        stage.pubsub.close()


class _Stage:
    """The server, which is looked at between calls; ids and times are replaced by words."""

    # redis-py's types are those of both of its faces at once.
    def __init__(self, client: Client, server: Any) -> None:
        self._client, self._redis = client, server
        self.pubsub = server.pubsub()
        self.pubsub.psubscribe("*")
        while (first := self.pubsub.get_message(timeout=5)) is None or first[
            "type"
        ] != "psubscribe":
            continue
        self._owner = re.compile(rf"{re.escape(client.client_id)}:[^:\s]+")
        self._words: dict[str, str] = {}
        self._acting = ""

    def play(self, vector: dict[str, Any]) -> Outcome:
        """Play one sequence."""
        self._redis.flushdb()
        outcome = Outcome(vector["sequence"], vector["name"])
        # Threads that never held anything.
        threads = {
            step["thread"]: f"{step['thread']} {time.monotonic()}" for step in vector["steps"]
        }
        self._words = {self._client.owner(own): f"<{thread}>" for thread, own in threads.items()}
        given: dict[int, list[str]] = {}
        waiting: list[Future[dict[str, Any]]] = []
        for number, step in enumerate(vector["steps"]):
            rest, self._acting = dict(step["rest"]), step["thread"]
            if step["permits"] is not None:
                rest["ids"] = given.get(step["permits"], [])
            call = {"kind": step["kind"], "name": vector["name"], **rest}
            executed = self._executed() if step["waits"] else None
            ending = self._client.start(threads[step["thread"]], step["do"], **call)
            try:
                answer = None if step["waits"] else self._answer(ending, given, number)
            except RefusedError:
                outcome.unsupported = True
                return outcome
            waiting += [ending] if step["waits"] else []
            look = partial(self._look, ending, answer, list[list[str]]())
            wanted = vector["states"][number]
            found = self._settled(look, wanted, executed) if waiting else look()
            waiting = [each for each in waiting if not each.done()]
            outcome.steps += 1
            outcome.departures += _departures(wanted, found)
            if outcome.departures:
                break  # whatever comes after it may only follow from it
        return outcome

    def _look(
        self, ending: Future[dict[str, Any]], answer: object, messages: list[list[str]]
    ) -> dict[str, Any]:
        """Return what is to be seen of a call; *messages* grows by those that were sent since."""
        messages += self._messages()
        if answer is None:
            answer = "done" if ending.done() else "waits"
        return {"answer": answer, "keys": self._keys(), "messages": messages}

    def _settled(
        self, look: Callable[[], dict[str, Any]], wanted: dict[str, Any], executed: int | None
    ) -> dict[str, Any]:
        """Return what *look* finds once calls have begun to wait, or have gone on.

        Args:
            look: looks at the call and the server.
            wanted: what Redisson does.
            executed: how many commands the server had executed before a call that is to wait.
        """
        deadline = time.monotonic() + PATIENCE
        self._rest(executed, deadline)
        while any(_departures(wanted, found := look())) and time.monotonic() < deadline:
            time.sleep(QUIET)
        return found

    def _rest(self, executed: int | None, deadline: float) -> None:
        """Wait until clients have sent no command for `QUIET` seconds, after any since *executed*.

        Each question is a command, too.
        """
        last = self._executed()
        begun = executed is None or last > executed + 1
        while time.monotonic() < deadline:
            time.sleep(QUIET)
            before, last = last, self._executed()
            quiet = last == before + 1
            if begun and quiet:
                return
            begun = begun or not quiet

    def _executed(self) -> int:
        return int(self._redis.info("stats")["total_commands_processed"])

    def _answer(
        self, ending: Future[dict[str, Any]], given: dict[int, list[str]], number: int
    ) -> object:
        try:
            value = answer_of(ending).get("value")
        except RefusedError as error:
            if error.kind == UNSUPPORTED:
                raise
            return "refused"
        if isinstance(value, list):
            given[number] = [str(each) for each in cast("list[object]", value)]
            for at, ident in enumerate(given[number]):
                self._words[ident] = f"<permit {at} of step {number}>"
            return f"{len(given[number])} permits"
        return "done" if value in (None, True) else value

    def _keys(self) -> dict[str, Any]:
        keys = [key for key in self._redis.scan_iter() if not key.decode().startswith(_PRIVATE)]
        return dict(sorted((self._text(key), self._key(key)) for key in keys))

    def _key(self, key: bytes) -> dict[str, Any]:
        kind, ttl = self._redis.type(key).decode(), self._redis.pttl(key)
        value: Any
        if kind == "hash":
            pairs = self._redis.hgetall(key).items()
            value = dict(sorted((self._text(name), self._text(text)) for name, text in pairs))
        elif kind == "list":
            value = [self._text(item) for item in self._redis.lrange(key, 0, -1)]
        elif kind == "zset":
            scored = self._redis.zrange(key, 0, -1, withscores=True)
            value = sorted([self._text(member), self._date(score)] for member, score in scored)
        else:
            value = self._text(self._redis.get(key) or b"")
        return {"type": kind, "value": value, "ttl": ttl if ttl < 0 else rounded(ttl / 1000)}

    def _messages(self) -> list[list[str]]:
        self._redis.publish("interlock-conformance", _END)
        messages: list[list[str]] = []
        while True:
            message = self.pubsub.get_message(timeout=30)
            if message is None or message["type"] != "pmessage":
                continue
            if message["data"] == _END.encode():
                return messages
            channel = self._text(message["channel"]).replace(self._client.client_id, "<client>")
            messages.append([channel, self._text(message["data"])])

    def _date(self, score: float) -> str:
        now, micros = self._redis.time()
        left = score / 1000 - now - micros / 1e6
        return "never" if score >= _NEVER else f"in {rounded(left)} s"

    def _text(self, raw: bytes) -> str:
        if len(raw) == _PERMIT and raw.hex() in self._words:
            return self._words[raw.hex()]
        # A new owner belongs to the thread that acted last.
        text = self._owner.sub(
            lambda found: self._words.setdefault(found[0], f"<{self._acting}>"),
            raw.decode(errors="backslashreplace"),
        )
        return _EPOCH.sub(lambda found: self._date(float(found[0])), text)


def _departures(wanted: dict[str, Any], found: dict[str, Any]) -> Iterator[Departure]:
    """Yield where *found* is neither what Redisson leaves nor what interlock leaves on purpose."""
    ours = wanted.get("interlock", {})
    for part, value in found.items():
        if value not in (wanted[part], ours.get(part, wanted[part])):
            yield Departure(wanted["step"], part, wanted[part], value)


def rounded(seconds: float) -> int:
    """Round *seconds* up to half minutes: this tells leases apart even on a slow machine.

    What ends within `_SOON` seconds is rounded to tens.
    """
    return math.ceil((seconds - 1) / 30) * 30 if seconds > _SOON else round(seconds / 10) * 10
