"""The servers of a run, the ways to them, and what can befall both."""

from __future__ import annotations

import contextlib
import itertools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from tests.support.proxy import (
    FaultProxy,
    blackhole,
    command,
    delay,
    delay_reply,
    drop_reply,
    reset,
)
from tests.support.servers import ClusterServers, RedisServer, SentinelServers

from .objects import COUNTERS, OBJECTS, PERMITS, SINGLE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from random import Random
    from typing import Self

    from tests.support.proxy import Matcher

LEASE = 4.0
"""Seconds, of holds that are renewed."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What *make* does to the servers or the network, until it returns.

    For *grace* seconds after that its consequences are excused. If it *loses*, the server may forget
    what it acknowledged.
    """

    make: Callable[[Random], None]
    grace: float = 3.0
    loses: bool = False


class Arena:
    """Servers, ways and faults; a context manager.

    Attributes:
        objects: The names of objects that programs can use here.
        faults: The faults by their names.
        exact: Whether no fault loses data, so that counters can be judged.
        epochs: Whether failovers have epochs, so that they repeat no fencing token.
        fleet: Servers of which a replica can become a primary; they are watched for it.
        primaries: How many of *fleet* are primaries at the same time.
    """

    objects: Sequence[str] = SINGLE
    exact = True
    epochs = False
    primaries = 0

    def __init__(self, binary: Path) -> None:
        self.binary = binary
        self.fleet: Sequence[RedisServer] = ()
        self.faults: dict[str, Fault] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self.build(stack)
            self._stack = stack.pop_all()
        self.prepare()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def build(self, stack: contextlib.ExitStack) -> None:
        """Start everything."""
        raise NotImplementedError

    def urls(self, slot: str) -> list[str]:
        """Return the URLs for a process of *slot*."""
        raise NotImplementedError

    def stores(self) -> list[RedisServer]:
        """Return the primaries at this moment."""
        raise NotImplementedError

    def heal(self) -> None:
        """End what lasts."""

    def prepare(self) -> None:
        """Give the semaphores their permits."""
        for name, kind in (("permits", "semaphore"), ("leased", "leased_semaphore")):
            if name in self.objects:
                import interlock  # noqa: PLC0415 - only here

                with interlock.connect(self.urls("setup")[0]) as client:
                    count = PERMITS if kind == "semaphore" else 2
                    getattr(client, kind)(OBJECTS[name].name).try_set_permits(count)

    def keys(self) -> dict[str, tuple[str, int, dict[str, str]]]:
        """Return all keys that are stored: type, milliseconds to live, fields of a hash."""
        found = {}
        for server in self.stores():
            with server.client() as client:
                for key in client.scan_iter():
                    kind = cast("bytes", client.type(key)).decode()
                    fields = (
                        cast("dict[bytes, bytes]", client.hgetall(key)) if kind == "hash" else {}
                    )
                    found[f"{server.port}:{key.decode()}"] = (
                        kind,
                        cast("int", client.pttl(key)),
                        {k.decode(): v.decode(errors="replace") for k, v in fields.items()},
                    )
        return found


class Single(Arena):
    """One server behind two proxies; every write is on its disk before it is acknowledged."""

    config: Mapping[str, str | int] = {"appendfsync": "always"}

    def build(self, stack: contextlib.ExitStack) -> None:
        """Start the server and the proxies."""
        self.server = stack.enter_context(self.make_server())
        target = ("127.0.0.1", self.server.port)
        self.proxies = [stack.enter_context(FaultProxy(target)) for _ in range(2)]
        self.faults = {**server_faults(lambda: [self.server]), **proxy_faults(self.proxies)}
        self.faults["restart, append-only file"] = Fault(lambda _: self.server.restart(empty=False))

    def make_server(self) -> RedisServer:
        """Return the server, not started yet."""
        return RedisServer(self.binary, appendonly=True, config=self.config)

    def urls(self, slot: str) -> list[str]:
        """Lead one slot directly and the others through proxies."""
        number = sum(slot.encode()) % 3
        return [self.server.url() if number == 0 else self.proxies[number - 1].url()]

    def stores(self) -> list[RedisServer]:
        """Return the one server."""
        return [self.server]

    def heal(self) -> None:
        """End what lasts."""
        for proxy in self.proxies:
            proxy.clear_rules()
            proxy.drop_messages = False
            proxy.clear_record()


class Forgetful(Single):
    """One server that comes back from its last snapshot, or empty."""

    exact = False
    config: Mapping[str, str | int] = {"save": "1 1"}
    objects = tuple(name for name in SINGLE if name not in COUNTERS)

    def make_server(self) -> RedisServer:
        """Return a server that keeps snapshots alone."""
        return RedisServer(self.binary, config=self.config)

    def build(self, stack: contextlib.ExitStack) -> None:
        """Start the server, with faults that lose data."""
        super().build(stack)
        self.faults = {
            "restart, snapshot": Fault(self._restart, 1.0, loses=True),
            "restart, empty": Fault(lambda _: self.server.restart(empty=True), 1.0, loses=True),
            "client kill": self.faults["client kill"],
            "cut": self.faults["cut"],
        }

    def _restart(self, _chance: Random) -> None:
        self.server.restart(empty=False)


