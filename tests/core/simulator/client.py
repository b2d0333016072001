"""A simulated client: its clock, session, upkeep and subscriber."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from tests.core.simulator.network import DRIFT
from tests.core.simulator.process import WAKING_TAKES, Process
from tests.core.simulator.timeline import IDLE, Clock, Idle

from interlock._core.model.effects import NEVER, decoded
from interlock._core.model.names import GRANT
from interlock._core.upkeep.session import Answers, Outside, Session, nothing
from interlock._drivers.background.subscriber import FIRST_PAUSE, TICK, Listener

if TYPE_CHECKING:
    from tests.core.simulator import Simulator
    from tests.core.simulator.process import Program
    from tests.core.simulator.timeline import Action

    from interlock._core.queue.places import Line
    from interlock._core.upkeep.watchdog import Errand
    from interlock.options import Options

TWICE = 0.5
"""How often a message that is late comes once more."""
LATEST = 1.5
"""Seconds by which a message is late at most."""
RESUMING_TAKES = 0.001
"""Seconds, at most, in which all that waited for a paused client reaches it."""


class Client:
    """One client; made by `Simulator.client`.

    Attributes:
        session: the state that its processes share.
        processes: all that were started in it.
        crashed: whether it is gone.
        missed: whether it did not listen when another server took over.
    """

    def __init__(self, world: Simulator, name: str, client_id: str, options: Options) -> None:
        self.world, self.name, self.network = world, name, world.network
        self.timeline, self.random = world.timeline, world.timeline.random
        drift = self.random.uniform(-DRIFT, DRIFT)
        self.clock = Clock(self.timeline, self.random.uniform(0, 1e6), drift)
        self.processes: list[Process] = []
        self.crashed = self.missed = False
        self._paused_until, self._paused_last = 0.0, -1.0
        self._inbox: deque[Any] = deque()
        self._woken = self._busy = False
        self._planned = 0
        outside = Outside(
            options=options,
            clock=self.clock,
            random=self.random.random,
            wake=self._put,
            tell_loss=nothing,
            tell_forgotten=lambda hold: self.note(self.name, f"forgets {hold!r}"),
            epoch=lambda: 0,
            clustered=False,
            counts_failovers=False,
            patience=options.command_timeout,
        )
        self.session = Session(outside, client_id)
        self._limit = min(options.command_timeout, GRANT / 3, options.lease / 6)
        self.subscriber = SimulatedListener(self)
        self._put(None)  # the thread begins with a look

    def __repr__(self) -> str:
        return f"<client {self.name}{' crashed' if self.crashed else ''}>"

    def spawn(self, program: Program) -> Process:
        process = Process(self, program, f"{self.name}.{len(self.processes) + 1}")
        self.processes.append(process)
        return process

    def senders(self) -> list[str]:
        """Return who has a connection here, as its requests are called."""
        return [f"{self.name}.upkeep", *(process.name for process in self.processes)]

    @property
    def now(self) -> float:
        """True time."""
        return self.timeline.now

    @property
    def paused(self) -> bool:
        return self.now < self._paused_until

    def paused_since(self, began: float) -> bool:
        return self._paused_last + RESUMING_TAKES >= began

    def unaware(self) -> bool:
        """Return whether it cannot know of the last failover: it has missed that, and sent nothing since."""
        return self.missed and self.network.broken.issuperset(self.senders())

    def note(self, who: str, what: object) -> None:
        self.timeline.note(who, what)

    # What can happen to it.

    def crash(self) -> None:
        self.note(self.name, "crashes")
        self.crashed = True
        self.subscriber.close()
        for process in self.processes:
            if not process.ended:
                process.kill()

    def pause(self, seconds: float) -> None:
        """Stand still for *seconds*; what comes meanwhile reaches it afterwards."""
        self.note(self.name, f"is paused for {seconds:.4f} s")
        self._paused_until = self._paused_last = max(self._paused_until, self.now + seconds)

    def resume(self) -> None:
        """Run on, and be able to hear again."""
        self._paused_until = min(self._paused_until, self.now)
        self.subscriber.deaf_until = 0.0

    # Its time.

    def at(self, when: float, action: Action) -> None:
        """Do *action* at *when*, unless it is paused or gone then."""

        def act() -> Idle | None:
            if self.now < self._paused_until:
                self.at(self._paused_until + self.random.random() * RESUMING_TAKES, action)
            elif not self.crashed:
                return action()
            return IDLE

        self.timeline.at(when, act)

    def after(self, seconds: float, action: Action) -> None:
        self.at(self.now + seconds, action)

    # The upkeep: what `interlock._drivers.background.upkeep` does in threads, with one lane.

    def owner_ended(self, process: Process) -> None:
        """Release what *process* has, which is over."""
        self._put(process.owner.reference)

    def _put(self, item: object) -> None:
        self._inbox.append(item)
        if not self._woken:
            self._woken = True
            self.after(self.random.random() * WAKING_TAKES, self._turn)

    def _turn(self) -> None:
        session, self._woken = self.session, False
        while self._inbox:
            session.sort(self._inbox.popleft(), self.clock())
        now = self.clock()
        errands = session.turn(now)
        if errands and self._busy:
            session.put_off(errands, now)
        elif errands:
            self._send(errands)
        self._planned += 1
        due, plan = session.plan(now), self._planned

        def come() -> Idle | None:
            if plan != self._planned:
                return IDLE
            self._turn()
            return None

        if due != NEVER:
            self.at(self.clock.when(due), come)

    def _send(self, errands: list[Errand]) -> None:
        self._busy, calls = True, [each.call for each in errands]

        def hear(replies: list[Any]) -> None:
            self._busy = False
            self._put(Answers(errands, decoded(calls, replies), self))

        def answer(outcome: Any) -> None:
            replies = outcome if isinstance(outcome, list) else [outcome] * len(calls)
            self.after(0, lambda: hear(replies))

        fault = self.world.fault_at(f"{self.name}.upkeep", -1)
        if fault is not None and fault.kind in ("raise", "abandon"):
            fault = None  # nobody interrupts it
        name = f"{self.name}.upkeep"
        _ = self.network.exchange(calls, self._limit, answer, name, fault)


class SimulatedListener(Listener):
    """The subscriber of *client*: the real one's rules, over a connection in virtual time.

    Attributes:
        deaf_until: when it can connect again.
    """

    # What a `Listener` asks of the `Subscriber` that it belongs to.
    sharded = closed = False

    def __init__(self, client: Client) -> None:
        self.session = client.session
        self._client = client
        self.deaf_until = 0.0
        super().__init__(self, "the only node")  # type: ignore[arg-type]

    @property
    def listens(self) -> bool:
        return self._connection is not None

    def node_of(self, line: Line) -> object:
        del line
        return self.node

    def hear(self, line: Line) -> None:
        """Make sure that *line* is heard soon, if it can be."""
        if not self._client.session.publish:
            line.listen(can=False)
            return
        if self._only.acquire(blocking=False):
            self._client.after(self._client.network.latency(), self._connect)
        super().hear(line)

    def cut(self, seconds: float) -> None:
        """Lose the connection, and make no other one for *seconds*."""
        self.deaf_until = max(self.deaf_until, self._client.now + seconds)
        if self._connection is not None:
            self._connection.cut()

    def close(self) -> None:
        if self._connection is not None:
            self._client.network.forget(self._connection)

    def _connect(self) -> None:
        client = self._client
        if client.network.unreachable or client.now < self.deaf_until:
            client.after(FIRST_PAUSE, self._connect)
            return
        self._connection: Any = Connection(client, self)
        for line in self._here():
            self._subscribe(line)
        self._tick(self._connection)

    def _tick(self, connection: Connection) -> None:
        if connection is self._connection:
            self._rest()
            self._client.after(TICK, lambda: self._tick(connection))

    def lose(self) -> None:
        self._connection = None
        self._lost()
        self._client.after(FIRST_PAUSE, self._connect)

    def take(self, kind: bytes, channel: str, payload: Any) -> None:
        self._take(kind, channel, payload)


class Connection:
    """One connection of a listener: what it sends, and what it is sent, arrives in order."""

    def __init__(self, client: Client, listener: SimulatedListener) -> None:
        self._client, self._listener = client, listener
        self._lives = True
        self._sent_at = self._received_at = client.now
        self._arrived: deque[tuple[bytes, str, Any]] = deque()

    def send(self, command: str, *channels: str) -> None:
        network = self._client.network
        self._sent_at = max(self._sent_at, self._client.now + network.latency())

        def arrive() -> None:
            if not self._lives or self._client.crashed:
                return
            for channel in channels:
                if command == "SUBSCRIBE":
                    network.subscribe(channel, self)
                else:
                    network.unsubscribe(channel, self)
                self._bring(command.lower().encode(), channel, 1)

        self._client.timeline.at(self._sent_at, arrive)

    def deliver(self, channel: str, payload: bytes | None = None) -> None:
        """Bring a message; it arrives after all that the server sent before."""
        network, random = self._client.network, self._client.random
        if self._client.now < network.dilatory_until:
            self._received_at += LATEST / 2 * random.random() ** 2
            if random.random() < TWICE:
                self._bring(b"message", channel, payload, LATEST / 2 * random.random())
        self._bring(b"message", channel, payload)

    def _bring(self, kind: bytes, channel: str, payload: Any, late: float = 0.0) -> None:
        client = self._client
        self._received_at = max(self._received_at, client.now + client.network.latency())
        if late:
            client.at(self._received_at + late, lambda: self._take(kind, channel, payload))
            return
        self._arrived.append((kind, channel, payload))
        client.at(self._received_at, lambda: self._take(*self._arrived.popleft()))

    def _take(self, kind: bytes, channel: str, payload: Any) -> None:
        if self._lives:
            self._listener.take(kind, channel, payload)

    def cut(self) -> None:
        if self._lives:
            self._lives = False
            self._client.network.forget(self)
            self._client.after(self._client.network.latency(), self._listener.lose)

    def close(self) -> None:
        """Do nothing: see `cut`."""
