"""trio as a face of the tests in `tests/lock`: each owner is a task of trio's.

trio runs as a guest of the test's event loop, so a case for the other two faces serves as it is.
"""

from __future__ import annotations

import asyncio
import functools
import math
from typing import TYPE_CHECKING, Any

import trio
from tests.lock.lock_like import Face, answer

import interlock.trio

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lock.lock_like import Owner

_Call = tuple["Callable[[], Any]", "asyncio.Future[Any]"]


class TrioFace(Face):
    """trio's tasks, and the client whose methods they await."""

    def __init__(self) -> None:
        super().__init__("asyncio")
        self.module = interlock.trio
        self._guest: _Guest | None = None

    def owner(self) -> Owner:
        """Return a new owner."""
        self._guest = self._guest or _Guest()
        return _TaskOwner(self._guest)

    async def call(self, call: Callable[[], Any]) -> Any:
        """Make one call in a task of its own."""
        owner = self.owner()
        try:
            return await owner.do(call)
        finally:
            await owner.end()

    async def end(self) -> None:
        """End the loop of trio's."""
        if self._guest is not None:
            await self._guest.end()


class _Guest:
    """A loop of trio's in the running event loop of asyncio."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._begun: asyncio.Future[tuple[trio.Nursery, trio.lowlevel.TrioToken]]
        self._begun = loop.create_future()
        self._over: asyncio.Future[None] = loop.create_future()
        trio.lowlevel.start_guest_run(
            self._main,
            run_sync_soon_threadsafe=loop.call_soon_threadsafe,
            done_callback=lambda _: self._over.set_result(None),
            host_uses_signal_set_wakeup_fd=True,
        )

    async def _main(self) -> None:
        async with trio.open_nursery() as nursery:
            self._begun.set_result((nursery, trio.lowlevel.current_trio_token()))
            await trio.sleep_forever()

    async def soon(self, call: Callable[..., object], *args: Any) -> None:
        """Make *call* soon, in trio's loop."""
        _, token = await self._begun
        token.run_sync_soon(call, *args)

    async def start(self, work: Callable[[], Any]) -> None:
        """Begin a task of trio's."""
        nursery, _ = await self._begun
        await self.soon(nursery.start_soon, work)

    async def end(self) -> None:
        """Cancel what still runs, and wait until it has ended."""
        nursery, _ = await self._begun
        await self.soon(nursery.cancel_scope.cancel)
        await self._over


class _TaskOwner:
    def __init__(self, guest: _Guest) -> None:
        self._guest = guest
        self._begun = False
        self._calls, self._to_come = trio.open_memory_channel[_Call | None](math.inf)

    async def do(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if not self._begun:
            self._begun = True
            await self._guest.start(self._serve)
        done = asyncio.get_running_loop().create_future()
        item = functools.partial(call, *args, **kwargs), done
        await self._guest.soon(self._calls.send_nowait, item)
        return await done

    async def end(self) -> None:
        await self._guest.soon(self._calls.send_nowait, None)

    async def _serve(self) -> None:
        while (item := await self._to_come.receive()) is not None:
            await answer(*item)
            # What the call returned may be waited for to be collected.
            del item
