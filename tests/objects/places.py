"""Where the objects are kept: one server, a cluster, a service of Sentinel's, a server with TLS."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import redis
from tests.support.cards import own_keys
from tests.support.cluster import ClusterServers
from tests.support.patience import wait_until
from tests.support.servers import RedisServer, SentinelServers

GONE = 2.0
"""Seconds for which clients of former tests are waited for; some of them are never closed."""
QUIET = 0.1
"""Seconds without a command after which whoever waits has nothing more to ask."""


class Place:
    """Some servers for objects, and what can be seen there.

    Attributes:
        urls: of as many independent services as some object takes, one after another.
    """

    def __init__(self, urls: Sequence[str], services: Sequence[Sequence[RedisServer]]) -> None:
        self.urls = urls
        self._services = services
        self._nodes = [node for service in services for node in service]

    def empty(self) -> None:
        for node in self._nodes:
            if _writes(node):
                node.execute("FLUSHALL")

    def deafen(self) -> None:
        for node in self._nodes:
            node.execute("CLIENT", "KILL", "TYPE", "pubsub")

    def begin(self) -> None:
        """Remove all data, once the clients of former tests are gone: a command may still come."""
        until = time.monotonic() + GONE
        for node in filter(_writes, self._nodes):
            while " name=interlock" in str(node.execute("CLIENT", "LIST")):
                if time.monotonic() > until:
                    break
                time.sleep(0.01)
        self.empty()

    def keys_left(self) -> set[str]:
        """Return all keys but for those of cards, on any server."""
        found: set[str] = set()
        for client in self._clients():
            with client:
                found |= own_keys(client)
        return found

    def rests(self, name: str, clients: int = 1, *, polls: bool = False) -> None:
        """Wait until *clients* listen for *name*, and nobody has anything more to ask.

        Args:
            name: of the object.
            clients: how many connections listen.
            polls: whether who listens never has nothing more to ask.
        """
        wait_until(lambda: self._listeners(name) >= clients, 10, f"{clients} listen for {name}")
        if polls:
            return
        asked = -1

        def quiet() -> bool:
            nonlocal asked
            before, asked = asked, self.asked()
            if asked == before:
                return True
            time.sleep(QUIET)  # whoever has just come asks in this time
            return False

        wait_until(quiet, 10, "the servers rest")

    def _listeners(self, name: str) -> int:
        """Return how many connections listen, in the service where most listen for *name*."""
        return max(sum(_listeners(node, name) for node in service) for service in self._services)

    def asked(self) -> int:
        """Return how many scripts and subscriptions the servers were sent."""
        total = 0
        for client in self._clients():
            with client:
                stats = client.info("commandstats")
            names = ("eval", "evalsha", "subscribe", "ssubscribe")
            total += sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in names)
        return total

    def _clients(self) -> Iterator[redis.Redis]:
        return (node.client() for node in self._nodes if node.alive)


def _listeners(node: RedisServer, name: str) -> int:
    """Return how many connections listen at *node*, if one listens for *name*."""
    if not node.alive:
        return 0
    with node.client() as client:
        channels = client.execute_command("PUBSUB", "CHANNELS")
        with contextlib.suppress(redis.ResponseError):  # older servers have none of these
            channels += client.execute_command("PUBSUB", "SHARDCHANNELS")
        if not any(name.encode() in channel for channel in channels):
            return 0
        listed = client.client_list("pubsub")
        return sum(int(each["sub"]) + int(each.get("ssub", 0)) > 0 for each in listed)


def _writes(node: RedisServer) -> bool:
    role = node.execute("ROLE")
    return isinstance(role, list) and role[0] == b"master"


@contextlib.contextmanager
def single(*, tls: bool = False) -> Iterator[Place]:
    """Give three servers that know nothing of each other."""
    with contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(RedisServer(tls=tls)) for _ in range(3)]
        yield Place([node.url() for node in nodes], [[node] for node in nodes])


@contextlib.contextmanager
def cluster() -> Iterator[Place]:
    """Give a cluster; what takes several services takes two servers beside it."""
    with ClusterServers() as servers, RedisServer() as two, RedisServer() as three:
        yield Place([servers.url(), two.url(), three.url()], [servers.nodes, [two], [three]])


@contextlib.contextmanager
def sentinel() -> Iterator[Place]:
    """Give a service of Sentinel's; what takes several services takes two servers beside it."""
    with SentinelServers(down_after=5.0) as bed, RedisServer() as two, RedisServer() as three:
        nodes = [[bed.present_primary()], [two], [three]]
        yield Place([bed.url(), two.url(), three.url()], nodes)


PLACES: dict[str, Callable[[], contextlib.AbstractContextManager[Place]]] = {
    "single": single,
    "cluster": cluster,
    "sentinel": sentinel,
    "tls": partial(single, tls=True),
}