class Sentinel(Arena):
    """A primary and two replicas under three Sentinels; a failover may lose acknowledged writes."""

    exact = False
    epochs = True
    primaries = 1
    objects = tuple(name for name in SINGLE if name not in COUNTERS)

    def build(self, stack: contextlib.ExitStack) -> None:
        """Start all servers."""
        self.servers = stack.enter_context(SentinelServers(binary=self.binary))
        self.fleet = self.servers.servers
        self.faults = {
            "failover, asked for": Fault(self._asked),
            "failover, primary killed": Fault(self._killed),
            "primary stopped": Fault(self._stopped),
            **{
                name: fault
                for name, fault in server_faults(self.stores).items()
                if name in ("client kill", "script flush", "client pause")
            },
        }

    def urls(self, slot: str) -> list[str]:
        """Name the Sentinels."""
        del slot
        return [self.servers.url()]

    def stores(self) -> list[RedisServer]:
        """Return the present primary."""
        return [self.servers.present_primary()]

    def _asked(self, _chance: Random) -> None:
        old = self.servers.mend()
        # Sentinels refuse a second failover within twice their time-out.
        time.sleep(2 * 3.0)
        self.servers.sentinels[0].execute("SENTINEL", "FAILOVER", self.servers.service)
        # One that does not happen must not use up the run.
        self.servers.wait_for_promotion(old, 5.0)

    def _killed(self, _chance: Random) -> None:
        old = self.servers.mend()
        old.kill()
        self.servers.wait_for_promotion(old)
        old.restart(empty=False)

    def _stopped(self, chance: Random) -> None:
        old = self.servers.present_primary()
        old.pause()
        time.sleep(chance.choice((0.5, 3.0)))
        old.resume()


class Cluster(Arena):
    """Three primaries with replicas. Slots move without a loss; a failover may lose."""

    exact = False
    epochs = True
    primaries = 3
    objects = tuple(name for name in SINGLE if name not in COUNTERS)

    def build(self, stack: contextlib.ExitStack) -> None:
        """Start all nodes."""
        self.servers = stack.enter_context(ClusterServers(replicas=True, binary=self.binary))
        self.fleet = self.servers.nodes
        self.faults = {
            "slot move": Fault(self._move, 3.0),
            "failover, asked for": Fault(self._failover),
            "failover, primary killed": Fault(self._killed, 5.0),
            **{
                name: fault
                for name, fault in server_faults(self.stores).items()
                if name in ("client kill", "script flush", "client pause")
            },
        }

    def urls(self, slot: str) -> list[str]:
        """Name the nodes."""
        del slot
        return [self.servers.url()]

    def stores(self) -> list[RedisServer]:
        """Return the present primaries."""
        owners = [self.servers.owner(slot) for slot in (0, 8000, 16383)]
        return list(dict.fromkeys(owners))

    def _slot(self, chance: Random) -> tuple[int, RedisServer]:
        name = OBJECTS[chance.choice(("plain", "fair", "fenced", "read"))].name
        slot = cast("int", self.servers.nodes[0].execute("CLUSTER", "KEYSLOT", name))
        return slot, self.servers.owner(slot)

    def _move(self, chance: Random) -> None:
        slot, source = self._slot(chance)
        target = chance.choice([node for node in self.stores() if node is not source])
        with self.servers.migrate_slot(slot, source, target) as move:
            move(1)
            time.sleep(chance.uniform(0.1, 0.5))

    def _failover(self, chance: Random) -> None:
        slot, old = self._slot(chance)
        ident = cast("bytes", old.execute("CLUSTER", "MYID")).decode()
        for node in self.servers.nodes:
            role = cast("list[Any]", node.execute("ROLE"))
            if role[0] == b"slave" and role[2] == old.port:
                node.execute("CLUSTER", "FAILOVER")
                self.servers.wait_for_promotion(old, slot)
                return
        raise LookupError(f"{ident} has no replica")

    def _killed(self, chance: Random) -> None:
        slot, old = self._slot(chance)
        old.kill()
        self.servers.wait_for_promotion(old, slot)
        old.restart(empty=False)
        deadline = time.monotonic() + 10
        while cast("list[Any]", old.execute("ROLE"))[0:4:3] != [b"slave", b"connected"]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{old!r} did not become a replica")
            time.sleep(0.05)


