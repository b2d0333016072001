"""interlock and its bare limit on uvloop's event loop."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.peers import bare, interlock

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


def _new_loop() -> AbstractEventLoop:
    import uvloop  # noqa: PLC0415 - of the extra `bench`

    return uvloop.new_event_loop()


BARE, INTERLOCK = (
    replace(
        peer, name=f"{peer.name} on uvloop", packages=(*peer.packages, "uvloop"), loop=_new_loop
    )
    for peer in (bare.ASYNC, interlock.ASYNC)
)
