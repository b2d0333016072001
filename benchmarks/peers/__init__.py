"""The registry of peers: a new one is a module here and a line below.

The library of a peer may not be installed. The peer's module imports it only when a session is
opened. So the registry stays whole, and the peer is shown as an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.peers import (
    aioredlock,
    bare,
    bare_lock,
    coredis,
    family,
    interlock,
    on_uvloop,
    portalocker,
    pottery,
    programs,
    python_redis_lock,
    quorum,
    redis_py,
    replay,
    rivals,
)

if TYPE_CHECKING:
    from benchmarks.peer import Peer

_LIBRARIES: tuple[Peer, ...] = (
    interlock.SYNC,
    interlock.ASYNC,
    redis_py.SYNC,
    redis_py.ASYNC,
    python_redis_lock.SYNC,
    pottery.SYNC,
    pottery.ASYNC,
    coredis.ASYNC,
    aioredlock.ASYNC,
    portalocker.SYNC,
)

PYTHON: tuple[Peer, ...] = (bare.SYNC, bare.ASYNC, *_LIBRARIES)
UVLOOP: tuple[Peer, ...] = (on_uvloop.BARE, on_uvloop.INTERLOCK)
UNCONTENDED: tuple[Peer, ...] = (*PYTHON, *UVLOOP, *programs.PROGRAMS)
"""Beside the limit of a pair that nobody disturbs."""

LIMITS: tuple[Peer, ...] = (bare_lock.SYNC, bare_lock.ASYNC)
CONTENDED: tuple[Peer, ...] = (*LIMITS, *_LIBRARIES, *programs.PROGRAMS)
"""Beside the limit of a lock that is waited for."""

FAMILY: tuple[Peer, ...] = (*family.FAMILY, family.SHARED, family.SHARED_ASYNC)
"""interlock's other objects."""

AGAIN: tuple[Peer, ...] = family.AGAIN
MEASURED: tuple[Peer, ...] = (*family.FAMILY, *family.AGAIN)
OWN_LIMITS: tuple[Peer, ...] = replay.limits(*MEASURED)
"""Each object's own bare limit."""

PEERS: tuple[Peer, ...] = (
    bare.SYNC,
    bare.ASYNC,
    *CONTENDED,
    *UVLOOP,
    *FAMILY,
    *family.AGAIN,
    *OWN_LIMITS,
    *quorum.QUORUM,
    *interlock.CLUSTER,
    interlock.CLIENTS,
    interlock.ASYNC_CLIENTS,
    family.SEMAPHORE_OF_FOUR,
    programs.REDISSON_FAIR,
    *rivals.RIVALS,
    rivals.LEASED,
)
NAMES = tuple(dict.fromkeys(peer.name for peer in PEERS))


def find(name: str, kind: str) -> Peer:
    """Return the peer *name* for workers of *kind*."""
    for peer in PEERS:
        if (peer.name, peer.kind) == (name, kind):
            return peer
    raise LookupError(f"no peer {name} for {kind}")
