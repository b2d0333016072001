"""What an operation may ask of the outside world.

An operation is a generator that yields effects. A driver performs each one, and sends the outcome
back: a reply, or an `InterlockError` that is thrown at the ``yield``. Nothing else is ever thrown
into an operation. Whatever else ends a call (Ctrl-C, a cancellation, GeneratorExit) just ends the
generator. So an operation needs no clean-up of its own: `Step.give_up` does it, without I/O.

Most effects are calls of scripts (`Eval`), which `interlock._links` sends.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar, TypeVarTuple

from interlock.errors import InterlockError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock._core.locks.together import Enough
    from interlock._core.model.replication import Replication
    from interlock._core.queue.places import Line, Place
    from interlock._core.upkeep.session import Session

R = TypeVar("R")
A = TypeVarTuple("A")
R_co = TypeVar("R_co", covariant=True)

NEVER = float("inf")
"""A deadline that never comes."""
GRACE = 0.15
"""Seconds for one round trip if the caller's time is already up."""

LATE: Final = object()
"""What a `Gather` tells of a call whose reply nobody waited for."""


class Script(Generic[R_co]):
    """A Lua text, its digest, and how to read its reply.

    Attributes:
        name: the stem of its ``.lua`` file.
        decode: turns the reply into core units (seconds, bool, str).
        patient: whether it asks for a place, which may go with the next command.
    """

    __slots__ = ("decode", "name", "patient", "sha", "text")

    def __init__(self, name: str, text: str, decode: Callable[[object], R_co]) -> None:
        self.name, self.text, self.patient = name, text, False
        self.sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
        self.decode = decode

    def __repr__(self) -> str:
        return f"<Script {self.name}>"


@dataclass(slots=True)
class Eval(Generic[R_co]):
    """Run *script* atomically on the server that owns *keys*.

    Attributes:
        deadline: on the session's clock. A driver waits for the reply until then, and for
            `GRACE` at least, but no longer than the command time-out.
        replication: what replicas must acknowledge, if they are asked. That takes additional time.
        packed: the encoded command, once it has been made.
        spare_keys: how many of the last keys may be left out. One is the queue of waiters, which is
            often missing. While a slot moves, a server refuses a call with a missing key. It always
            refuses a key that the user has no right to. Then the call is sent again without them.
        spare_args: how many of the last arguments are left out with these keys. They are about the
            queue, or about the answer to this call, which the server remembers.

    Raises:
        ServerUnavailableError: no usable answer; its ``sent`` tells whether the script may have
            run.
        WrongTypeError: a key holds something else.
        ReplicationError: too few replicas have what it granted.
    """

    script: Script[R_co]
    keys: tuple[str, ...]
    args: tuple[str | int, ...]
    deadline: float = NEVER
    replication: Replication | None = None
    packed: bytes | None = None
    spare_args: int = 0
    spare_keys: int = 0

    def anew(self) -> Eval[R_co]:
        """Return an unsent copy of this call."""
        return replace(self)

    def __iter__(self) -> Generator[Any, Any, R_co]:
        return self.script.decode((yield self))


def decoded(calls: Sequence[Eval[Any]], replies: Sequence[Any]) -> list[Any]:
    """Return the outcome of each call: its decoded reply, or the error in its place."""
    outcomes = list[Any]()
    for call, reply in zip(calls, replies, strict=True):
        try:
            outcomes.append(reply if isinstance(reply, Exception) else call.script.decode(reply))
        except Exception as error:  # noqa: BLE001 - the other calls keep their outcomes
            outcomes.append(error)
    return outcomes


class Yielded:
    """An effect but `Eval`, whose outcome is as the driver sends it."""

    __slots__ = ()

    def __iter__(self) -> Generator[Any, Any, Any]:  # noqa: PYI058 - it returns the outcome
        return (yield self)


@dataclass(slots=True)
class Listen(Yielded):
    """Have *line* heard: once that is sure, its waiters look."""

    line: Line


@dataclass(slots=True)
class Wait(Yielded):
    """Wait until *place* is told something (None: just sleep), but no longer than *until*.

    The driver gives the place a bell. What was told before there was one ends the wait at once.
    """

    place: Place | None
    until: float


@dataclass(slots=True)
class Gather(Yielded):
    """Send each of *calls* for the client of its session, all before any reply is read.

    The outcome has an undecoded reply or an error for each. With *enough*, which judges the
    replies as they come, it has `LATE` for each call that others need not wait for.

    Attributes:
        seconds: for how long each reply is waited for; None: as its call says.
    """

    calls: Sequence[tuple[Session, Eval[Any]]]
    enough: Enough | None = None
    seconds: float | None = None


@dataclass(slots=True)
class RunOn(Yielded):
    """Run *op* for another client, the one of *session*; the outcome is its result."""

    session: Session
    op: Op[Any]


Effect: TypeAlias = "Eval[Any] | Listen | Wait | Gather | RunOn"
Op: TypeAlias = Generator[Effect, Any, R]


class Step(Generic[R]):
    """An operation that its first command usually completes.

    A driver sends the call that `begin` returns, and passes the decoded answer to `done`. If that
    returns True, the result is `result`. Otherwise, and if there was no call or no reply, the
    driver runs the generator `rest`. Whatever is raised, the driver calls `give_up`.

    It is made by `Acquire().of(...)`, and so is a hold. With ``__init__`` in place of `of` Python 3.11
    needs 3 % more instructions for a pair.
    """

    __slots__ = ("result",)
    result: R
    heard: Callable[[Any], None] | None = None
    """Takes the undecoded reply, if not None, where tasks share a connection: before `done`."""

    def begin(self) -> Eval[Any] | None:
        """Note what must be known before anything is sent; return the first command."""
        raise NotImplementedError

    def done(self, answer: Any) -> bool:
        """Take the answer; return whether the operation is complete."""
        raise NotImplementedError

    def rest(self, failure: Exception | None) -> Op[R]:
        """Go on after `done` returned False, or after *failure* in place of a reply."""
        raise NotImplementedError

    def give_up(self) -> None:
        """Leave nothing behind, now that the caller gets an exception; no I/O, and repeatable."""
        raise NotImplementedError


def performed(step: Step[R]) -> Op[R]:
    """Perform *step* as a driver does; return its result."""
    return (yield from begun(step, step.begin()))


def begun(step: Step[R], call: Eval[Any] | None) -> Op[R]:
    """Go on with *step*, which has begun with *call*; return its result."""
    failure: InterlockError | None = None
    if call is not None:
        try:
            answer = call.script.decode((yield call))
        except InterlockError as error:
            failure = error
        else:
            if step.done(answer):
                return step.result
    return (yield from step.rest(failure))


def run_on(session: Session, op: Op[R], home: Session) -> Op[R]:
    """Run *op* for the client of *session*; *home* is the caller's."""
    return op if session is home else iter(RunOn(session, op))
