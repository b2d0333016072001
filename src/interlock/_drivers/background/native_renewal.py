"""Renewals by a thread in C, for `Options.renew_in`: what it needs to know, and what it has done.

`_renewal.c` has the theory. A hold enters when it is granted, and leaves when it ends. Each server
has a line: its address, the commands that log in, and a thread. The thread connects only when a
renewal is overdue, so it costs no connection as long as Python gets its turns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.model.effects import NEVER
from interlock._core.model.holds import HELD, valid_until
from interlock._drivers.background import native_tls
from interlock._drivers.process import clock
from interlock._links import _renewal as native
from interlock._links.resp import pack_eval

if TYPE_CHECKING:
    from interlock._core.model.holds import Hold
    from interlock._links._renewal import Line
    from interlock._links.endpoint import Endpoint
    from interlock._links.topology import Topology


ASK_AFTER = 0.1
"""Seconds after which the thread in C asks for a hold that began with a claim."""
SAME = 1.0
"""Seconds by which two readings of one clock differ at most."""


def check_clock() -> None:
    """Raise ImportError unless the part in C has the clock by which validity is measured."""
    if abs(native.now() - clock.now()) > SAME:
        raise ImportError("the part in C was built for another clock")


class NativeRenewal:
    """The holds of one client that a thread in C renews; see `Backup`.

    Args:
        topology: says which server has a hold.
        lease: seconds of one renewal.
        timeout: seconds for one reply.
    """

    def __init__(self, topology: Topology, lease: float, timeout: float) -> None:
        self._topology = topology
        self._lease = lease
        self._timeout = min(timeout, lease / 6)
        # A server may take another one's place, or some of its keys.
        self._moves = topology.only is None or topology.only.moves
        self._lines: dict[Endpoint, Line] = {}
        self._logins: dict[Endpoint, tuple[bytes, ...]] = {}
        self._kept: dict[Hold, tuple[Line, int]] = {}

    def watch(self, hold: Hold) -> None:
        """Renew *hold* from now on, or no more if it has got a lease or an end of its own."""
        if hold.ends_alone():
            self.forget(hold)
        elif not native.extend(self._kept, hold, hold.valid_until):
            self._keep(hold, hold.valid_until)

    def expect(self, hold: Hold, now: float) -> None:
        """Confirm *hold*, which began with a claim at *now*, if Python does not do so before.

        It is kept as if half of its lease were over soon: the thread in C renews it then.
        """
        self._keep(hold, now + ASK_AFTER + self._lease / 2)

    def renewed(self, hold: Hold) -> None:
        """Note that the watchdog has renewed *hold*, perhaps on another server than before."""
        if hold.ends_alone():
            return
        known = native.extend(self._kept, hold, hold.valid_until)
        line = self._line(hold)
        if not known or (self._moves and self._kept.get(hold, (None,))[0] is not line):
            self._keep(hold, hold.valid_until)

    def forget(self, hold: Hold) -> None:
        """Stop renewing *hold*."""
        if hold in self._kept and native.forget(self._kept, hold):
            # A renewal is under way, and must not hit the owner's next hold.
            _ = hold.keep_holder_unique()

    def catch_up(self, hold: Hold) -> None:
        """Make *hold* valid for as long as its last renewal in C allows."""
        self.check_server(hold)
        sent_at = native.look(self._kept, hold)
        if sent_at and hold.renewal is not None:
            hold.extend_validity(sent_at, self._lease)

    def check_server(self, hold: Hold) -> None:
        """Stop renewing *hold* if it is renewed on another server than the one that has it now."""
        if self._moves and (kept := self._kept.get(hold)) is not None:
            server = self._server(hold)
            if server is not None and kept[0] is not self._lines.get(server):
                self.forget(hold)

    def close(self) -> None:
        """End the threads in C as soon as they have nothing under way."""
        self._kept.clear()
        self._lines.clear()
        self._logins.clear()

    def after_fork(self) -> None:
        """Forget everything: the threads are the parent's."""
        self.close()

    def _keep(self, hold: Hold, until: float) -> None:
        self.forget(hold)
        line, renewal = self._line(hold), hold.renewal
        if line is None or renewal is None or hold.ends_alone():
            return
        call = renewal([hold.key], self._lease, [hold.holder], deadline=NEVER)
        native.keep(self._kept, hold, line, pack_eval(call), until)
        if hold.state is not HELD:  # another thread has released it meanwhile
            self.forget(hold)

    def _server(self, hold: Hold) -> Endpoint | None:
        """Return the server that has *hold*; None if that is not known."""
        node = self._topology.owner(hold.key)
        return None if node is None else node.present()

    def _line(self, hold: Hold) -> Line | None:
        """Return the line to the server that has *hold*; None if that is not known."""
        server = self._server(hold)
        if server is None:
            return None
        line = self._lines.get(server)
        if line is None:
            host, port = server.address
            path = server.path
            where, number = (path, None) if path else (host, str(port))
            valid_for = valid_until(0, self._lease)
            line = native.line(where.encode(), number, self._lease, valid_for, self._timeout)
            if server.tls:
                native_tls.use_tls(line, server.tls_settings)
            line = self._lines.setdefault(server, line)
        commands = tuple(server.login_commands())
        if self._logins.get(server) != commands:
            native.log_in_by(line, b"".join(commands), len(commands))
            self._logins[server] = commands
        return line
