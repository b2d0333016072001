"""The subscriber of a client: for each node one connection and one thread that wakes the waiters.

Theory. A sharded channel lives where the slot of its name does, which is that of the lock's keys. When the slot goes to another node
the former one ends the subscription; when a node dies its connections end; and a node that is not the right one says so. In all
three cases the channel is subscribed to anew where its slot is then, and the confirmation wakes the waiters to look again: what was
published meanwhile is gone. Plain channels are heard at every node of a cluster: one connection is enough, to any of them.

Rules:

* Pub/sub is a hint. Whatever goes wrong here ends in the waiters looking for themselves: a confirmed (re)subscription counts
  as a message, and while there is no connection, or no thread, they poll.
* A connection is opened for the first waiter. It tells the server of a channel when that gains its
  first waiter, and when it has lost its last one: at once, or with a queue after a while
  (`Waiters.look_for_idle`).
* A connection that is silent for two ping intervals is dead, whatever the kernel thinks of it.
* A question of an operator comes by a channel of its own. It is subscribed to where a connection
  is open anyway, and opens none.
* One mutex guards the waiters and all of this: it is entered from user threads, signal handlers and ``__del__`` (`Mutex`).
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from interlock._drivers import clock
from interlock._drivers.lifecycle import report
from interlock._drivers.mutex import Mutex
from interlock._links.connection import Connection
from interlock._links.replies import RedirectedError, refusal
from interlock._links.resp import ReplyError
from interlock._links.topology import AnyNode
from interlock.errors import ConfigError, InterlockError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.waiters import Waiters
    from interlock._links.endpoint import Endpoint, Origin
    from interlock._links.topology import Topology
    from interlock.options import PubSub

PING_INTERVAL = 5.0
IDLE_INTERVAL = 0.5
"""Seconds between two looks for channels that nobody waits for any more."""
FIRST_RECONNECT_PAUSE = 0.05
LONGEST_RECONNECT_PAUSE = 2.0


class NodeSubscriber:
    """The connection and the thread for one node.

    Args:
        endpoint: where to connect.
        timeout: seconds for connecting.
        mutex: of the client.
        sharded: use the sharded kind of channels.

    Attributes:
        hearing: False while there is no connection.
        wanted: the channels.
    """

    def __init__(
        self, endpoint: Origin, timeout: float, mutex: Mutex, *, sharded: bool = False
    ) -> None:
        self._endpoint = endpoint
        self._timeout = timeout
        kind = "S" if sharded else ""
        self._subscribe, self._unsubscribe = f"{kind}SUBSCRIBE", f"{kind}UNSUBSCRIBE"
        self._confirmed = self._subscribe.lower().encode()
        self._message = f"{kind.lower()}message".encode()
        self._reset(mutex)

    def _reset(self, mutex: Mutex) -> None:
        self._change = threading.Condition(mutex.lock)
        self.hearing = False
        self.wanted: set[str] = set()
        self._connection: Connection | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        # The commands that are not answered yet, in order. An error names no channel: it is the
        # answer to the first of them.
        self._unanswered: deque[tuple[bytes, list[bytes]]] = deque()

    @property
    def running(self) -> bool:
        """Whether the thread was started."""
        return self._thread is not None

    def subscribe(self, channel: str) -> None:
        """Want messages of *channel*; returns at once."""
        with self._change:
            self.wanted.add(channel)
            if not self._closed:
                self._start()
                self._change.notify()
                self._send(self._subscribe, channel)

    def unsubscribe(self, channel: str) -> None:
        """Want no more messages of *channel*; returns at once."""
        with self._change:
            self.wanted.discard(channel)
            self._send(self._unsubscribe, channel)

    def reconnect(self) -> None:
        """Make the thread connect anew."""
        with self._change:
            if self._connection is not None:
                self._connection.shutdown()

    def hang_up(self) -> None:
        """Make the thread end, without waiting for it."""
        self._closed = True
        with self._change:
            self._change.notify_all()
        self.reconnect()

    def close(self) -> None:
        """End the thread and the connection."""
        self.hang_up()
        thread = self._thread
        if thread is not None and thread.ident and thread is not threading.current_thread():
            thread.join(self._timeout + 1)

    def drop(self, mutex: Mutex) -> None:
        """Be as new in a forked child; the parent's connection is closed without a word."""
        connection = self._connection
        self._reset(mutex)
        if connection is not None:
            connection.close()

    def _start(self) -> None:
        if self._thread is not None:
            return
        # Noted first: a signal handler that strikes in between must not start another one.
        thread = self._thread = threading.Thread(
            target=self._run, name="interlock-subscriber", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:
            self._thread = (
                None  # too many threads: the waiters poll, and the next subscription tries again
            )

    def _channels(self, channel: str) -> tuple[str, ...]:
        """Return what is to be subscribed to for *channel*."""
        return (channel,)

    def _send(self, command: str, channel: str) -> None:
        if self._connection is None:
            return  # the next connection subscribes to all that is wanted
        channels = self._channels(channel)
        sent = command.lower().encode(), [each.encode() for each in channels]
        self._unanswered.append(sent)
        try:
            self._connection.send(command, *channels)
        except OSError:
            self._connection.shutdown()  # the thread sees it and connects anew

    def _run(self) -> None:
        pause = FIRST_RECONNECT_PAUSE
        while True:
            with self._change:
                _ = self._change.wait_for(lambda: self.wanted or self._closed)
            if self._closed:
                return
            began = clock.now()
            try:
                self._listen()
            except InterlockError as error:
                self._failed(error)
                # Waiters poll meanwhile. The commands of the client report what is wrong with the server.
                if clock.now() - began > LONGEST_RECONNECT_PAUSE:
                    pause = FIRST_RECONNECT_PAUSE
                self._rest(pause)
                pause = min(pause * 2, LONGEST_RECONNECT_PAUSE)
            except Exception as error:  # noqa: BLE001 - the thread must outlive any surprise
                report("the subscriber thread", error)
                self._rest(LONGEST_RECONNECT_PAUSE)

    def _rest(self, seconds: float) -> None:
        with self._change:
            _ = self._change.wait_for(lambda: self._closed, seconds)

    def _listen(self) -> None:
        connection = Connection(self._endpoint, self._timeout)
        try:
            connection.set_timeout(self._patience())
            with self._change:
                if self._closed:
                    return
                self._connection = connection
                self._unanswered.clear()
                for channel in self.wanted.copy():
                    self._send(self._subscribe, channel)
            self._hear(True)
            self._read(connection)
        finally:
            self._hear(False)
            with self._change:
                self._connection = None
            connection.close()

    def _hear(self, hearing: bool) -> None:
        """Note whether there is a connection."""
        self.hearing = hearing

    def _failed(self, error: InterlockError) -> None:
        """Note that there was no connection, or is none any more."""

    def _refused(self, error: Exception, channels: list[bytes]) -> None:
        """Note that the server refused to subscribe to *channels*; who waits there polls."""

    def _ended(self, channel: str) -> None:
        """Note that the server sends no messages of *channel* any more."""

    def _read(self, connection: Connection) -> None:
        heard_at = asked_at = looked_at = clock.now()
        while not self._closed:
            try:
                message = connection.receive()
            except TimeoutError:
                message = None
            told = message is not None and self._take(message)
            now = clock.now()
            if message is not None:
                heard_at = now
            if told and now - looked_at < IDLE_INTERVAL:
                continue  # somebody was woken, who wants this processor
            looked_at = now
            self._look_for_idle(now)
            connection.set_timeout(self._patience())
            if message is None:
                if now - heard_at > 2 * PING_INTERVAL:
                    return
                if now - max(heard_at, asked_at) >= PING_INTERVAL:
                    asked_at = now
                    with self._change:
                        connection.send("PING")

    def _take(self, message: Any) -> bool:
        """Pass on what came; return whether it was a message."""
        if isinstance(message, ReplyError):
            _, channels = self._unanswered.popleft() if self._unanswered else (b"", [])
            self._refused(message, channels)
            return False
        kind: bytes = message[0]
        channel: bytes = message[1]
        if kind == self._message:
            self._heard(channel.decode(), message[2])
            return True
        if self._unanswered and self._unanswered[0][0] == kind:
            channels = self._unanswered[0][1]
            if channel in channels:
                channels.remove(channel)
            if not channels:
                _ = self._unanswered.popleft()
        if kind == self._confirmed:
            self._heard(channel.decode(), None)
        elif kind == b"message":
            self._heard(channel.decode(), message[2])  # a question: it never comes sharded
        elif kind == b"sunsubscribe":
            self._ended(channel.decode())
        return False

    def _patience(self) -> float:
        """Return the seconds after which to look around although nothing came."""
        return PING_INTERVAL

    def _look_for_idle(self, now: float) -> None:
        """Unsubscribe from what nobody has waited for lately."""

    def _heard(self, channel: str, payload: bytes | None) -> None:
        """Note a message; None instead of one tells that the channel is heard from now on."""


class Subscriber:
    """Subscribes for the waiters of one client.

    Args:
        topology: the client's servers.
        timeout: seconds for connecting to a node.
        pubsub: of the options.

    Attributes:
        mutex: guards all of this, and the waiters.
        waiters: who is woken.
        question: the channel of an operator's questions; empty as long as nobody can answer.
        answer: takes a question.
        looked_at: when one of the connections has looked for channels that nobody waits for.

    Raises:
        ConfigError: sharded channels of a single server: Redisson uses them in a cluster only.
    """

    waiters: Waiters

    def __init__(self, topology: Topology, timeout: float, pubsub: PubSub) -> None:
        if pubsub == "sharded" and topology.only is not None:
            raise ConfigError(
                'sharded channels need a cluster (redis+cluster://): use pubsub="auto"'
            )
        self._topology = topology
        self._timeout = timeout
        self._sharded = False
        self._reset()
        topology.on_change = self.rearrange

    def _reset(self) -> None:
        self.mutex = Mutex()
        self._places: dict[str, _Lane] = {}
        self._lanes: dict[Endpoint | AnyNode, _Lane] = {}
        self._anywhere = self._topology.only or AnyNode(self._topology)
        self._closed = False
        self.question = ""
        self.answer: Callable[[bytes], None] = lambda _: None
        self._may_be_asked = True
        self.looked_at = 0.0

    def publish(self, pubsub: PubSub) -> str:
        """Return the command that those who listen here are told by, once the cluster was asked what it has.

        Raises:
            ConfigError: sharded channels are wanted, which the cluster does not have.
        """
        if pubsub == "sharded" and not self._topology.sharded:
            raise ConfigError(
                f'{self._topology.where} has no sharded channels (Redis 7 and Valkey have): use pubsub="auto"'
            )
        self._sharded = pubsub != "plain" and bool(self._topology.sharded)
        return "SPUBLISH" if self._sharded else "PUBLISH"

    def subscribe(self, channel: str) -> None:
        """Want messages of *channel*; returns at once."""
        with self.mutex.lock:
            if not self._closed:
                self._place(channel)
        self.look()

    def unsubscribe(self, channel: str) -> None:
        """Want no more messages of *channel*; returns at once."""
        with self.mutex.lock:
            lane = self._places.pop(channel, None)
            if lane is not None:
                lane.unsubscribe(channel)
        self.look()

    def listen(self, channel: str, answer: Callable[[bytes], None]) -> None:
        """Give what comes by *channel* to *answer*, where there is a connection, now and later."""
        if self.question == channel or not self._may_be_asked:
            return
        with self.mutex.lock:
            self.question, self.answer = channel, answer
            lanes = list(self._lanes.values())
        for lane in lanes:
            lane.listen()

    def be_unasked(self) -> None:
        """Hear no questions: the server does not allow it."""
        self._may_be_asked = False
        self.question = ""

    def _place(self, channel: str) -> None:
        """Subscribe to *channel* where it is heard now."""
        node = (
            (self._topology.owner(channel) or self._topology.any_owner())
            if self._sharded
            else self._anywhere
        )
        lane = self._lanes.get(node)
        if lane is None:
            lane = self._lanes[node] = _Lane(
                self, self._topology, node, self._timeout, sharded=self._sharded
            )
        self._places[channel] = lane
        lane.subscribe(channel)

    def rearrange(self) -> None:
        """Move every channel to where it is heard now, and end the lanes at nodes that are no more."""
        with self.mutex.lock:
            if self._closed:
                return
            if not self._sharded:
                if isinstance(self._anywhere, AnyNode) and self._anywhere.gone:
                    for lane in self._lanes.values():
                        lane.reconnect()
                return
            for channel, lane in list(self._places.items()):
                if self._lanes.get(self._topology.owner(channel) or lane.node) is not lane:
                    lane.unsubscribe(channel)
                    self._place(channel)
            nodes = set(self._topology.nodes)
            gone = [
                node
                for node, lane in self._lanes.items()
                if node not in nodes and lane not in self._places.values()
            ]
            ended = [self._lanes.pop(node) for node in gone]
        for lane in ended:
            lane.hang_up()
        self.look()

    def again(self, channel: str, lane: _Lane) -> None:
        """Subscribe to *channel* once more, if it is still wanted of *lane*, whose node has ended that."""
        with self.mutex.lock:
            if self._places.get(channel) is lane and not self._closed:
                self._place(channel)

    def look(self) -> None:
        """Note whether all that is wanted is heard."""
        with self.mutex.lock:
            # A list: Python reports a Ctrl-C that strikes when a generator is closed, and does not raise it.
            wanted = [lane.hearing for lane in list(self._lanes.values()) if lane.wanted]
            self.waiters.hearing = all(wanted)

    def close(self) -> None:
        """End all threads and connections."""
        with self.mutex.lock:
            self._closed = True
            lanes = list(self._lanes.values())
        for lane in lanes:
            lane.hang_up()
        for lane in lanes:
            lane.close()

    def after_fork(self) -> None:
        """Be as new in a forked child; the parent's connections are closed without a word."""
        lanes = list(self._lanes.values())
        self._reset()
        for lane in lanes:
            lane.drop(self.mutex)


class _Lane(NodeSubscriber):
    """One node, for all channels that live there."""

    def __init__(
        self,
        whole: Subscriber,
        topology: Topology,
        node: Endpoint | AnyNode,
        timeout: float,
        *,
        sharded: bool,
    ) -> None:
        super().__init__(node, timeout, whole.mutex, sharded=sharded)
        self._whole = whole
        self._topology = topology
        self.node = node

    def _heard(self, channel: str, payload: bytes | None) -> None:
        if channel == self._whole.question:
            if payload is not None:
                self._whole.answer(payload)
            return
        self._whole.waiters.notify(channel, payload)

    def _channels(self, channel: str) -> tuple[str, ...]:
        return self._whole.waiters.channels_of(channel)

    def _patience(self) -> float:
        return IDLE_INTERVAL if self._whole.waiters.places else PING_INTERVAL

    def _look_for_idle(self, now: float) -> None:
        if now - self._whole.looked_at >= IDLE_INTERVAL:
            self._whole.looked_at = now
            self._whole.waiters.look_for_idle()

    def _hear(self, hearing: bool) -> None:
        self.hearing = hearing
        self._whole.look()
        if hearing:
            self.listen()

    def listen(self) -> None:
        """Subscribe to the questions of operators; they go to all nodes of a cluster."""
        with self._change:
            if self._whole.question:
                self._send("SUBSCRIBE", self._whole.question)

    def _failed(self, error: InterlockError) -> None:
        del error
        if not self._closed:
            _ = self._topology.fetch()

    def _refused(self, error: Exception, channels: list[bytes]) -> None:
        meaning = refusal(str(error), None, self._endpoint.where)
        if isinstance(meaning, RedirectedError):
            _ = self._topology.learn(meaning)
        elif isinstance(meaning, ServerUnavailableError) and meaning.transient:
            raise meaning  # the next connection subscribes again
        elif channels == [self._whole.question.encode()]:
            self._whole.be_unasked()
        else:
            self._whole.waiters.refused()

    def _ended(self, channel: str) -> None:
        # Ours, or the node's because the slot has gone; then where it is now is asked, or told by whoever we ask.
        self._whole.again(channel, self)


class Silence:
    """No messages at all: waiters poll, and nobody is told anything."""

    waiters: Waiters

    def __init__(self) -> None:
        self.mutex = Mutex()

    def publish(self, pubsub: PubSub) -> str:
        """Return no command."""
        del pubsub
        return ""

    def subscribe(self, channel: str) -> None:
        """Do nothing."""

    def unsubscribe(self, channel: str) -> None:
        """Do nothing."""

    def listen(self, channel: str, answer: Callable[[bytes], None]) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def after_fork(self) -> None:
        """Have a mutex that nobody holds."""
        self.mutex = Mutex()


def subscriber_of(topology: Topology, timeout: float, pubsub: PubSub) -> Subscriber | Silence:
    """Return the subscriber that the option *pubsub* asks for; errors as `Subscriber`."""
    return Silence() if pubsub == "off" else Subscriber(topology, timeout, pubsub)
