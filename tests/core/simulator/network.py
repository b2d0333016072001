"""The simulated server and the way to it.

Requests and replies take time, overtake each other, get lost or come late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.core.simulator.schedule import drop_request
from tests.core.simulator.timeline import IDLE, Clock, Idle
from tests.core.simulator.watcher import Dump
from tests.support.model.redis_model import ModelError, RedisModel

from interlock.errors import InterlockError, ServerUnavailableError, WrongTypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.core.simulator import Simulator
    from tests.core.simulator.client import Connection
    from tests.core.simulator.schedule import Fault
    from tests.support.model.redis_model import Stored

    from interlock._core.model.effects import Eval

EPOCH = 1_700_000_000.0
DRIFT = 0.0005
"""The most by which a clock is fast or slow. Client and server share what the core allows for."""
REFUSED = 0.5
"""How often an unreachable server's host refuses a connection, and does not just keep silent."""


class _Ran(NamedTuple):
    """What the trace tells of scripts that ran; few are ever read."""

    names: str
    who: str
    replies: list[object]

    def __str__(self) -> str:
        return f"{self.names} of {self.who}: {self.replies}"


class Exchange:
    """One write of some scripts, and the wait for their replies.

    Args:
        network: the way to the server.
        calls: what is sent.
        answer: called once, with the replies or with what went wrong. An error that the server gave
            stands among the replies.
        who: for the trace.

    Attributes:
        arriving: when the request arrives at the server; None when it has, or never will.
        abandoned: nobody waits for the answer any more.
    """

    def __init__(
        self,
        network: Network,
        calls: Sequence[Eval[object]],
        answer: Callable[[list[object] | ServerUnavailableError], None],
        who: str,
    ) -> None:
        self._network = network
        self._answer = answer
        self._answered = False
        self._who = who
        self._generation = network.generation
        self.calls = calls
        self.abandoned = False
        self.arriving: float | None = None

    def send(self, timeout: float, fault: Fault | None) -> None:
        timeline, network = self._network.timeline, self._network
        kind = fault.kind if fault is not None else None
        seconds = fault.seconds if fault is not None else 0.0
        timeline.after(timeout, lambda: self._fail(f"no reply in {timeout:g} s", sent=True))
        if network.unreachable and timeline.random.random() < REFUSED:
            timeline.after(network.latency(), lambda: self._fail("connection refused", sent=False))
            return
        delay = network.latency()
        if kind == "drop request":
            timeline.after(delay + seconds, lambda: self._fail("connection reset", sent=True))
            return
        if kind == "delay request":
            delay += seconds
        self.arriving = timeline.now + delay
        network.travelling[self] = None
        timeline.after(delay, lambda: self._arrive(kind, seconds))

    def _arrive(self, kind: str | None, seconds: float) -> Idle | None:
        timeline, network = self._network.timeline, self._network
        self.arriving = None
        network.travelling.pop(self, None)
        if network.unreachable:
            return None
        if network.generation != self._generation:
            self._fail("connection reset", sent=True)
            return None
        names = " ".join(call.script.name for call in self.calls)
        replies = [network.run(call) for call in self.calls]
        timeline.note("server", _Ran(names, self._who, replies))
        network.world.judge.after_step()
        delay = network.latency()
        if kind in ("drop reply", "duplicate"):
            timeline.after(delay + seconds, lambda: self._fail("connection reset", sent=True))
            return IDLE
        if kind == "delay reply":
            delay += seconds
        timeline.after(delay, lambda: self._receive(replies))
        # It has been checked above.
        return IDLE

    def _receive(self, replies: list[object]) -> Idle | None:
        if self._network.generation != self._generation:
            return self._fail("connection reset", sent=True)
        return IDLE if self._network.unreachable else self._finish(replies)

    def _fail(self, why: str, *, sent: bool) -> Idle | None:
        if self._answered:
            return IDLE
        return self._finish(ServerUnavailableError(why, sent=sent, transient=True))

    def _finish(self, outcome: list[object] | ServerUnavailableError) -> Idle | None:
        if self._answered:
            return IDLE
        self._answered = True
        if not self.abandoned:
            self._answer(outcome)
        # The waiter hears of it in a step of its own.
        return IDLE


