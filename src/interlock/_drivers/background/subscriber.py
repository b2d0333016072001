"""The subscriber of a client: for each node one connection and one thread that wakes the waiters.

Theory. A sharded channel is served by the node that serves the slot of its name. That is the slot
of the lock's keys. A subscription fails in one of three ways:

* the slot goes to another node, and the former one ends the subscription;
* the node dies, and its connections end;
* the node does not serve the slot, and says so.

In all three cases the channel is subscribed to anew, at the node that serves its slot by then.
Messages that were published meanwhile are lost, so the confirmation wakes the waiters to look
again. Plain channels are heard at every node of a cluster: one connection, to any node, is enough.

Rules:

* Pub/sub is a hint. If anything goes wrong here, the waiters ask the server themselves. A confirmed
  (re)subscription counts as a message. While there is no connection, or no thread, waiters poll.
* A connection is opened for the first waiter. It subscribes to a channel for the first waiter of
  the channel, and unsubscribes after the last one has left. If the client has a place in the
  server's queue, it unsubscribes only after a while (`Waiters.look_for_idle`).
* A connection that is silent for two ping intervals is dead, even if the kernel says otherwise.
* A thread that waits receives the messages itself if nobody else does. This saves one change of
  threads for each message. The thread of the subscriber receives if several threads wait, or none.
  A thread that stops receiving while others wait calls the subscriber's.
* A waiting thread handles messages only, with the mutex held. It leaves everything else to the
  thread: replies, errors, and the end of the connection. If a Ctrl-C strikes, the message stays for
  the next one who looks.
* Questions of operators come on a channel of their own. Connections that are open anyway subscribe
  to it; none is opened for it.
* One mutex guards the waiters and all of this. User threads, signal handlers and ``__del__``
  enter it (`Mutex`).
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from interlock._core.scripts.source import question
from interlock._drivers.background.log import log_lack
from interlock._drivers.process import clock
from interlock._drivers.process.lifecycle import report
from interlock._drivers.process.mutex import Mutex
from interlock._links.replies import RedirectedError, error_code, refusal
from interlock._links.resp import ReplyError
from interlock._links.shared_connection import SharedConnection, meaning
from interlock._links.topology import AnyNode
from interlock.errors import ConfigError, InterlockError, ServerUnavailableError

if TYPE_CHECKING:
    from interlock._core.queue.waiters import Waiters
    from interlock._drivers.wakeup import Wakeup
    from interlock._links.endpoint import Endpoint, Origin
    from interlock._links.topology import Topology
    from interlock.options import PubSub

PING_INTERVAL = 5.0
IDLE_INTERVAL = 0.5
"""Seconds between two looks for channels that nobody waits for any more."""
ASKED, MAY = b"", b"\0"
"""Stand, among channels, for the questions whether scripts and clients may send messages."""
FIRST_RECONNECT_PAUSE = 0.05
LONGEST_RECONNECT_PAUSE = 2.0


class NodeSubscriber:
    """The connection and the thread for one node.

    Args:
        endpoint: where to connect.
        timeout: seconds for connecting.
        mutex: the mutex of the client.
        sharded: whether to use sharded channels.

    Attributes:
        hearing: False while there is no connection.
        wanted: the channels to hear.
    """

    def __init__(
        self, endpoint: Origin, timeout: float, mutex: Mutex, *, sharded: bool = False
    ) -> None:
        self._endpoint = endpoint
        self._timeout = timeout
        self._sharded = sharded
        kind = "S" if sharded else ""
        self._subscribe, self._unsubscribe = f"{kind}SUBSCRIBE", f"{kind}UNSUBSCRIBE"
        self._confirmed = self._subscribe.lower().encode()
        self._message = f"{kind.lower()}message".encode()
        self._reset(mutex)

    def _reset(self, mutex: Mutex) -> None:
        self._lock = mutex.lock
        self._change = threading.Condition(mutex.lock)
        self.hearing = False
        self.wanted: set[str] = set()
        self._connection: SharedConnection | None = None
        self._thread: threading.Thread | None = None
        # Whether the connection ends because there are newer credentials.
        self._closed = self._at_once = False
        # The commands that are not answered yet, in order. An error names no channel: it is the
        # answer to the first of them.
        self._unanswered: deque[tuple[bytes, list[bytes]]] = deque()
        self._heard_at = 0.0
        # The wake-ups of threads that wait while another thread receives.
        self._asleep: set[Wakeup] = set()
        self._waits = 0

    @property
    def running(self) -> bool:
        """Whether the thread was started."""
        return self._thread is not None

    def subscribe(self, channel: str) -> None:
        """Subscribe to *channel*; return at once."""
        with self._lock:
            self.wanted.add(channel)
            if not self._closed:
                self._start()
                self._change.notify()
                self._send(self._subscribe, channel)

    def unsubscribe(self, channel: str) -> None:
        """Unsubscribe from *channel*; return at once."""
        with self._lock:
            self.wanted.discard(channel)
            self._send(self._unsubscribe, channel)

    def reconnect(self) -> None:
        """Make the thread connect anew."""
        with self._lock:
            if self._connection is not None:
                self._connection.shutdown()

    def log_in_anew(self) -> None:
        """Connect anew if there are newer credentials; a subscribed connection cannot log in.

        Credentials that a server has refused would end the subscription for nothing.
        """
        connection, login = self._connection, self._endpoint.login
        if connection is not None and connection.outdated and login and not login.doubted:
            with self._lock:
                if self._connection is connection:  # else it has connected anew by now
                    self._at_once = True
                    connection.shutdown()

    def hang_up(self) -> None:
        """Make the thread end, without waiting for it."""
        self._closed = True
        if self._endpoint.login is not None:
            self._endpoint.login.leave(self)
        with self._lock:
            self._change.notify_all()
        self.reconnect()

    def close(self) -> None:
        """End the thread and the connection."""
        self.hang_up()
        thread = self._thread
        if thread is not None and thread.ident and thread is not threading.current_thread():
            thread.join(self._timeout + 1)

    def drop(self, mutex: Mutex) -> None:
        """Reset everything in a forked child; close the parent's connection, but send nothing."""
        connection = self._connection
        self._reset(mutex)
        if connection is not None:
            connection.drop_bell()
            connection.close()

    def wait(self, wakeup: Wakeup, seconds: float) -> bool:
        """Wait at most *seconds* until *wakeup* rings; return whether it did.

        The calling thread receives messages meanwhile, unless another thread does.
        """
        connection = self._connection
        if connection is None or (connection.bell is None and not self._hang_bell(connection)):
            return wakeup.wait(seconds)
        if connection.token.locked():
            return self._sleep(connection, wakeup, seconds)
        self._waits += 1
        now, lock = clock.now, wakeup.lock
        until = now() + seconds
        try:
            while not connection.messages or self._handle_messages(connection):
                if lock.acquire(blocking=False):  # it has rung
                    return True
                left = until - now()
                if left <= 0:
                    return False
                wakeup.bell = connection.bell and connection.bell[0]
                if not connection.receive_in_turn(lock, left):
                    break
                wakeup.bell = None
        finally:
            wakeup.bell = None
            if self._asleep:
                self._call()
        return self._sleep(connection, wakeup, until - now())

    def _hang_bell(self, connection: SharedConnection) -> bool:
        """Return whether *connection* has a bell; it gets one when the first thread waits."""
        if connection.posts:
            with self._lock:
                if self._connection is connection and connection.bell is None:
                    connection.hang_bell()
        return connection.bell is not None

    def _sleep(self, connection: SharedConnection, wakeup: Wakeup, seconds: float) -> bool:
        """Wait as `wait` does, while another thread receives."""
        try:
            self._asleep.add(wakeup)
            wakeup.asleep = self._asleep
            self._waits += 1
            if connection.messages or not connection.token.locked():
                self._call()
            return wakeup.wait(seconds)
        finally:
            # After a Ctrl-C just here it stays in the set. Then the thread does all the receiving.
            self._asleep.discard(wakeup)
            wakeup.asleep = None

    def _handle_messages(self, connection: SharedConnection) -> bool:
        """Handle what was received; return False if the thread must do the rest.

        Between a message and the end of a wait, each call of a function costs 1 to 2 µs: the caches
        are cold by then.
        """
        messages = connection.messages
        with self._lock:
            self._heard_at = clock.now()
            while messages:
                item = messages[0]
                match meaning(item):
                    case [kind, bytes(channel), bytes(payload)] if kind == self._message:
                        self._heard(channel.decode(errors="replace"), payload)
                    case [b"pong", *_]:
                        pass
                    case _:
                        return False
                # A signal handler may have waited here, and left it to another thread.
                if messages and messages[0] is item:
                    _ = messages.popleft()
        return True

    def _call(self) -> None:
        """Call the thread: somebody must receive or handle messages."""
        with self._lock:
            self._change.notify()

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

    def _channels(self, channel: str, *, leaving: bool) -> tuple[str, ...]:
        """Return what to subscribe to for *channel*, or if *leaving* to unsubscribe from."""
        del leaving
        return (channel,)

    def _send(self, command: str, channel: str) -> None:
        if self._connection is None:
            return  # the next connection subscribes to all wanted channels
        channels = self._channels(channel, leaving=command == self._unsubscribe)
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
                if self._at_once:
                    pause, self._at_once = FIRST_RECONNECT_PAUSE, False
                    continue
                self._failed(error)
                # Waiters poll meanwhile. If something is wrong with the server, the commands of the
                # client report it.
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
        connection = SharedConnection(self._endpoint, self._timeout)
        if self._endpoint.login is not None:
            self._endpoint.login.follow(self)
            if self._closed:
                self._endpoint.login.leave(self)
        try:
            connection.set_timeout(self._patience())
            with self._lock:
                if self._closed:
                    return
                self._connection, self._at_once = connection, False
                self._unanswered.clear()
                self._ask(connection)
                for channel in self.wanted.copy():
                    self._send(self._subscribe, channel)
            self._hear(True)
            self._read(connection)
        finally:
            self._hear(False)
            with self._lock:
                self._connection = None
            connection.shutdown()
            with connection.token:  # nobody receives from it any more
                connection.close()
                with self._lock:  # and nobody rings
                    connection.drop_bell()

    def _ask(self, connection: SharedConnection) -> None:
        """Ask what must be known of the server, before the first subscription."""

    def _hear(self, hearing: bool) -> None:
        """Note whether there is a connection."""
        self.hearing = hearing

    def _failed(self, error: InterlockError) -> None:
        """Note that connecting failed, or that the connection was lost."""

    def _refused(self, error: Exception, channels: list[bytes]) -> None:
        """Note that the server refused to subscribe to *channels*; waiters there poll."""

    def _ended(self, channel: str) -> None:
        """Note that the server sends no messages of *channel* any more."""

    def _read(self, connection: SharedConnection) -> None:
        self._heard_at = asked_at = looked_at = clock.now()
        resting = False
        while not self._closed:
            waits, slept = self._waits, bool(self._asleep)
            if resting:
                self._stand_by(connection)
            else:
                _ = connection.receive_in_turn(None, self._patience())
            told = self._take_all(connection)
            # The next one to wait receives if this thread has woken all who slept.
            woken = not self._asleep and (slept or waits != self._waits)
            resting = woken or connection.token.locked()
            now = clock.now()
            if told and now - looked_at < IDLE_INTERVAL:
                continue  # a waiter was woken, and wants this processor
            looked_at = now
            self._look_for_idle(now)
            if now - self._heard_at > 2 * PING_INTERVAL:
                return
            if now - max(self._heard_at, asked_at) >= PING_INTERVAL:
                asked_at = now
                with self._lock:
                    connection.send("PING")

    def _stand_by(self, connection: SharedConnection) -> None:
        """Wait until this thread is called, or for a while."""

        def needed() -> bool:
            unheard = bool(self._asleep) and not connection.token.locked()
            return self._closed or bool(connection.messages) or unheard

        with self._lock:
            _ = self._change.wait_for(needed, min(self._patience(), IDLE_INTERVAL))

    def _take_all(self, connection: SharedConnection) -> bool:
        """Handle all that was received; return whether there was a message."""
        told = False
        while True:
            with self._lock:
                if not connection.messages:
                    return told
                message = meaning(connection.messages.popleft())
            if isinstance(message, Exception) and not isinstance(message, ReplyError):
                connection.raise_broken(message)
            self._heard_at = clock.now()
            told = self._take(message) or told

    def _take(self, message: Any) -> bool:
        """Handle a reply or message; return whether it was a message."""
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
        elif kind == b"sunsubscribe":
            self._ended(channel.decode())
        return False

    def _patience(self) -> float:
        """Return the seconds to wait for a message before doing something else."""
        return PING_INTERVAL

    def _look_for_idle(self, now: float) -> None:
        """Unsubscribe from channels that nobody has waited for lately."""

    def _heard(self, channel: str, payload: bytes | None) -> None:
        """Take a message; None in place of one means that the channel is heard from now on."""


