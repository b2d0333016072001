"""A real Redis Cluster of three primaries with a replica each, on loopback ports."""

from __future__ import annotations

import contextlib
from itertools import permutations
from typing import TYPE_CHECKING, Any, cast

import redis

from tests.support.address import LOOPBACK
from tests.support.patience import wait_until
from tests.support.server import RedisServer

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from pathlib import Path
    from typing import Self

    from tests.support.certificates import Certificates

_READY_TIMEOUT = 30.0
_SLOTS = 16384
_PRIMARIES = 3


class ClusterServers:
    """Three primaries that share the slots evenly, and one replica of each unless told otherwise.

    Attributes:
        nodes: All of them; the primaries at the start come first, their replicas in the same order.
    """

    def __init__(
        self,
        *,
        node_timeout: float = 1.5,
        replicas: bool = True,
        binary: Path | None = None,
        password: str | None = None,
        tls: bool = False,
        config: Mapping[str, str | int] | None = None,
    ) -> None:
        """Describe the cluster.

        Args:
            node_timeout: Seconds of silence after which a node counts as failing.
            replicas: Whether each primary has one.
            binary: Of all nodes.
            password: Of all nodes.
            tls: Whether all nodes speak TLS only, to clients and to each other. They share
                their certificates.
            config: Further directives for all nodes.
        """
        self._binary = binary
        self._size = 2 * _PRIMARIES if replicas else _PRIMARIES
        self._password = password
        self._tls = tls
        self._config: dict[str, str | int] = {
            "cluster-enabled": "yes",
            "cluster-node-timeout": int(node_timeout * 1000),
            **({"tls-cluster": "yes"} if tls else {}),
            **(config or {}),
        }
        self._stack = contextlib.ExitStack()
        self.nodes: list[RedisServer]

    def __enter__(self) -> Self:
        """Start the nodes, join them, and wait until all serve all slots."""
        with contextlib.ExitStack() as stack:
            self.nodes = []
            tls: bool | Certificates = self._tls
            for _ in range(self._size):
                node = RedisServer(
                    self._binary, tls=tls, password=self._password, config=self._config
                )
                self.nodes.append(stack.enter_context(node))
                tls = node.certificates or False
            self._join()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.__exit__(*cast("Any", error))

    def url(self, username: str | None = None, password: str | None = None, *, db: int = 0) -> str:
        """Return the URL that names all nodes, by default with the default user's password."""
        scheme, found, rest = self.nodes[0].url(db, username, password).partition("://")
        hosts = ",".join(f"{LOOPBACK}:{node.port}" for node in self.nodes)
        return f"{scheme}+cluster{found}" + rest.replace(f"{LOOPBACK}:{self.nodes[0].port}", hosts)

    def owner(self, slot: int) -> RedisServer:
        """Return the primary that serves *slot*, in the eyes of the first node that answers.

        Raises:
            LookupError: No node knows of one.
        """
        for node in self.nodes:
            port = _owner_port(node, slot)
            for owner in self.nodes:
                if owner.port == port:
                    return owner
        raise LookupError(f"no node knows who serves slot {slot}")

    def promote(self, slot: int, *how: str, timeout: float = 10.0) -> RedisServer:
        """Promote a replica of the primary of *slot*, and return it.

        Args:
            slot: Whose primary.
            how: Further words of CLUSTER FAILOVER.
            timeout: Seconds in which a replica is connected to that primary.
        """
        old = self.owner(slot)
        wait_until(lambda: self._replicas(old) != [], timeout, f"{old!r} had a replica")
        self._replicas(old)[0].execute("CLUSTER", "FAILOVER", *how)
        return self.wait_for_promotion(old, slot)

    def _replicas(self, primary: RedisServer) -> list[RedisServer]:
        found = {node: cast("list[Any]", node.execute("ROLE")) for node in self.nodes}
        return [
            node
            for node, role in found.items()
            if role[0] == b"slave" and role[2:4] == [primary.port, b"connected"]
        ]

    def wait_for_promotion(self, old: RedisServer, slot: int, timeout: float = 30.0) -> RedisServer:
        """Return who serves *slot* after *old*, once every living node says so and is content.

        Raises:
            TimeoutError: They did not agree within *timeout* seconds.
        """
        others = [node for node in self.nodes if node is not old and node.alive]

        def has_happened() -> bool:
            owners = {_owner_port(node, slot) for node in others}
            return (
                len(owners) == 1
                and owners.isdisjoint({old.port, None})
                and all(_info(node).get("cluster_state") == "ok" for node in others)
            )

        wait_until(has_happened, timeout, f"all nodes agreed who replaces {old!r}")
        port = _owner_port(others[0], slot)
        return next(node for node in others if node.port == port)

    @contextlib.contextmanager
    def migrate_slot(
        self, slot: int, source: RedisServer, target: RedisServer
    ) -> Generator[Callable[[int], int]]:
        """Move *slot* while clients work: the body runs in the middle of the migration.

        Within the body the source answers ``ASK`` for the keys that it no longer has. At its end
        the remaining keys move and all primaries learn the new owner.

        Yields:
            A function that moves up to so many keys and returns how many it has moved.
        """
        target_id, source_id = _node_id(target), _node_id(source)

        def move_keys(count: int) -> int:
            reply = source.execute("CLUSTER", "GETKEYSINSLOT", slot, count)
            keys = cast("list[bytes]", reply)
            if keys:
                login = () if self._password is None else ("AUTH", self._password)
                to = (LOOPBACK, target.port, "", 0, 5000)
                source.execute("MIGRATE", *to, *login, "KEYS", *keys)
            return len(keys)

        target.execute("CLUSTER", "SETSLOT", slot, "IMPORTING", source_id)
        source.execute("CLUSTER", "SETSLOT", slot, "MIGRATING", target_id)
        yield move_keys
        while move_keys(100):
            pass
        # The target first: were the source told first and then died, nobody would own the slot.
        owners = {port for _first, _last, port in _ranges(source)} - {source.port, target.port}
        for node in (target, source, *(node for node in self.nodes if node.port in owners)):
            node.execute("CLUSTER", "SETSLOT", slot, "NODE", target_id)

    def _join(self) -> None:
        primaries, replicas = self.nodes[:_PRIMARIES], self.nodes[_PRIMARIES:]
        for number, node in enumerate(self.nodes):
            node.execute("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        bounds = [_SLOTS * number // _PRIMARIES for number in range(_PRIMARIES + 1)]
        for primary, first, end in zip(primaries, bounds, bounds[1:], strict=False):
            primary.execute("CLUSTER", "ADDSLOTS", *range(first, end))
        # Everybody is introduced to everybody: gossip alone would take seconds longer.
        for node, other in permutations(self.nodes, 2):
            node.execute("CLUSTER", "MEET", LOOPBACK, other.port)
        ids = [_node_id(primary) for primary in primaries]
        wait_until(
            lambda: all(_view(node).keys() >= set(ids) for node in self.nodes),
            _READY_TIMEOUT,
            "all nodes know the primaries",
        )
        for replica, node_id in zip(replicas, ids, strict=False):
            replica.execute("CLUSTER", "REPLICATE", node_id)
        wait_until(self._ready, _READY_TIMEOUT, "all nodes serve and know the replicas")

    def _ready(self) -> bool:
        for node in self.nodes:
            flags = [flag for flags in _view(node).values() for flag in flags]
            replicas = self._size - _PRIMARIES
            if flags.count("master") != _PRIMARIES or flags.count("slave") != replicas:
                return False
            info = _info(node)
            if info["cluster_state"] != "ok" or info["cluster_slots_ok"] != str(_SLOTS):
                return False
        for replica in self.nodes[_PRIMARIES:]:
            role = cast("list[object]", replica.execute("ROLE"))
            if role[0] != b"slave" or role[3] != b"connected":
                return False
        return True


def _node_id(node: RedisServer) -> str:
    return cast("bytes", node.execute("CLUSTER", "MYID")).decode()


def _info(node: RedisServer) -> dict[str, str]:
    try:
        text = cast("bytes", node.execute("CLUSTER", "INFO")).decode()
    except redis.RedisError:  # it is down, or paused by the test
        return {}
    return dict(line.split(":", 1) for line in text.splitlines())


def _view(node: RedisServer) -> dict[str, list[str]]:
    text = cast("bytes", node.execute("CLUSTER", "NODES")).decode()
    fields = [line.split() for line in text.splitlines()]
    return {line[0]: line[2].split(",") for line in fields if "handshake" not in line[2]}


def _owner_port(node: RedisServer, slot: int) -> int | None:
    for first, last, port in _ranges(node):
        if first <= slot <= last:
            return port
    return None


def _ranges(node: RedisServer) -> list[tuple[int, int, int]]:
    """Return the first slot, the last slot and the owner's port of every range *node* knows."""
    try:
        reply = node.execute("CLUSTER", "SLOTS")
    except redis.RedisError:  # it is down, or paused by the test
        return []
    rows = cast("list[tuple[int, int, tuple[bytes, int]]]", reply)
    return [(row[0], row[1], row[2][1]) for row in rows]
