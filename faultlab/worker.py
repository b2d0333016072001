"""One process that uses the library at random: ``python -m faultlab.worker '{...}'``.

Its lanes are threads or asyncio tasks, and each is an owner. It writes down what it did and what
it was told. It judges nothing. The first lane of the face for threads runs in the main thread, so
that signals strike it.
"""

from __future__ import annotations

import asyncio
import ctypes
import importlib
import inspect
import json
import os
import random
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faultlab.history import Recorder
from faultlab.objects import OBJECTS, PARTIES, Object

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_FACTORIES = {
    "lock": "lock",
    "fair": "fair_lock",
    "fenced": "fenced_lock",
    "spin": "spin_lock",
    "semaphore": "semaphore",
    "leased": "leased_semaphore",
    "latch": "count_down_latch",
    "election": "election",
    "event": "event",
}
TRANSFERABLE = ("lock", "fair", "fenced", "spin")
"""Kinds whose holds can be shortened."""
_PR_SET_PDEATHSIG = 1
_STALL = 0.5
"""Seconds after which a late heartbeat counts as standing still."""
_TOLD = 3.0
"""Seconds that the news of a loss may take."""


class Struck(BaseException):
    """What the signal handler raises, as Ctrl-C does."""


class OddName(str):
    """A name that reads otherwise when it is printed, as a member of a `str` enumeration does."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"OddName.{super().__str__().upper()}"


class Lane:
    """One owner, and what it does; a signal may strike while it is armed."""

    def __init__(self, worker: Worker, name: str) -> None:
        self.name = name
        self.armed = False
        self._worker = worker
        self._note = worker.recorder
        self._random = random.Random(f"{worker.seed} {worker.recorder.name} {name}")
        self._made: dict[str, Any] = {}

    async def run(self) -> None:
        """Use objects at random until the time is over."""
        while time.monotonic() < self._worker.until:
            name = self._random.choice(self._worker.objects)
            spec, draw = OBJECTS[name], self._random.random()
            if spec.kind == "semaphore":
                await self._semaphore(name)
            elif spec.kind == "latch":
                await self._latch(name)
            elif spec.kind == "event":
                await self._event(name)
            elif spec.kind == "barrier":
                await self._barrier(name)
            elif spec.kind == "condition":
                await self._condition(name)
            elif spec.kind == "election" and draw < 0.2:
                await self._attempt("leader", name, partial(self._leader, name))
            elif spec.unsafe and draw < 0.3:
                await self._attempt("force_release", name, self._object(name).force_release)
            elif spec.kind == "lock" and draw > 0.95:
                await self._fleeting(name)
            else:
                await self._hold(name)
            # Alone in its process, a lane leaves others time to come first.
            pauses = (0.4, 0.8) if self._worker.calm else (0, 0, 0.01, 0.1)
            await self._sleep(self._random.choice(pauses))

    async def _attempt(
        self, op: str, name: str, call: Callable[[], Any], **more: Any
    ) -> tuple[Any, str | None]:
        """Perform and note an operation; return its value, or the name of its error."""
        number = self._note.call(self.name, op, o=name, **more)
        try:
            self.armed = True
            try:
                value = await settled(call())
            finally:
                self.armed = False
        except Struck as struck:
            return self._failed(number, struck)
        except asyncio.CancelledError as cancelled:
            if not self._survives():
                raise
            return self._failed(number, cancelled)
        except Exception as error:  # noqa: BLE001 - the checker judges it
            return self._failed(number, error)
        shown = value if isinstance(value, int | bool | None) else list(value.ids)
        self._note.ret(number, value=shown)
        return value, None

    def _failed(self, number: int, error: BaseException) -> tuple[None, str]:
        kinds = [kind.__name__ for kind in type(error).__mro__]
        self._note.ret(number, error=kinds[0], kinds=kinds, text=str(error)[:300])
        return None, kinds[0]

    async def _sleep(self, seconds: float) -> None:
        try:
            await settled(self._worker.sleep(seconds))
        except asyncio.CancelledError:
            # A strike that found its operation already done.
            if not self._survives():
                raise

    def _survives(self) -> bool:
        """Return whether the cancellation was a strike; the end of the program cancels as well."""
        task = asyncio.current_task()
        if task is None or not self._worker.strikes.pop(self.name, 0):
            return False
        task.uncancel()
        return True

    def _object(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = self._make(self._worker.clients, OBJECTS[name])
        return self._made[name]

    def _make(self, clients: list[Any], spec: Object) -> Any:
        client = clients[0]
        name = self._random.choice((spec.name, OddName(spec.name)))
        makers: dict[str, Callable[[], Any]] = {
            "read": lambda: client.read_write_lock(spec.name).read,
            "write": lambda: client.read_write_lock(spec.name).write,
            "group": lambda: client.group_lock(spec.name, spec.values),
            "multi": lambda: client.multi_lock(*map(client.lock, spec.members)),
            "barrier": lambda: client.barrier(spec.name, PARTIES),
            "condition": lambda: client.condition(client.lock(spec.name)),
            "red": lambda: client.red_lock(*(one.lock(spec.members[0]) for one in clients)),
        }
        if spec.kind in makers:
            return makers[spec.kind]()
        return getattr(client, _FACTORIES[spec.kind])(name)

    async def _hold(self, name: str) -> None:
        """Acquire, hold for a while, release."""
        chance, made = self._random, self._object(name)
        timeout = chance.choice((0, 0.2, 1.0, 5.0, 5.0))
        lease = chance.choice((None, None, None, 0.4, 2.0))
        how = {"timeout": timeout, "lease": lease}
        leased = OBJECTS[name].kind == "leased"
        acquire = made.try_acquire if leased else made.acquire
        got, error = await self._attempt("acquire", name, lambda: acquire(**how), **how)
        if leased:
            hold = got
        else:
            # A strike may come after the lock was entered: the owner then looks for itself.
            hold = made.hold if got or error in ("Struck", "CancelledError") else None
        if hold is None:
            return
        if OBJECTS[name].kind in TRANSFERABLE and chance.random() < 0.15:
            for longer in chance.choices((0.4, 2.0, 4.0), k=chance.randint(1, 3)):
                await self._attempt("extend", name, partial(hold.extend, longer))
        ident = self._watch(hold, name, lease)
        again = OBJECTS[name].reentrant and chance.random() < 0.3
        if again:
            again = bool((await self._attempt("again", name, lambda: made.acquire(**how)))[0])
        if again and lease is None:
            await self._attempt("depth", name, made.hold_count, h=ident, wants=2)
        valid = await self._hold_on(
            ident, hold, chance.choice((0, 0, 0.02, 0.2, 0.2, 0.8, 2.5, 5.0))
        )
        if again and valid:
            await self._attempt("inner", name, made.release, h=ident)
            if lease is None:
                await self._attempt("depth", name, made.hold_count, h=ident, wants=1)
            valid = await self._hold_on(ident, hold, 0.1)
        await self._release(ident, name, hold if leased else made, hold)

    def _watch(self, hold: Any, name: str, lease: float | None) -> str:
        """Note the hold, and ask to be told of its loss."""
        ident = f"{self._note.name}/{self.name}/{self._note.call(self.name, 'hold', o=name)}"
        self._note.note("held", h=ident, o=name, w=self.name, token=hold.token, lease=lease)
        manner = self._random.choice(self._worker.manners)

        def told() -> None:
            self._note.note("told", h=ident, how=manner)
            if manner == "raise":
                raise ArithmeticError("the callback of the lab")
            if manner == "exit":
                sys.exit("the callback of the lab")
            if manner == "hang":
                time.sleep(4)

        try:
            hold.on_lost(told)
        except Exception as error:  # noqa: BLE001 - the checker judges it
            self._note.note("odd", text=f"on_lost raised {error!r}")
        return ident

    async def _hold_on(self, ident: str, hold: Any, seconds: float) -> bool:
        """Look again and again whether the hold is valid; return whether it was to the end."""
        end = time.monotonic() + seconds
        while True:
            asked = time.monotonic()
            if not hold.valid:
                await self._lost(ident, hold)
                return False
            self._note.note("belief", t=asked, h=ident)
            if asked >= end:
                return True
            await self._sleep(min(0.05, max(0.0, end - asked)))

    async def _lost(self, ident: str, hold: Any) -> None:
        began = time.monotonic()
        while not hold.lost.is_set() and time.monotonic() < began + _TOLD:
            await self._sleep(0.01)
        self._note.note("gone", t=began, h=ident, told=hold.lost.is_set())

    async def _release(self, ident: str, name: str, made: Any, hold: Any) -> None:
        for _ in range(4):
            _, error = await self._attempt("release", name, made.release, h=ident)
            if error not in ("ServerUnavailableError", "Struck", "CancelledError"):
                return
            if hold.lost.is_set() or hold.depth == 0:
                return

    async def _semaphore(self, name: str) -> None:
        chance, made = self._random, self._object(name)
        if chance.random() < 0.15:
            await self._attempt("available", name, made.available_permits)
            return
        timeout = chance.choice((0, 0, 0.3, 2.0))
        got, _ = await self._attempt(
            "take", name, lambda: made.acquire(1, timeout=timeout), timeout=timeout
        )
        if got:
            await self._sleep(chance.choice((0, 0.01, 0.1)))
            await self._attempt("put", name, lambda: made.release(1))

    async def _latch(self, name: str) -> None:
        made = self._object(name)
        match self._random.choice(("set", "down", "down", "count", "wait")):
            case "set":
                await self._attempt("set", name, lambda: made.try_set_count(2))
            case "down":
                await self._attempt("down", name, made.count_down)
            case "count":
                await self._attempt("count", name, made.count)
            case "wait":
                timeout = self._random.choice((0, 0.5, 2.0))
                await self._attempt(
                    "wait", name, lambda: made.wait(timeout=timeout), timeout=timeout
                )

    async def _event(self, name: str) -> None:
        chance, made = self._random, self._object(name)
        what = chance.choice(("set", "pulse", "pulse", "clear", "read", "wait", "wait", "wait"))
        if what in ("set", "pulse"):
            await self._attempt("event-set", name, made.set)
        if what in ("clear", "pulse"):
            await self._attempt("event-clear", name, made.clear)
        match what:
            case "read":
                await self._attempt("event-read", name, made.is_set)
            case "wait":
                timeout = chance.choice((0, 0.5, 2.0, 5.0))
                await self._attempt(
                    "event-wait", name, lambda: made.wait(timeout=timeout), timeout=timeout
                )

    async def _barrier(self, name: str) -> None:
        """Wait for two others; mend the barrier if it is broken."""
        chance, made = self._random, self._object(name)
        draw = chance.random()
        if draw < 0.1:
            await self._attempt("waiting", name, lambda: made.n_waiting)
            return
        if draw < 0.13:
            await self._attempt("abort", name, made.abort)
            return
        timeout = chance.choice((1.0, 5.0, 5.0))
        _, error = await self._attempt(
            "meet", name, lambda: made.wait(timeout=timeout), timeout=timeout
        )
        if error == "BrokenBarrierError":
            await self._attempt("reset", name, made.reset)

    async def _condition(self, name: str) -> None:
        """Hold the lock; notify, or wait for a notification; release."""
        chance, made = self._random, self._object(name)
        how = {"timeout": chance.choice((1.0, 5.0)), "lease": None}
        await self._attempt("acquire", name, lambda: made.acquire(**how), **how)
        # A strike may come after the lock was entered.
        hold = made.hold
        if hold is None:
            return
        ident = self._watch(hold, name, None)
        await self._hold_on(ident, hold, 0)
        if chance.random() < 0.5:
            count = chance.choice((1, 1, 1, 2, -1))
            call = made.notify_all if count < 0 else partial(made.notify, count)
            await self._attempt("cond-notify", name, call, h=ident, count=count)
            await self._hold_on(ident, hold, 0)
        else:
            patience = chance.choice((0.5, 2.0, 5.0))
            # The lock is waited for as long as it takes, so this is no timeout of the whole.
            _, error = await self._attempt(
                "cond-wait", name, lambda: made.wait(patience), h=ident, patience=patience
            )
            hold = made.hold
            self._note.note("waited", w=self.name, o=name, held=hold is not None, error=error)
            if hold is None:
                return
            ident = self._watch(hold, name, None)
            await self._hold_on(ident, hold, chance.choice((0, 0.02)))
        await self._release(ident, name, made, hold)

    async def _leader(self, name: str) -> int:
        """Return the token of the leader, 0 if it is not announced yet, -1 for nobody."""
        leader = await settled(self._object(name).leader())
        return -1 if leader is None else leader.token or 0

    async def _fleeting(self, name: str) -> None:
        """Acquire with a client of its own, and close that without a release."""
        client = self._worker.connect(0)
        lock = client.lock(OBJECTS[name].name)
        how = {"timeout": 1.0, "lease": None}
        got, _ = await self._attempt("acquire", name, lambda: lock.acquire(**how), **how)
        ident, hold = "", lock.hold
        if got and hold is not None:
            ident = self._watch(hold, name, None)
            await self._hold_on(ident, hold, 0.1)
        await self._attempt("close", name, client.close, h=ident, client=client.client_id)


class Worker:
    """The process: a client for each server, and lanes that use the objects until it is time."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.seed, self.until = config["seed"], 0.0
        self.objects: list[str] = config["objects"]
        self.manners: list[str] = config["manners"]
        self.strikes: dict[str, int] = {}  # how often a signal has cancelled each lane
        self.calm = config["lanes"] == 1
        self._config = config
        self._threaded = config["face"] == "sync"
        face = {"sync": "interlock", "asyncio": "interlock.asyncio"}[config["face"]]
        self._face = importlib.import_module(face)
        self.sleep: Callable[[float], Any] = time.sleep if self._threaded else asyncio.sleep
        self.clients = [self.connect(number) for number in range(len(config["urls"]))]
        # Its file tells the lab that this process is ready.
        self.recorder = Recorder(Path(config["history"]), config["name"])
        self._lanes = [Lane(self, f"lane{number}") for number in range(config["lanes"])]

    def connect(self, number: int) -> Any:
        """Return a new client of server *number*."""
        return self._face.connect(self._config["urls"][number], **self._config["options"])

    def run(self) -> None:
        """Run all lanes to their end, and close."""
        until = Path(self._config["until"])
        while not until.exists():
            time.sleep(0.01)
        self.until = float(until.read_text())
        self.recorder.note("start", pid=os.getpid(), clients=[c.client_id for c in self.clients])
        threading.Thread(target=self._heartbeat, daemon=True).start()
        if self._threaded:
            self._run_threads()
        else:
            asyncio.run(self._run_tasks())
        self.recorder.note("end")

    def _run_threads(self) -> None:
        main, *others = self._lanes

        def strike(_number: int, _frame: object) -> None:
            if main.armed:
                main.armed = False
                self.recorder.note("struck")
                raise Struck

        signal.signal(signal.SIGUSR1, strike)
        threads = [threading.Thread(target=drive, args=(lane.run(),)) for lane in others]
        for thread in threads:
            thread.start()
        drive(main.run())
        for thread in threads:
            thread.join()
        drive(self._close())

    async def _run_tasks(self) -> None:
        tasks = {lane: asyncio.create_task(lane.run()) for lane in self._lanes}
        chance = random.Random(f"{self.seed} strikes")

        def strike() -> None:
            armed = [lane for lane in self._lanes if lane.armed and not tasks[lane].done()]
            if armed:
                lane = chance.choice(armed)
                self.strikes[lane.name] = 1
                self.recorder.note("struck")
                tasks[lane].cancel()

        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, strike)
        pulse = asyncio.create_task(self._pulse())
        await asyncio.gather(*tasks.values())
        await self._close()
        pulse.cancel()

    async def _close(self) -> None:
        for client in self.clients:
            number = self.recorder.call("main", "close", client=client.client_id)
            try:
                await settled(client.close())
            except Exception as error:  # noqa: BLE001 - the checker judges it
                self.recorder.ret(number, error=type(error).__name__, text=str(error)[:300])
            else:
                self.recorder.ret(number, value=None)

    def _heartbeat(self) -> None:
        """Note when the process stood still: stopped, or without a processor."""
        while True:
            began = time.monotonic()
            time.sleep(0.1)
            if (now := time.monotonic()) > began + 0.1 + _STALL:
                self.recorder.note("stall", t=began, end=now)

    async def _pulse(self) -> None:
        """Note when the event loop stood still."""
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.1)
            if (now := time.monotonic()) > began + 0.1 + _STALL:
                self.recorder.note("stall", t=began, end=now)


async def settled(result: Any) -> Any:
    """Return *result*, awaited if that is needed."""
    return await result if inspect.isawaitable(result) else result


def drive(program: Coroutine[Any, Any, None]) -> None:
    """Run *program* in this thread; with the face for threads it never suspends."""
    try:
        program.send(None)
    except StopIteration:
        return
    raise RuntimeError("the face for threads suspended")


def main() -> None:
    """Run as the first argument says."""
    # The lab may be killed: nobody survives it, not even a process that is stopped.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    config = json.loads(sys.argv[1])
    if os.getppid() != config["lab"]:
        sys.exit("the lab ended before its worker began")
    Worker(config).run()


if __name__ == "__main__":
    main()
