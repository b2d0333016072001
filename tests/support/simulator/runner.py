"""How a simulated process runs: effect by effect, as the drivers for threads and asyncio do it.

Replies are sent into the operation, and errors are thrown into it. The clean-up that it then asks
for is performed. Its waiters are taken back at its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar, cast

from interlock._core.model.effects import (
    LATE,
    NEVER,
    Batch,
    Cleanup,
    Effect,
    Enqueue,
    Eval,
    Gather,
    Op,
    Post,
    RunOn,
    Step,
    Wait,
)
from interlock._core.upkeep.session import GRACE
from interlock.errors import InterlockError, ServerUnavailableError
from tests.support.simulator.schedule import Interrupted, delay_request
from tests.support.simulator.timeline import IDLE, Idle

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from random import Random

    from interlock._core.model.effects import Client
    from interlock._core.queue.waiter import Waiter
    from interlock._core.upkeep.session import Session
    from tests.support.simulator.network import Exchange
    from tests.support.simulator.schedule import Fault
    from tests.support.simulator.timeline import Action, Clock

WAKING_TAKES = 0.0002
"""Seconds, at most, from a wake-up to the woken thread's running."""

Outcome: TypeAlias = tuple[object, BaseException | None]
"""What an effect or an operation came to: a result, or what is to be raised."""

_SENT = (Eval, Batch, Gather)
"""Effects that are sent to a server; a union would be built anew in each test."""
_NOW: Outcome = (None, None)
"""The outcome of an effect that is performed at once and has no reply."""


UNCONNECTED = 0.1
"""The chance that there is no connection for a command that nobody waits for."""
READ_BEFORE = 0.5
"""The chance that a reply was read when an interruption comes between it and its waiter."""


class Host(Protocol):
    """A simulated client, as its runners see it; `SimulatedClient` has the documentation."""

    clock: Clock
    random: Random
    session: Session

    def at(self, when: float, action: Action) -> None: ...
    def after(self, seconds: float, action: Action) -> None: ...
    def note(self, who: str, what: str) -> None: ...
    def blur(self, keys: Sequence[str]) -> None: ...
    def clean_up(self, effect: Cleanup[object]) -> None: ...
    def ended(self, runner: Runner[Any]) -> None: ...
    def check_bound(self, runner: Runner[Any], began: float, due_by: float) -> None: ...
    def fault_at(self, runner: Runner[Any], number: int) -> Fault | None: ...
    def patience(self, runner: Runner[Any]) -> float: ...
    def exchange(
        self,
        calls: Sequence[Eval[object]],
        timeout: float,
        answer: Callable[[list[object] | ServerUnavailableError], None],
        who: str,
        fault: Fault | None,
    ) -> Exchange: ...


H = TypeVar("H", bound=Host)


@dataclass(slots=True)
class Frame:
    """An operation under way.

    Attributes:
        op: the operation.
        client: the client that it is performed for.
        failed: whether something was raised in it, so that it is cleaning up.
        interrupted: whether that was a Ctrl-C or a cancellation.
        waiting: what to take back at its end.
    """

    op: Op[Any]
    client: Host
    failed: bool = False
    interrupted: bool = False
    waiting: Sequence[Waiter] = ()


def home(session: Client) -> Host:
    """Return the client that *session* belongs to."""
    return cast("Host", session.home())


def addressed(
    effect: Eval[object] | Batch[object] | Gather, client: Host
) -> list[tuple[Host, Sequence[Eval[object]]]]:
    """Return which client sends which scripts in one write, for an *effect* of *client*."""
    if isinstance(effect, Eval):
        return [(client, (effect,))]
    if isinstance(effect, Batch):
        return [(client, effect.evals)]
    return [(home(session), (call,)) for session, call in effect.calls]


def tell(effect: Eval[object] | Batch[object] | Gather, replies: Sequence[object]) -> None:
    """Tell of *replies* who wants to know of them first."""
    if isinstance(effect, Eval) and effect.then is not None:
        effect.then(replies[0])


def close(running: Generator[Any, Any, Any]) -> None:
    """Close a generator, whatever its ``finally`` still asks for: there is nobody left to do it."""
    while True:
        try:
            running.close()
        except RuntimeError:
            continue  # it yielded again
        except BaseException:
            return
        else:
            return


