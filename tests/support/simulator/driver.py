"""A driver for the asyncio face: coroutines that run in the simulator, interleaved by its seed.

So the simulator plays what users write, blocks and decorators included, and not operations alone.
It makes operations of its own, which the simulator performs: an example for no other driver.
"""

from __future__ import annotations

import types
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Unpack, cast

import interlock.asyncio
from interlock._core.locks.lock_base import Acquire
from interlock._core.model.effects import A, Op, R, Step, Wait
from interlock._drivers import tasks
from interlock._drivers.background.event_delivery import Observers
from interlock._drivers.process.lifecycle import Ending
from interlock._drivers.process.unclaimed import Unclaimed
from interlock.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator

    from interlock._core.model.holds import AnyHold, Owner
    from interlock._drivers.protocol import AwaitedDriver, Event
    from tests.support.simulator.client import Process, SimulatedClient

_running: list[Process] = []
"""The process whose coroutine runs now."""


class _Processes:
    """The processes of the simulator, as a library of tasks."""

    def current(self) -> Owner | None:
        return _running[-1].owner if _running else None

    def coroutine(self) -> None:
        """Return None: a process has others call for it."""


tasks.elsewhere.append(_Processes())


@types.coroutine
def _performed(op: Op[R]) -> Generator[Op[R], Any, R]:
    result: R = yield op
    return result


def _program(main: Coroutine[Any, Any, object], process: Process) -> Generator[Op[Any], Any, Any]:
    """Return *main* as a program: the operations that it awaits."""
    reply: object = None
    failure: BaseException | None = None
    while True:
        _running.append(process)
        try:
            op = main.send(reply) if failure is None else main.throw(failure)
        except StopIteration as stop:
            return stop.value
        finally:
            _ = _running.pop()
            reply = failure = None  # a frame and its error would keep each other, and holds, alive
        try:
            reply = yield op
        except GeneratorExit:
            with suppress(BaseException):
                while True:  # nobody is left to do what it still asks for
                    main.throw(_Gone())
            raise
        except BaseException as error:
            failure = error


class _Gone(BaseException):
    """The process is gone. GeneratorExit would not do: an inner coroutine could not ignore it."""


class SimulatedDriver:
    """Performs the operations of one client, in whatever process awaits them."""

    closed = False

    def __init__(self, client: SimulatedClient) -> None:
        self._client = client
        self.session = client.session
        self.observers = Observers(self.session)
        self.unclaimed = Unclaimed(tasks.current_owner)
        self.ending = Ending()

    async def perform(self, step: Step[R]) -> R:
        """Perform *step*; note what it acquires, so that the invariants look at it."""
        op = iter(step)
        if isinstance(step, Acquire):
            self._client.note_use(step.lock, step.lease)
        return await _performed(op)

    async def run(self, op: Op[R]) -> R:
        """Perform *op* and return its result."""
        return await _performed(op)

    async def undo(self, step: Step[R], error: BaseException) -> R:
        """Perform the rest of *step*; then raise *error*."""
        try:
            if step.over() or isinstance(error, GeneratorExit):
                raise error
            return await _performed(step.rest(error))
        finally:
            del error  # it refers to this frame

    async def aside(self, function: Callable[[Unpack[A]], R], *args: *A) -> R:
        """Call *function*: nothing takes time here."""
        return function(*args)

    async def close(self) -> None:
        """Do nothing: a simulated client ends by a crash, or when all is at rest."""

    def on_lost(self, hold: AnyHold, callback: Callable[[], object]) -> None:
        """Call *callback* when *hold* is lost, or at once if it is."""
        if not hold.listen(callback):
            _ = callback()

    def cancelled_by_loss(self, error: BaseException | None, hold: AnyHold | None) -> bool:
        del error, hold
        return False

    def cancel_on_lost(self, hold: AnyHold) -> None:
        raise ConfigError(f"nothing cancels a process for {hold.name!r}")

    def new_event(self) -> tuple[Event, Callable[[], None]]:
        raise NotImplementedError("a program looks at hold.lost when it runs")

    def start(self, run: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], Awaitable[None]]:
        raise NotImplementedError("nothing is observed in a simulation")


class Client(interlock.asyncio.Client):
    """The asyncio face over a simulated client."""

    def __init__(self, simulated: SimulatedClient) -> None:
        self.simulated = simulated
        super().__init__(cast("Any", simulated.network), simulated.session.options)

    def _new_driver(self, *_: object) -> AwaitedDriver:
        return SimulatedDriver(self.simulated)

    def spawn(self, main: Callable[[], Coroutine[Any, Any, object]], name: str = "") -> Process:
        """Start *main* as a process of this client."""
        return self.simulated.spawn(lambda process: _program(main(), process), name or None)

    async def pass_time(self, seconds: float) -> None:
        """Do nothing for *seconds*, in virtual time."""
        await _performed(iter(Wait(None, self.simulated.clock() + seconds)))