class Subscriber:
    """Subscribes for the waiters of one client.

    Args:
        topology: the client's servers.
        timeout: seconds for connecting to a node.
        pubsub: the option of this name.

    Attributes:
        topology, timeout: as given.
        sharded: whether sharded channels are used.
        mutex: guards all of this, and the waiters.
        waiters: the waiters to wake.
        looked_at: when a connection last looked for channels that nobody waits for.
        announces: whether scripts or clients may send messages; None until the server has told.

    Raises:
        ConfigError: sharded channels were asked for on a single server. Redisson uses them in a
            cluster only.
    """

    waiters: Waiters

    def __init__(self, topology: Topology, timeout: float, pubsub: PubSub) -> None:
        if pubsub == "sharded" and topology.only is not None:
            raise ConfigError(
                'sharded channels need a cluster (redis+cluster://): use pubsub="auto"'
            )
        self.topology = topology
        self.timeout = timeout
        self.sharded = False
        self._pubsub = pubsub
        self.announces: bool | None = False if pubsub == "off" else None
        self._reset()

    def _reset(self) -> None:
        self.mutex = Mutex()
        self._places: dict[str, _Lane] = {}
        self._lanes: dict[Endpoint | AnyNode, _Lane] = {}
        self._anywhere = self.topology.only or AnyNode(self.topology)
        # Without messages there is nothing to hear: as when it is closed, waiters poll.
        self._closed = self._pubsub == "off"
        self.looked_at = 0.0

    def publish(self) -> str:
        """Return the command that publishes to the channels heard here; empty for no messages.

        Before this, the cluster must have been asked whether it has sharded channels.

        Raises:
            ConfigError: sharded channels were asked for, and the cluster does not have them.
        """
        if self._pubsub == "off":
            return ""
        if self._pubsub == "sharded" and not self.topology.sharded:
            raise ConfigError(
                f"{self.topology.where} has no sharded channels (Redis 7 and Valkey have): "
                'use pubsub="auto"'
            )
        self.sharded = self._pubsub != "plain" and bool(self.topology.sharded)
        return "SPUBLISH" if self.sharded else "PUBLISH"

    def subscribe(self, channel: str) -> None:
        """Subscribe to *channel*; return at once."""
        with self.mutex.lock:
            if self._closed:
                return
            self._place(channel)
        self.look()

    def wait(self, channel: str, wakeup: Wakeup, seconds: float) -> bool:
        """Wait at most *seconds* until *wakeup* rings; return whether it did.

        Args:
            channel: what the caller waits for; it may receive the messages of this channel itself.
            wakeup: the caller's.
            seconds: how long to wait.
        """
        lane = self._places.get(channel)
        return wakeup.wait(seconds) if lane is None else lane.wait(wakeup, seconds)

    def unsubscribe(self, channel: str) -> None:
        """Unsubscribe from *channel*; return at once."""
        with self.mutex.lock:
            lane = self._places.pop(channel, None)
            if lane is None:
                return
            lane.unsubscribe(channel)
        self.look()

    def _place(self, channel: str) -> None:
        """Subscribe to *channel* at the node where it is heard now."""
        node = (
            (self.topology.owner(channel) or self.topology.any_owner())
            if self.sharded
            else self._anywhere
        )
        lane = self._lanes.get(node)
        if lane is None:
            lane = self._lanes[node] = _Lane(self, node)
        self._places[channel] = lane
        lane.subscribe(channel)

    def rearrange(self) -> None:
        """Move each channel to the node where it is heard now; end the lanes of former nodes."""
        with self.mutex.lock:
            if self._closed:
                return
            if not self.sharded:
                if isinstance(self._anywhere, AnyNode) and self._anywhere.departed:
                    for lane in self._lanes.values():
                        lane.reconnect()
                return
            for channel, lane in list(self._places.items()):
                if self._lanes.get(self.topology.owner(channel) or lane.node) is not lane:
                    lane.unsubscribe(channel)
                    self._place(channel)
            nodes = set(self.topology.nodes)
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
        """Subscribe to *channel* again, after the node of *lane* has ended the subscription.

        Do nothing if *lane* need not hear *channel* any more.
        """
        with self.mutex.lock:
            if self._places.get(channel) is lane and not self._closed:
                self._place(channel)

    def be_silent(self) -> None:
        """Note that the server refuses all messages, so that waiters poll."""
        self.announces = False
        log_lack(
            "messages.refused",
            self.topology.where,
            "it refuses PUBLISH, to scripts and to clients, so waiters poll",
        )
        self.look()
        self.waiters.wake_fronts()

    def look(self) -> None:
        """Note whether all wanted channels are heard."""
        with self.mutex.lock:
            # A list, not a generator: if a Ctrl-C strikes while a generator is closed, Python
            # reports it and does not raise it.
            wanted = [lane.hearing for lane in list(self._lanes.values()) if lane.wanted]
            self.waiters.hearing = self.announces is not False and all(wanted)

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
        """Reset everything in a forked child; close the parent's connections, but send nothing."""
        lanes = list(self._lanes.values())
        self._reset()
        for lane in lanes:
            lane.drop(self.mutex)


