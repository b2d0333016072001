"""One connection and one thread for each node hear the messages for the lines of a client.

A line has three channels, which are subscribed to by one command: Java's, the one by which scripts
count who stands in queues, and the one that wakes this client. Messages are hints. If the connection
is lost, those who wait may have lost their places: they look when it is back.

Scripts count the listeners of their own node, so a line is heard where its lock is kept. There is no
mutex: each step is one method of a dict, so a signal may strike anywhere.
"""

# It reads as the connection itself does.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import _thread
import threading
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

from interlock._core.model.names import asking_channel
from interlock._core.queue.notices import Notices
from interlock._core.queue.places import COURTESY, REST
from interlock._core.scripts.replies import news_of
from interlock._core.scripts.source import question
from interlock._drivers.background.callbacks import outlived
from interlock._links.connection import Connection
from interlock._links.replies import error_code
from interlock.errors import InterlockError, ServerUnavailableError

if TYPE_CHECKING:
    from interlock._core.queue.places import Line
    from interlock._core.upkeep.session import Session
    from interlock._links.endpoint import Endpoint
    from interlock._links.topology import Topology

TICK = 0.5
"""Seconds between two looks for lines at which nobody waits any more."""
SILENCE = 3.0
"""Seconds without an answer after which the connection is given up."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
SILENT = 'it refuses PUBLISH in scripts, so waiters poll; with pubsub="off" they do so at once'


class Subscriber:
    """The listeners of one client."""

    def __init__(self, session: Session, topology: Topology, timeout: float) -> None:
        self.session, self.topology, self.timeout = session, topology, timeout
        self.reset()

    def reset(self) -> None:
        """Begin without threads, also in a forked child."""
        self._listeners: dict[Endpoint, Listener] = {}
        self.closed = False

    def hear(self, line: Line) -> None:
        """Make sure that *line* is heard soon: then all its waiters look."""
        if self.closed:
            return
        if not self.session.publish:
            line.listen(can=False)
            return
        node = self.node_of(line)
        listener = self._listeners.get(node)
        if listener is None:
            listener = self._listeners.setdefault(node, Listener(self, node))
        listener.hear(line)

    def node_of(self, line: Line) -> Endpoint:
        """Return the node whose scripts count the listeners of *line*."""
        return self.topology.owner(line.lock.key) or self.topology.any_owner()

    def gone(self, listener: Listener) -> None:
        """Forget *listener*, whose node serves nothing any more."""
        if self._listeners.get(listener.node) is listener:
            del self._listeners[listener.node]

    def close(self) -> None:
        """End all connections and threads."""
        self.closed = True
        for listener in list(self._listeners.values()):
            listener.close()


class Listener:
    """The subscriber of one *node*."""

    def __init__(self, whole: Subscriber, node: Endpoint) -> None:
        self._whole, self._session, self.node = whole, whole.session, node
        # By each of its channels, and whether that is its only one: permits with and without leases
        # share a channel.
        self._lines: dict[tuple[str, bool], Line] = {}
        self._connection: Connection | None = None
        self._only = threading.Lock()
        self._silent = False

    def hear(self, line: Line) -> None:
        """Make sure that *line* is heard soon."""
        for key in _keys(line):
            self._lines[key] = line
        if not self._only.locked():
            with suppress(RuntimeError):  # too many threads: its waiters poll, and try again
                _ = _thread.start_new_thread(self._run, ())
        elif not (line.ready or line.asked) and self._connection is not None:
            self._subscribe(line)

    def _subscribe(self, line: Line) -> None:
        sent = False
        try:
            line.asked = True  # not later: the server's refusal may come at once
            self._send(self._word("SUBSCRIBE"), *line.channels)
            sent = True
        finally:
            if not sent:
                line.asked = False  # the next one sends it

    def _send(self, *words: str | int) -> None:
        connection = self._connection
        if connection is not None:
            with suppress(InterlockError):  # the thread connects anew
                connection.send(*words)

    def _word(self, of_channels: str) -> str:
        """Return the command for channels of the kind by which the client's scripts publish."""
        return self._session.publish.replace("PUBLISH", of_channels)

    def _here(self) -> list[Line]:
        return list(dict.fromkeys(list(self._lines.values())))

    def _run(self) -> None:
        if not self._only.acquire(blocking=False):
            return
        self._pause = FIRST_PAUSE
        while not self._whole.closed:
            # The next connection may do better.
            with outlived("the thread that hears messages"), suppress(ServerUnavailableError):
                self._listen()
            self._lost()
            if self.node not in self._whole.topology.nodes:
                break
            if not self._whole.closed:
                time.sleep(self._pause)
                self._pause = min(2 * self._pause, LONGEST_PAUSE)
                _ = self._whole.topology.fetch()
        self._whole.gone(self)

    def _listen(self) -> None:
        """Connect, and take messages until the connection is lost, or too long silent."""
        with closing(Connection(self.node, self._whole.timeout)) as connection:
            try:
                self._ask(connection)
                self._connection = connection  # not earlier: others subscribe by it
                for line in self._here():
                    self._subscribe(line)
                self._pause = FIRST_PAUSE
                self._receive(connection)
            finally:
                self._connection = None

    def _ask(self, connection: Connection) -> None:
        """Have a script send a message, which nobody hears: perhaps none may."""
        lines = self._here()
        if not lines:
            return
        key = lines[0].lock.key
        script = question(self._session.publish)
        connection.send("EVAL", script, 1, key, asking_channel(key), "")
        answer: Any = connection.message(self._whole.timeout)
        code = error_code(str(answer)) if isinstance(answer, Exception) else ""
        self._silent = code == "FORBIDDEN"
        if self._silent:
            self._session.outside.note("messages.refused", SILENT)
        elif code == "NOPERM":
            self.node.refused["messages.refused"] = str(answer)

    def _lost(self) -> None:
        """Note that the connection is gone: places may be lost, and releases, too."""
        for line in self._here():
            line.deafen()
        self._session.resend()

    def _receive(self, connection: Connection) -> None:
        looked = heard = time.monotonic()
        while not self._whole.closed:
            message: Any = connection.message(TICK)
            now = time.monotonic()
            if message is not None:
                heard = now
            match message:
                case [bytes(kind), bytes(channel), payload]:
                    self._take(kind, channel.decode(), payload)
                case Exception():
                    self._refused(message)
                case _:
                    pass
            if now > looked + TICK:
                looked = now
                self._rest()
                if now > heard + SILENCE:
                    return
                if now > heard + TICK:
                    self._send("PING")

    def _take(self, kind: bytes, channel: str, payload: Any) -> None:
        for only in (False, True):
            line = self._lines.get((channel, only))
            if line is not None:
                self._tell(line, kind, channel, payload)

    def _tell(self, line: Line, kind: bytes, channel: str, payload: Any) -> None:
        wake = channel == line.channels[-1]
        if kind in (b"subscribe", b"ssubscribe"):
            if wake:
                line.listen(can=not self._silent)
        elif kind in (b"unsubscribe", b"sunsubscribe"):
            if wake and line.ready:  # its slot has moved
                line.deafen()
        elif isinstance(line, Notices):
            line.hear(payload)
        elif channel == line.channels[0]:  # a line of waiters without a queue has no other one
            if payload not in (b"00", b"01"):
                line.look(self._session.clock())
        elif wake:
            self._wake(line, payload)

    def _wake(self, line: Line, payload: bytes) -> None:
        """Take a message for this client alone."""
        if not payload:  # all its places were taken away
            line.look_all()
            return
        number, granted, told = payload.partition(b"|")
        if not granted:
            line.look_in(COURTESY)
            return
        self._session.queues.tell(line.lock, number, news_of(told))

    def _refused(self, error: Exception) -> None:
        """Note the *error* in place of a subscription.

        Its waiters ask for it again, perhaps elsewhere, unless the user has no right to it.
        """
        if mute := error_code(str(error)) == "NOPERM":
            self.node.refused["messages.refused"] = str(error)
        else:
            _ = self._whole.topology.fetch()
        for line in self._here():
            if mute and line.asked and not line.ready:
                line.listen(can=False)
            elif not line.ready:
                line.asked = False

    def _rest(self) -> None:
        """Stop to hear the lines at which nobody has waited for a while, or that are kept elsewhere."""
        now = self._session.clock()
        for line in self._here():
            moved = self._whole.node_of(line) is not self.node
            if not moved and (line.waiters or now < line.left_at + REST):
                continue
            # A lock of another kind with the same name is woken by the same channel.
            own = [key for key in _keys(line) if self._lines.get(key) is line]
            for key in own:
                self._lines.pop(key, None)
            # If the other one comes just now, it is deafened by the answer, and asks again.
            alone = [name for name, only in own if (name, not only) not in self._lines]
            if alone:  # without a channel it would end all
                self._send(self._word("UNSUBSCRIBE"), *alone)
            line.deafen()
            if moved:
                line.look_all()
            else:
                self._session.queues.rest(line)

    def close(self) -> None:
        """End the connection, by which the thread sees that it shall end, too."""
        connection = self._connection
        if connection is not None:
            connection.shutdown()


def _keys(line: Line) -> list[tuple[str, bool]]:
    """Return by what *line* is found."""
    return [(channel, len(line.channels) == 1) for channel in line.channels]