class Five(Arena):
    """Five independent servers for a red lock; a minority of them fails."""

    exact = False
    objects = ("red",)

    def build(self, stack: contextlib.ExitStack) -> None:
        """Start the servers; each keeps its data over a restart."""
        self.servers = [
            stack.enter_context(
                RedisServer(self.binary, appendonly=True, config={"appendfsync": "always"})
            )
            for _ in range(5)
        ]
        self.faults = {
            "two of five stopped": Fault(self._stop),
            "two of five restarted": Fault(self._restart),
            "two of five killed": Fault(self._kill),
        }

    def urls(self, slot: str) -> list[str]:
        """Name each server."""
        del slot
        return [server.url() for server in self.servers]

    def stores(self) -> list[RedisServer]:
        """Return all five."""
        return self.servers

    def _stop(self, chance: Random) -> None:
        two = chance.sample(self.servers, 2)
        for server in two:
            server.pause()
        time.sleep(chance.choice((0.5, 2.0)))
        for server in two:
            server.resume()

    def _restart(self, chance: Random) -> None:
        for server in chance.sample(self.servers, 2):
            server.restart(empty=False)

    def _kill(self, chance: Random) -> None:
        two = chance.sample(self.servers, 2)
        for server in two:
            server.kill()
        time.sleep(chance.choice((0.5, 2.0)))
        for server in two:
            server.restart(empty=False)


ARENAS: dict[str, type[Arena]] = {
    "single": Single,
    "forgetful": Forgetful,
    "sentinel": Sentinel,
    "cluster": Cluster,
    "five": Five,
}


def server_faults(stores: Callable[[], list[RedisServer]]) -> dict[str, Fault]:
    """Return the faults that every server can have and that lose nothing."""

    def stop(chance: Random) -> None:
        for server in stores():
            server.pause()
            time.sleep(chance.choice((0.3, 1.0, 3.0)))
            server.resume()

    def each(*words: str | int) -> Callable[[Random], None]:
        def make(_chance: Random) -> None:
            for server in stores():
                server.execute(*words)

        return make

    def kill_clients(chance: Random) -> None:
        for server in stores():
            server.execute("CLIENT", "KILL", "TYPE", chance.choice(("normal", "pubsub")))

    def no_memory(chance: Random) -> None:
        for server in stores():
            server.execute("CONFIG", "SET", "maxmemory", 1)
            try:
                time.sleep(chance.choice((0.5, 1.5, LEASE + 1)))
            finally:
                server.execute("CONFIG", "SET", "maxmemory", 0)

    return {
        "server stopped": Fault(stop),
        "client kill": Fault(kill_clients),
        "client pause": Fault(each("CLIENT", "PAUSE", 700)),
        "script flush": Fault(each("SCRIPT", "FLUSH"), 1.0),
        "no memory": Fault(no_memory),
    }


def proxy_faults(proxies: Sequence[FaultProxy]) -> dict[str, Fault]:
    """Return the faults of the ways through *proxies*."""

    def one(proxy: FaultProxy, *rules: Any, seconds: float) -> None:
        for matcher, action in rules:
            proxy.on_request(matcher, action)
        time.sleep(seconds)
        proxy.clear_rules()

    def with_rules(make_action: Callable[[Random], Any], *, nth: bool) -> Callable[[Random], None]:
        def make(chance: Random) -> None:
            which = every(chance.randint(2, 20)) if nth else command()
            one(
                chance.choice(proxies),
                (which, make_action(chance)),
                seconds=chance.choice((0.3, 1.0, 2.0)),
            )

        return make

    def cut(chance: Random) -> None:
        chance.choice(proxies).disconnect()

    def refuse(chance: Random) -> None:
        proxy = chance.choice(proxies)
        proxy.stop_accepting()
        proxy.disconnect()
        time.sleep(chance.choice((0.3, 1.0, 1.3 * LEASE)))
        proxy.start_accepting()

    def lose_messages(chance: Random) -> None:
        proxy = chance.choice(proxies)
        proxy.drop_messages = True
        time.sleep(chance.choice((0.5, 2.0)))
        proxy.drop_messages = False

    return {
        "cut": Fault(cut),
        "refused": Fault(refuse),
        "slow": Fault(with_rules(lambda chance: delay(chance.choice((0.05, 0.3, 1.0))), nth=False)),
        # A connection stands still, is given up, and comes alive after later calls were answered.
        "stalled": Fault(with_rules(lambda chance: delay(chance.uniform(1, 5)), nth=True), 4.0),
        "late reply": Fault(
            with_rules(lambda chance: delay_reply(chance.uniform(0.5, 3)), nth=True)
        ),
        "lost reply": Fault(with_rules(lambda _: drop_reply, nth=True)),
        "reset": Fault(with_rules(lambda _: reset, nth=True)),
        "half open": Fault(with_rules(lambda _: blackhole, nth=True), 4.0),
        "lost messages": Fault(lose_messages, 2.0),
    }


def every(nth: int) -> Matcher:
    """Return a matcher for every *nth* request."""
    numbers = itertools.count(1)
    return lambda _words: next(numbers) % nth == 0