class Runner(Generic[H]):
    """Runs a program: a generator of operations, which are generators of effects.

    Attributes:
        name: what it is called.
        client: what it runs in.
        effects: the effects that its operations have had so far.
        ended: whether the program has returned, raised or been killed.
        negligent: whether its client may have forgotten what it did: it was killed alone, or
            interrupted again while it cleaned up.
        result: what the program returned.
        error: what it raised.
    """

    def __init__(self, client: H, name: str, *, quiet: bool = False) -> None:
        self.name = name
        self.client = client
        self._quiet = quiet
        self.effects: list[Effect] = []
        self.ended = self.negligent = False
        self.result: object = None
        self.error: BaseException | None = None
        self._program: Generator[Op[Any], Any, object] | None = None
        self._frames: list[Frame] = []
        self._doing: Op[Any] | Step[Any] | None = None
        self._began, self._due_by = 0.0, NEVER
        self._turn = 0
        self._exchanges: list[Exchange] = []
        self._rung: dict[Waiter, bool] = {}
        self._awaited: Waiter | None = None

    def __repr__(self) -> str:
        return f"<Process {self.name}{' ended' if self.ended else ''}>"

    @property
    def asking(self) -> bool:
        """Whether it waits for a reply."""
        return bool(self._exchanges)

    def start(self, program: Generator[Op[Any], Any, object]) -> None:
        """Run *program*."""
        self._program = program
        self.client.after(0, lambda: self._go(None, None))

    def interrupt(self, error: BaseException | None = None) -> None:
        """Raise *error* (`Interrupted` unless given) in it, wherever it is.

        The requests that it has sent are on their way.
        """
        if not self.ended:
            self.client.note(self.name, "is interrupted")
            self._go(None, error or Interrupted())

    def abandon(self) -> None:
        """End it like a generator that is closed because nobody will run it on.

        The client lives and takes its waiters back.
        """
        self.negligent = True
        self.kill()
        while self._frames:
            self._leave()

    def kill(self) -> None:
        """End it without another word, as the end of its operating system process does."""
        if self.ended:
            return
        self._stop_waiting()
        self._end(None, None)
        for frame in reversed(self._frames):
            close(frame.op)
        if self._program is not None:
            close(self._program)

    def _go(self, reply: object, error: BaseException | None) -> None:
        """Run on until something takes time."""
        self._stop_waiting()
        outcome: Outcome | None = (reply, error)
        frames = self._frames
        while outcome is not None and not self.ended:
            reply, error = outcome
            frame = frames[-1] if frames else None
            active: Any = self._program if frame is None else frame.op
            if error is not None and frame is not None:
                frame.failed = True
            try:
                asked = active.send(reply) if error is None else active.throw(error)
            except StopIteration as stop:
                outcome = self._over(stop.value, None)
            except BaseException as raised:
                outcome = self._over(None, raised)
            else:
                outcome = self._begin(asked, self.client) if frame is None else self._meet(asked)
        del outcome, error  # a frame and its error would keep each other alive

    def _begin(self, op: Op[Any] | Step[Any], client: Host) -> Outcome:
        self._frames.append(Frame(iter(op), client))
        if len(self._frames) == 1:
            self._doing = op
        return _NOW

    def _over(self, result: object, error: BaseException | None) -> Outcome:
        """Go on after the end of the innermost operation, or of the program."""
        if not self._frames:
            self._end(result, error)
            return _NOW
        self._leave()
        if not self._frames:
            if not self._quiet:
                name = getattr(self._doing, "__name__", type(self._doing).__name__.lower())
                self.client.note(self.name, f"{name}: {error or result!r}")
            self.client.check_bound(self, self._began, self._due_by)
            self._due_by = NEVER
        return result, error

    def _end(self, result: object, error: BaseException | None) -> None:
        self.client.note(self.name, "ends" if error is None else f"ends by {error!r}")
        self.ended = True
        self.result, self.error = result, error
        self.client.ended(self)

    def _leave(self) -> None:
        """Take back the waiters of the innermost operation, which is over."""
        frame = self._frames.pop()
        for waiter in frame.waiting:
            frame.client.session.waiters.leave(waiter)
            del self._rung[waiter]

    def _stop_waiting(self) -> None:
        self._turn += 1
        self._awaited = None
        for exchange in self._exchanges:
            exchange.abandoned = True
        self._exchanges.clear()

    def _meet(self, effect: Effect) -> Outcome | None:
        """Perform *effect*, or what befalls it instead.

        Return the outcome, or None if it takes time.
        """
        if isinstance(effect, RunOn):
            return self._perform(effect, None)  # nothing can happen to it but to what it runs
        fault = self.client.fault_at(self, len(self.effects))
        self.effects.append(effect)
        if fault is None:
            return self._perform(effect, None)
        self.client.note(self.name, f"{fault.kind} {fault.when} at {type(effect).__name__}")
        if fault.kind == "raise":
            return self._fail(effect, fault, fault.error())
        if fault.kind != "abandon":
            return self._perform(effect, fault)
        if fault.when != "before":
            _ = self._perform(effect, None)
        self.abandon()
        return _NOW

    def _fail(self, effect: Effect, fault: Fault, error: BaseException) -> Outcome | None:
        """Raise *error* at *effect*, having performed it or not."""
        if isinstance(error, Exception) and not isinstance(effect, _SENT):
            return self._perform(effect, None)  # only the server fails like that
        frame = self._frames[-1]
        if isinstance(effect, Eval) and frame.failed:
            frame.client.blur(effect.keys)
        if not isinstance(error, Exception):
            self.negligent |= frame.interrupted
            frame.interrupted = True
        if fault.when == "after" and isinstance(effect, _SENT):
            self._send(effect, None, lambda replies: self._miss(effect, replies, error))
            return None
        if fault.when != "before":
            _ = self._perform(effect, delay_request(fault.seconds))
            self._stop_waiting()
        return None, error

    def _perform(self, effect: Effect, fault: Fault | None) -> Outcome | None:
        if isinstance(effect, _SENT):
            self._send(effect, fault, lambda replies: self._hear(effect, replies))
        elif isinstance(effect, Post):
            return self._post(effect, fault), None
        elif isinstance(effect, Wait):
            self._wait(effect)
        elif isinstance(effect, Enqueue):
            return self._join(effect), None
        elif isinstance(effect, Cleanup):
            self._frames[-1].client.clean_up(effect)
            return _NOW
        else:
            return self._begin(effect.op, home(effect.session))
        return None

    def _send(
        self,
        effect: Eval[object] | Batch[object] | Gather,
        fault: Fault | None,
        hear: Callable[[list[object]], None],
    ) -> None:
        """Send what *effect* asks for; have all replies heard together, with errors among them."""
        client, turn, began = self._frames[-1].client, self._turn, self.client.clock()
        groups = addressed(effect, client)
        answers: dict[int, list[object]] = {}
        decided = False

        def tell_all() -> Idle | None:
            late = [LATE]  # only a `Gather` of single calls ends before the last reply
            replies = [reply for n in range(len(groups)) for reply in answers.get(n, late)]
            if turn != self._turn:
                return IDLE
            hear(replies)
            return None

        def answer(number: int, outcome: list[object] | ServerUnavailableError) -> None:
            nonlocal decided
            size = len(groups[number][1])
            answers[number] = outcome if isinstance(outcome, list) else [outcome] * size
            if len(answers) == len(groups):
                self.client.after(0, tell_all)
            elif isinstance(effect, Gather) and effect.enough is not None and not decided:
                took = self.client.clock() - began
                more = effect.enough(number, answers[number][0], took)
                if more is not None:
                    decided = True
                    self.client.after(more, tell_all)

        unlucky = self.client.random.randrange(len(groups))
        for number, (where, calls) in enumerate(groups):
            timeout = where.patience(self)
            if isinstance(effect, Gather) and effect.seconds is not None:
                timeout = min(timeout, max(effect.seconds, GRACE))
            elif not isinstance(effect, Batch) and not calls[0].patient:
                timeout = min(timeout, max(calls[0].deadline - where.clock(), GRACE))
            mine = fault if number == unlucky else None
            exchange = where.exchange(calls, timeout, partial(answer, number), self.name, mine)
            self._exchanges.append(exchange)

    def _post(self, effect: Post[object], fault: Fault | None) -> bool:
        """Send the call of *effect*, unless there is no connection just then."""
        client = self._frames[-1].client
        if client.random.random() < UNCONNECTED:
            return False

        def answer(outcome: list[object] | ServerUnavailableError) -> None:
            # Not all drivers read it.
            if isinstance(outcome, list) and client.random.random() < READ_BEFORE:
                client.after(0, lambda: effect.heard(outcome[0]))

        name = f"{self.name}, which does not wait"
        _ = client.exchange([effect.call], client.patience(self), answer, name, fault)
        return True

    def _miss(
        self,
        effect: Eval[object] | Batch[object] | Gather,
        replies: list[object],
        error: BaseException,
    ) -> None:
        """Go on with *error* when the replies are there, be it that they were read just before."""
        if self.client.random.random() < READ_BEFORE:
            tell(effect, replies)
        self._go(None, error)

    def _hear(self, effect: Eval[object] | Batch[object] | Gather, replies: list[object]) -> None:
        tell(effect, replies)
        if not isinstance(effect, Eval):
            self._go(replies, None)
        elif isinstance(replies[0], InterlockError):
            self._go(None, replies[0])
        else:
            self._go(replies[0], None)

    def _wait(self, effect: Wait) -> None:
        client, turn = self._frames[-1].client, self._turn
        self._awaited = effect.waiter
        if effect.until != NEVER:
            client.at(client.clock.when(effect.until), lambda: self._wake(turn))
        if effect.waiter is not None and self._rung[effect.waiter]:
            client.after(0, lambda: self._wake(turn))

    def _join(self, effect: Enqueue) -> Waiter:
        bell: list[Waiter] = []
        frame = self._frames[-1]
        waiter = frame.client.session.waiters.join(effect.line, lambda: self.ring(bell[0]))
        bell.append(waiter)
        frame.waiting = (*frame.waiting, waiter)
        self._rung[waiter] = False
        return waiter

    def expect(self, waiter: Waiter) -> None:
        """Be ready to be rung for *waiter*, which stands in no queue."""
        self._rung[waiter] = False

    def ring(self, waiter: Waiter) -> None:
        """Wake the process if it waits for *waiter*, or when it will."""
        if waiter in self._rung:
            self._rung[waiter] = True
            if self._awaited is waiter:
                turn = self._turn
                self.client.after(
                    self.client.random.random() * WAKING_TAKES, lambda: self._wake(turn)
                )

    def _wake(self, turn: int) -> Idle | None:
        if turn != self._turn:
            return IDLE
        rung = False
        if self._awaited is not None:
            rung, self._rung[self._awaited] = self._rung[self._awaited], False
        self._go(rung, None)
        return None
