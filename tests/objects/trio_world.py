"""The trio face as a world of the suite."""

from __future__ import annotations

import threading
from concurrent.futures import Future

import trio
from tests.objects.worlds import Actor, Call, CancelledHereError, made
from tests.support.patience import GIVE_UP

import interlock.trio


class _TrioActor(Actor):
    def __init__(self, token: trio.lowlevel.TrioToken, nursery: trio.Nursery) -> None:
        super().__init__(awaits=True)
        self._token = token
        self._send, self._calls = trio.open_memory_channel[Call](1000)
        self._scope = trio.CancelScope()
        self._ended = threading.Event()
        token.run_sync_soon(nursery.start_soon, self._serve)

    def _put(self, call: Call) -> None:
        self._token.run_sync_soon(self._send.send_nowait, call)

    def cancel(self) -> None:
        self._token.run_sync_soon(lambda: self._scope.cancel())  # noqa: PLW0108 - the present one

    def end(self) -> None:
        self._token.run_sync_soon(self._send.close)
        assert self._ended.wait(GIVE_UP)

    async def _serve(self) -> None:
        async for call, done in self._calls:
            done.set_running_or_notify_cancel()
            with trio.CancelScope() as self._scope:
                try:
                    done.set_result(await made(call))
                except trio.Cancelled:
                    raise
                except BaseException as error:
                    done.set_exception(error)
            if self._scope.cancelled_caught:
                done.set_exception(CancelledHereError())
            del call, done
        self._ended.set()


class TrioTasks:
    """The trio face, with a task for each actor, in a loop that a thread of its own runs."""

    name = "trio"
    face = interlock.trio
    cancels = True
    sleep = staticmethod(trio.sleep)

    def __init__(self) -> None:
        started: Future[tuple[trio.lowlevel.TrioToken, trio.Nursery]] = Future()
        self._stop = trio.Event()

        async def run() -> None:
            async with trio.open_nursery() as nursery:
                started.set_result((trio.lowlevel.current_trio_token(), nursery))
                await self._stop.wait()

        self._thread = threading.Thread(target=trio.run, args=(run,), daemon=True)
        self._thread.start()
        self._token, self._nursery = started.result(GIVE_UP)

    def actor(self) -> Actor:
        return _TrioActor(self._token, self._nursery)

    def end(self) -> None:
        self._token.run_sync_soon(self._stop.set)
        self._thread.join(GIVE_UP)
