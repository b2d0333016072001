"""The registry of peers: a new one is a module here and a line below.

A module of a library that may not be installed imports it when it is opened: the registry stays
whole, and the peer is shown as an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.peers import bare, interlock, redis_py

if TYPE_CHECKING:
    from benchmarks.peer import Peer

PEERS: tuple[Peer, ...] = (
    bare.SYNC,
    bare.ASYNC,
    redis_py.SYNC,
    redis_py.ASYNC,
    interlock.SYNC,
    interlock.ASYNC,
)

NAMES = tuple(dict.fromkeys(peer.name for peer in PEERS))
