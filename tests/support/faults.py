"""What the proxy can do to a request, and how a test says which one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Matcher = Callable[[Sequence[bytes]], bool]
"""Whether a request, given as its words, is meant. Every matcher sees every request once."""


@dataclass(frozen=True, slots=True)
class Action:
    """One fault; use the names and functions below.

    Attributes:
        kind: Which.
        seconds: Of a delay.
    """

    kind: Literal[
        "drop_request",
        "reset",
        "drop_reply",
        "swallow_reply",
        "delay",
        "delay_reply",
        "duplicate",
        "blackhole",
    ]
    seconds: float = 0.0


drop_request = Action("drop_request")
"""Close the connection before the server sees the request. Earlier ones are answered first."""

reset = Action("reset")
"""As `drop_request`, but the client gets a TCP reset instead of an end of file."""

drop_reply = Action("drop_reply")
"""Let the server execute the request, then close the connection instead of replying.

Requests behind it on the connection do not reach the server.
"""

swallow_reply = Action("swallow_reply")
"""Let the server execute the request; neither the reply nor anything behind it arrives.

The connection stays open and takes requests, which are executed. A TCP stream has no holes: were
later replies let through, the client would take them for earlier ones, which no network does.
"""

duplicate = Action("duplicate")
"""Have the server execute the request twice, and relay the first reply."""

FAULTS = {
    "request-lost": drop_request,
    "connection-reset": reset,
    "reply-lost": drop_reply,
    "reply-swallowed": swallow_reply,
    "twice": duplicate,
}
"""Name -> what may happen to any request or its reply."""

blackhole = Action("blackhole")
"""From this request on nothing passes either way, and the connection stays open."""


def delay(seconds: float) -> Action:
    """Hold the request, and what is behind it, back for *seconds*: the server acts late."""
    return Action("delay", seconds)


def delay_reply(seconds: float) -> Action:
    """Hold the reply, and what is behind it, back for *seconds*: the server has acted in time."""
    return Action("delay_reply", seconds)


def command(*words: str, nth: int | None = None) -> Matcher:
    """Return a matcher for the requests that begin with *words*, in upper or lower case.

    Args:
        *words: For example ``"EVALSHA"``, or ``"SCRIPT", "LOAD"``; none at all match everything.
        nth: Only the so-manieth of them, counted from 1 over all connections; default: every one.
    """
    wanted = [word.upper().encode() for word in words]
    seen = 0

    def matches(args: Sequence[bytes]) -> bool:
        nonlocal seen
        if [word.upper() for word in args[: len(wanted)]] != wanted:
            return False
        seen += 1
        return nth is None or seen == nth

    return matches


class Request(NamedTuple):
    """A request that the proxy has seen, whether it passed or not."""

    connection: int
    args: list[bytes]


class Script:
    """What is to happen on the wire, and what has happened.

    Attributes:
        drop_messages: Whether pub/sub messages are lost; confirmations still arrive.
        record: All requests in the order they were read, handshakes included. Pipelined ones and
            those held back by a fault stand there one by one.
        commands: How often each command was seen, by its upper-case name.
        round_trips: How many bursts of requests were written before a reply came.
        fired: The faults that were really made, with the request each befell.
    """

    def __init__(self) -> None:
        self.drop_messages = False
        self.record: list[Request] = []
        self.commands: Counter[str] = Counter()
        self.round_trips = 0
        self.fired: list[tuple[Action, list[bytes]]] = []
        self._rules: list[tuple[Matcher, Action]] = []

    def on_request(self, matcher: Matcher, action: Action) -> None:
        """Do *action* to every request that *matcher* means; of several rules the first wins."""
        self._rules.append((matcher, action))

    def clear_rules(self) -> None:
        self._rules.clear()

    def clear_record(self) -> None:
        self.record.clear()
        self.commands.clear()
        self.fired.clear()
        self.round_trips = 0

    def saw_request(self, connection: int, args: list[bytes], *, new_burst: bool) -> None:
        """Record a request; the relay calls this when it has read one."""
        self.commands[args[0].decode().upper()] += 1
        self.round_trips += new_burst
        self.record.append(Request(connection, args))

    def choose(self, args: list[bytes]) -> Action | None:
        """Return the fault for this request; the relay asks once, when its turn has come."""
        actions = [action for matcher, action in tuple(self._rules) if matcher(args)]
        if not actions:
            return None
        self.fired.append((actions[0], args))
        return actions[0]
