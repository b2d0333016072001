"""A simulated thread or task: a generator of effects, and the driver of its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.core.simulator.schedule import Interrupted, delay_request
from tests.core.simulator.timeline import IDLE, Idle

from interlock._core.locks.release import held_by, hold_of
from interlock._core.model.effects import NEVER, Listen, Wait
from interlock._core.model.hold import Owner
from interlock._core.objects.condition import Notify, WaitFor
from interlock.errors import InterlockError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from random import Random

    from tests.core.simulator.client import Client
    from tests.core.simulator.network import Exchange
    from tests.core.simulator.schedule import Fault

    from interlock._core.locks.base import Lock
    from interlock._core.model.effects import Effect, Op, Step
    from interlock._core.model.hold import Hold
    from interlock._core.objects.condition import Condition

    Program = Callable[["Process"], Generator[Any, Any, object]]

GRACE = 0.15
"""Seconds that a reply has at least, as in the drivers."""
WAKING_TAKES = 0.0002
"""Seconds, at most, from a ring of a bell until its waiter runs."""
READ_FIRST = 0.5
"""How often a reply is read by somebody else before its task runs: see `Step.heard`."""


class Process:
    """An owner of locks, with a *program*.

    Attributes:
        acting: whether a call is under way.
        ended: whether the program is over.
        error: what ended it.
        effects: how many it has asked for.
    """

    def __init__(self, client: Client, program: Program, name: str) -> None:
        self.client, self.name = client, name
        self.owner = Owner(f"process {name!r}", lambda: self.ended)
        self.acting = self.ended = False
        self.error: BaseException | None = None
        self._running = program(self)
        self._turn = self.effects = 0
        self._exchange: Exchange | None = None
        client.after(0, lambda: self._go(None, None))

    @property
    def random(self) -> Random:
        return self.client.random

    # What its program may do: ``yield from`` each of these.

    def acquire(
        self, lock: Lock, timeout: float | None = None, lease: float | None = None
    ) -> Op[Hold | None]:
        until = self.until(timeout)
        step = lock.acquiring().of(lock, self.owner, until, lease)
        hold: Hold | None = yield from self.perform(step, until)
        return hold

    def release(self, lock: Lock) -> Op[None]:
        yield from self.perform(held_by(lock, self.owner).release())

    def extend(self, lock: Lock, lease: float) -> Op[None]:
        yield from self.perform(held_by(lock, self.owner).extend(lease))

    def until(self, timeout: float | None) -> float:
        """Return the end of *timeout* seconds from now, by its client's clock."""
        return NEVER if timeout is None else self.client.clock() + timeout

    def perform(self, step: Step[Any], until: float = NEVER) -> Op[Any]:
        """Perform *step*, which is to end by the time *until*, as drivers and faces do."""
        client, began, self.acting = self.client, self.client.now, True
        try:
            try:
                result = yield from self._carry(step)
            except Interrupted:
                if isinstance(step, WaitFor):
                    yield from step.undo()
                raise
        except BaseException:
            step.give_up()
            raise
        finally:
            self.acting = False
        if not client.paused_since(began):
            client.world.judge.late(self.name, client.clock() - until)
        return result

    def wait_for(self, condition: Condition, timeout: float) -> Op[bool]:
        step = WaitFor(condition, self.owner, self.until(timeout))
        notified: bool = yield from self.perform(step)
        self.client.world.judge.woken += notified
        return notified

    def notify(self, condition: Condition, count: int) -> Op[None]:
        yield from self.perform(Notify(condition, self.owner, count))

    def sleep(self, seconds: float) -> Op[None]:
        yield from Wait(None, self.client.clock() + seconds)

    def holds(self, lock: Lock) -> bool:
        return hold_of(lock, self.owner) is not None

    def _carry(self, step: Step[Any]) -> Op[Any]:
        call, failure = step.begin(), None
        if call is not None:
            try:
                reply = yield call
            except InterlockError as error:
                failure = error
            else:
                if step.heard is not None and self.random.random() < READ_FIRST:
                    step.heard(reply)
                if step.done(call.script.decode(reply)):
                    return step.result
        return (yield from step.rest(failure))

    # How it runs.

    def kill(self) -> None:
        """End it, as if its generator were dropped: a face gives up then."""
        self._stop_waiting()
        self.ended = True
        self._running.close()
        self.client.owner_ended(self)

    def _stop_waiting(self) -> None:
        self._turn += 1
        if self._exchange is not None:
            self._exchange.abandoned = True

    def _go(self, reply: Any, error: BaseException | None) -> None:
        """Run on until something takes time."""
        if self.ended:
            return
        self._stop_waiting()
        going = True
        while going and not self.ended:
            try:
                send, throw = self._running.send, self._running.throw
                effect = send(reply) if error is None else throw(error)
            except (StopIteration, InterlockError, Interrupted) as end:
                self.error = None if isinstance(end, StopIteration) else end
                self.client.note(self.name, f"ends: {self.error!r}")
                self.ended = True
                self.client.owner_ended(self)
                return
            except Exception as wrong:
                wrong.add_note(self.client.world.story())
                raise
            reply = error = None
            going, error = self._meet(effect)

    def _meet(self, effect: Effect) -> tuple[bool, BaseException | None]:
        """Begin *effect*; return whether it is over at once, and what is raised then."""
        fault = self.client.world.fault_at(self.name, self.effects)
        self.effects += 1
        if fault is not None:
            self.client.note(self.name, f"{fault.kind} {fault.when} at {type(effect).__name__}")
        kind = "" if fault is None else fault.kind
        if fault is None or kind not in ("raise", "abandon"):
            return self._begin(effect, fault, self._go), None
        error = fault.error() if kind == "raise" else None
        if isinstance(effect, Listen) or (
            isinstance(effect, Wait) and isinstance(error, Exception)
        ):
            return self._begin(effect, None, self._go), None  # nothing waits there; no server fails
        if fault.when == "before":
            return self._strike(error)
        if isinstance(effect, Wait):
            self._begin(effect, None, self._go)
            self._later(fault.seconds, lambda: self._strike_now(error))
        elif fault.when == "after":
            self._begin(effect, None, lambda _reply, _error: self._strike_now(error))
        else:
            self._begin(effect, delay_request(fault.seconds), self._go)
            return self._strike(error)
        return False, None

    def _strike(self, error: BaseException | None) -> tuple[bool, BaseException | None]:
        self._stop_waiting()
        if error is None:
            self.client.after(0, self.kill)  # not from within its own generator
            return False, None
        return True, error

    def _strike_now(self, error: BaseException | None) -> None:
        if error is None:
            self.kill()
        else:
            self._go(None, error)

    def _begin(
        self, effect: Effect, fault: Fault | None, go: Callable[[Any, BaseException | None], None]
    ) -> bool:
        """Begin *effect*, whose outcome is passed to *go*; return whether it is over at once."""
        if isinstance(effect, Listen):
            self.client.subscriber.hear(effect.line)
            return True
        if isinstance(effect, Wait):
            self._wait(effect)
            return False
        call: Any = effect
        left = max(call.deadline - self.client.clock(), GRACE)
        timeout = min(self.client.session.patience, left)

        def answer(outcome: Any) -> None:
            reply = outcome[0] if isinstance(outcome, list) else outcome
            if isinstance(reply, Exception):
                self._later(0, lambda: go(None, reply))
            else:
                self._later(0, lambda: go(reply, None))

        self._exchange = self.client.network.exchange([call], timeout, answer, self.name, fault)
        return False

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        """Do *action* in *seconds*, unless something else has happened to it meanwhile."""
        turn = self._turn

        def act() -> Idle | None:
            if turn != self._turn:
                return IDLE
            action()
            return None

        self.client.after(seconds, act)

    def _wait(self, effect: Wait) -> None:
        client, place, turn = self.client, effect.place, self._turn

        def wake() -> Idle | None:
            if turn != self._turn:
                return IDLE
            self._go(None, None)
            return None

        def ring() -> None:
            client.after(client.random.random() * WAKING_TAKES, wake)

        if effect.until != NEVER:
            client.at(client.clock.when(effect.until), wake)
        if place is not None:
            place.bell = ring
            if place.told is not None:
                ring()