class Network:
    """The server of *world* and the way to it.

    Attributes:
        world: as given; its judge looks at each script.
        server: the model.
        broken: whose connections end at their next requests.
        lossy_until: messages published before that time are lost.
        dilatory_until: messages published before that time come late, and some of them twice.
        generation: how often the server was restarted.
        travelling: what has been sent and not arrived.
    """

    def __init__(self, world: Simulator) -> None:
        self.world, self.timeline = world, world.timeline
        low, high = world.latency
        self._least, self._spread = low, high - low
        self._random = world.random.random
        self.broken = set[str]()
        self._down_until = 0.0
        self.lossy_until = self.dilatory_until = 0.0
        self.generation = 0
        self.travelling: dict[Exchange, None] = {}
        self._subscribed: dict[str, dict[Connection, None]] = {}
        self._viewed: dict[bytes, Stored] | None = None
        self._view = Dump()
        self._texts: dict[bytes, str] = {}
        clock = Clock(self.timeline, EPOCH, world.random.uniform(-DRIFT, DRIFT))
        self.server = RedisModel(now=clock, publish=self._publish, listeners=self._listeners)

    @property
    def unreachable(self) -> bool:
        return self.timeline.now < self._down_until

    def latency(self) -> float:
        """Return how long the next thing takes, one way."""
        # As `Random.uniform` draws it, which takes longer.
        return self._least + self._spread * self._random()

    def exchange(
        self,
        calls: Sequence[Eval[object]],
        timeout: float,
        answer: Callable[[list[object] | ServerUnavailableError], None],
        who: str,
        fault: Fault | None = None,
    ) -> Exchange:
        """Send *calls*; *answer* is called with what came of them."""
        if who in self.broken:
            self.broken.remove(who)
            fault = drop_request()
        exchange = Exchange(self, calls, answer, who)
        exchange.send(timeout, fault)
        return exchange

    def run(self, call: Eval[object]) -> object:
        """Run *call* at once; return its reply or the error that it is for a client."""
        before = self.view()
        try:
            reply: object = self.server.eval(call.script.text, call.keys, call.args)
        except ModelError as error:
            reply = _meaning(error, call)
        self.world.judge.ran(call, before, self.view(), reply)
        return reply

    def view(self) -> Dump:
        """Return what is stored, by key: the same object until it changes.

        TTLs are as of that change.
        """
        stored = self.server.view()
        if stored is not self._viewed:
            self._viewed = stored
            texts = self._texts
            self._view = Dump(
                {
                    texts.get(key) or texts.setdefault(key, key.decode()): value
                    for key, value in stored.items()
                }
            )
        return self._view

    def go_down(self, seconds: float) -> None:
        self.timeline.note("server", f"is unreachable for {seconds:.4f} s")
        self._down_until = max(self._down_until, self.timeline.now + seconds)
        self.drop_subscribers()

    def heal(self) -> None:
        self._down_until = self.lossy_until = self.dilatory_until = self.timeline.now

    def restart(self) -> None:
        self.timeline.note("server", "restarts empty")
        self.generation += 1
        self.server.replace()
        self.drop_subscribers()

    def remove(self, *keys: str) -> None:
        self.timeline.note("server", f"is told by an operator to remove {keys}")
        self.server.remove(*keys)

    def drop_subscribers(self) -> None:
        subscribers = dict.fromkeys(s for several in self._subscribed.values() for s in several)
        self._subscribed.clear()
        for subscriber in subscribers:
            subscriber.cut()

    def subscribe(self, channel: str, subscriber: Connection) -> None:
        self._subscribed.setdefault(channel, {})[subscriber] = None

    def unsubscribe(self, channel: str, subscriber: Connection) -> None:
        several = self._subscribed.get(channel, {})
        several.pop(subscriber, None)
        if not several:
            self._subscribed.pop(channel, None)

    def forget(self, subscriber: Connection) -> None:
        for channel in list(self._subscribed):
            self.unsubscribe(channel, subscriber)

    def channels(self) -> list[str]:
        return list(self._subscribed)

    def _listeners(self, channel: bytes) -> int:
        return len(self._subscribed.get(channel.decode(), {}))

    def _publish(self, channel: bytes, payload: bytes) -> int:
        name = channel.decode()
        subscribers = self._subscribed.get(name, {})
        lost = self.timeline.now < self.lossy_until
        self.timeline.note("server", f"publishes {payload!r}{' in vain' if lost else ''}")
        if not lost:
            for subscriber in subscribers:
                subscriber.deliver(name, payload)
        return len(subscribers)


def _meaning(error: ModelError, call: Eval[object]) -> InterlockError:
    text = str(error)
    if text.startswith("WRONGTYPE"):
        return WrongTypeError(f"{call.keys} in use by something else", keys=call.keys)
    return ServerUnavailableError(text, code=text.split(maxsplit=1)[0])