class _Lane(NodeSubscriber):
    """The subscriber of one node, for all channels of that node."""

    def __init__(self, whole: Subscriber, node: Endpoint | AnyNode) -> None:
        super().__init__(node, whole.timeout, whole.mutex, sharded=whole.sharded)
        self._whole = whole
        self.node = node

    def _heard(self, channel: str, payload: bytes | None) -> None:
        self._whole.waiters.notify(channel, payload)

    def _channels(self, channel: str, *, leaving: bool) -> tuple[str, ...]:
        return self._whole.waiters.channels_of(channel, leaving=leaving)

    def _patience(self) -> float:
        return IDLE_INTERVAL if self._whole.waiters.places else PING_INTERVAL

    def _look_for_idle(self, now: float) -> None:
        if now - self._whole.looked_at >= IDLE_INTERVAL:
            self._whole.looked_at = now
            self._whole.waiters.look_for_idle()

    def _hear(self, hearing: bool) -> None:
        self.hearing = hearing
        self._whole.look()

    def _ask(self, connection: SharedConnection) -> None:
        # Sharded channels are used only where scripts may send to them.
        if self._whole.announces is None and not self._sharded:
            # If the server demands a key, this is not answered. Then the clients' messages are
            # trusted.
            self._unanswered.append((b"eval", [ASKED]))
            with suppress(InterlockError):  # the thread sees it when it reads
                connection.send("EVAL", question("PUBLISH"), 0)

    def _ask_for_clients(self) -> None:
        """Ask whether clients may send messages, by a command without a channel."""
        with self._lock:
            if self._connection is not None:
                self._unanswered.append((b"publish", [MAY]))
                with suppress(InterlockError):
                    self._connection.send("PUBLISH")

    def _failed(self, error: InterlockError) -> None:
        del error
        if not self._closed:
            _ = self._whole.topology.fetch()

    def _refused(self, error: Exception, channels: list[bytes]) -> None:
        meaning = refusal(str(error), None, self._endpoint.where)
        if channels == [ASKED]:
            if error_code(str(error)) == "FORBIDDEN":
                self._ask_for_clients()
            else:
                self._whole.announces = True
        elif channels == [MAY]:
            if "wrong number" in str(error):
                self._whole.announces = True
            else:
                self._whole.be_silent()
        elif isinstance(meaning, RedirectedError):
            _ = self._whole.topology.learn(meaning)
        elif isinstance(meaning, ServerUnavailableError) and meaning.transient:
            raise meaning  # the next connection subscribes again
        else:
            self._whole.waiters.refused()

    def _ended(self, channel: str) -> None:
        # Either we unsubscribed, or the node did because the slot has gone. In the second case
        # we subscribe where the slot is now. If we ask the wrong node, it names the right one.
        self._whole.again(channel, self)
