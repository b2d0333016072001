"""The closed alphabet of what an operation may ask of the world.

An operation is a generator. It yields effects, a driver performs them (with threads, asyncio or
trio, or in the simulator) and sends the outcome back. Nothing else in the core does any I/O,
so a lock's algorithm is written once, read in one piece, and can be interrupted by a test at
every single point where it touches the world.

Rules for operations:

* ``reply = yield from effect`` - each effect yields itself and decodes its reply, so types are
  inferred.
* Time is read from the session's clock, which the driver supplies.
* *Interrupted*: the driver throws what happened (lost connection, Ctrl-C, cancellation) at the
  ``yield`` and still performs the clean-up that the operation then asks for. *Abandoned*
  (`GeneratorExit`): nobody is left, nothing may be yielded.
* Do not yield in an ``except`` or ``finally``: an abandoned generator must not. Use `undoing`,
  which lets GeneratorExit pass. `LockBase.go_on` contains the same code, to save memory.
* State first and synchronously, I/O after and interruptible.
* A hot operation is a `Step`: an object with one first command, which usually completes it.
  Drivers perform that without a generator. Between two system calls caches are cold, so an
  acquire costs as much as the code that it runs.

Rejected: ``async def`` cores (a stray ``await asyncio.sleep()`` passes every type checker, and an
opaque await cannot be seen or interrupted), hand-written state machines (four times the lines),
two copies (they drift).

Prior art: psycopg 3's ``generators.py``, h11 and websockets (sans-I/O).
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Protocol,
    TypeAlias,
    TypeVar,
    TypeVarTuple,
    Unpack,
    cast,
)

if TYPE_CHECKING:
    from interlock._core.replication import Replication
    from interlock._core.waiter import Waiter

R = TypeVar("R")
A = TypeVarTuple("A")
R_co = TypeVar("R_co", covariant=True)

NEVER = float("inf")
"""A deadline that does not come."""


class Script(Generic[R_co]):
    """A Lua text, its digest, and how to read its reply.

    Attributes:
        name: the stem that the ``.lua`` file, the constructor in `scripts` and error messages
            share.
        text: what EVAL takes.
        sha: what EVALSHA takes.
        decode: turns the reply into core units (seconds, bool, str).
        varies: whether each call has other arguments, so that packing it is not worth remembering.
    """

    __slots__ = ("decode", "name", "sha", "text", "varies")

    def __init__(
        self, name: str, text: str, decode: Callable[[object], R_co], *, varies: bool = False
    ) -> None:
        self.varies = varies
        self.name = name
        self.text = text
        self.sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
        self.decode = decode

    def __repr__(self) -> str:
        return f"<Script {self.name}>"


@dataclass(slots=True)
class Eval(Generic[R_co]):
    """Run *script* atomically on the server that owns *keys*.

    Attributes:
        deadline: on the session's clock. A driver waits for the reply until then, and for
            `GRACE` at least. The command time-out counts, too.
        replication: what replicas must have of it, if they are asked; that takes its own time on
            top.
        unknown: how often it was sent without a reply being read: each may have been executed, or
            be executed yet.
        packed: the command as it is sent, once somebody has made it.
        then: called with the undecoded reply before the caller resumes, by drivers that can. It
            is not called if the caller has gone. It must not raise.
        queued: how many of the last arguments are about the queue of waiters. The script does not
            declare its key. While a slot moves, the lock may be on one node and the queue on the
            other. Then these arguments are left out, so that there are never two queues.

    Raises:
        ServerUnavailableError: no usable answer; its ``sent`` tells whether the script may have
            run.
        WrongTypeError: a key is something else's.
        ReplicationError: too few replicas have what it granted.
    """

    script: Script[R_co]
    keys: tuple[str, ...]
    args: tuple[str | int, ...]
    deadline: float = NEVER
    unknown: int = 0
    replication: Replication | None = None
    packed: bytes | None = None
    then: Callable[[object], None] | None = None
    queued: int = 0

    def anew(self) -> Eval[R_co]:
        """Return the same call as it was before it was sent."""
        return Eval(
            self.script,
            self.keys,
            self.args,
            self.deadline,
            replication=self.replication,
            packed=self.packed,
            queued=self.queued,
        )

    def __iter__(self) -> Generator[Effect, object, R_co]:
        return self.script.decode((yield self))


def _decoded(call: Eval[R], reply: object) -> R | Exception:
    """Return what *call* came to; a reply that cannot be read is the error of that one alone."""
    if isinstance(reply, Exception):
        return reply
    try:
        return call.script.decode(reply)
    except Exception as error:  # noqa: BLE001 - whoever asked for several hears of each one
        return error


@dataclass(slots=True)
class Batch(Generic[R_co]):
    """Run all *evals* in one write per server, and hear of each one: its result, or its error."""

    evals: tuple[Eval[R_co], ...]

    def __iter__(self) -> Generator[Effect, object, list[R_co | Exception]]:
        replies = cast("list[object]", (yield self))
        return [_decoded(call, reply) for call, reply in zip(self.evals, replies, strict=True)]


class Client(Protocol):
    """A client that effects are for: its `Session`, as the drivers see it."""

    @property
    def home(self) -> object:
        """Return what leads to the client's driver."""
        ...

    @property
    def clock(self) -> Callable[[], float]:
        """Return the clock of its deadlines."""
        ...


@dataclass(slots=True)
class Gather(Generic[R_co]):
    """Send each call to the server of its own client, all before any reply is read.

    Hear of each one: its result, or its error.
    """

    calls: tuple[tuple[Client, Eval[R_co]], ...]

    def __iter__(self) -> Generator[Effect, object, list[R_co | Exception]]:
        replies = cast("list[object]", (yield self))
        return [_decoded(call, reply) for (_, call), reply in zip(self.calls, replies, strict=True)]


@dataclass(slots=True)
class RunOn(Generic[R_co]):
    """Run *op* for another client, the one of *session*."""

    session: Client
    op: Op[R_co]

    def __iter__(self) -> Generator[Effect, object, R_co]:
        result: Any = yield self
        return result  # type: ignore[no-any-return]


@dataclass(slots=True)
class Enqueue:
    """Queue up locally for *channel* and have it subscribed to.

    A wake-up tells when that is confirmed.

    The driver takes the waiter back when the operation ends, however it ends.
    """

    channel: str

    def __iter__(self) -> Generator[Effect, object, Waiter]:
        return cast("Waiter", (yield self))


@dataclass(slots=True)
class Wait:
    """Wait for a wake-up of *waiter* (None: just sleep), at the longest until *until*."""

    waiter: Waiter | None
    until: float

    def __iter__(self) -> Generator[Effect, object, None]:
        yield self


@dataclass(slots=True)
class Cleanup(Generic[R_co]):
    """Have the background send *call* until a reply is read or *until* passes; do not wait for it.

    For what must still reach the server when the caller's time is up.

    Attributes:
        call: the script.
        until: when there is no more use in it.
        late: how many late grants it must find. It is sent again until it has found them, or
            *until* passes.
    """

    call: Eval[R_co]
    until: float
    late: int = 0

    def __iter__(self) -> Generator[Effect, object, None]:
        yield self


Effect: TypeAlias = "Eval[object] | Batch[object] | Gather[object] | RunOn[object] | Enqueue | Wait | Cleanup[object]"
Op: TypeAlias = Generator[Effect, object, R]


class Step(Generic[R_co]):
    """An operation that its first command usually completes.

    A driver sends what `begin` returns and shows the decoded answer to `done`. If that says True,
    it returns `result`. In all other cases, an exception at any point included, it runs `rest`.
    Iterating over a step does just that, with generators: it is what an operation does that
    consists of steps, and what the simulator does.
    """

    __slots__ = ()

    result: R_co

    def begin(self) -> Eval[Any] | None:
        """Note what must be known before anything is sent.

        Return the first command, None if there is more to it.
        """
        return None

    def done(self, answer: Any) -> bool:
        """Take the answer to the first command.

        Return whether `result` is what the operation comes to.
        """
        raise NotImplementedError

    def rest(self, failure: BaseException | None) -> Op[R_co]:
        """Return the operation that goes on after `begin` or `done`, or cleans up after *failure*.

        A Ctrl-C may strike in it, too. Then a driver asks for it again, unless `over` says True.
        """
        raise NotImplementedError

    def over(self) -> bool:
        """Return whether there is nothing left to clear up."""
        raise NotImplementedError

    def __iter__(self) -> Op[R_co]:
        failure: BaseException | None = None
        try:
            call = self.begin()
            if call is not None and self.done(call.script.decode((yield call))):
                return self.result
            call = None
        except GeneratorExit:
            self.abandon()
            raise
        except BaseException as error:  # noqa: BLE001 - it is raised again where it can be undone
            failure = error
        try:
            return (yield from self.rest(failure))
        except (Exception, GeneratorExit):
            raise
        except BaseException as error:
            if self.over():
                raise
            failure = error
        return (yield from self.rest(failure))

    def abandon(self) -> None:
        """Note that nobody is left to perform the rest."""


class Whole(Step[R]):
    """A step without a first command of its own: all of it is *op*.

    *op* undoes what it did if it is interrupted. A Ctrl-C may strike in this, or after it, when
    the caller does not have the result yet. Then *undo* does what is left.

    Args:
        op: the operation.
        over: tells whether nothing is left that the caller does not know of.
        undo: returns the operation that sees to the rest; it may be begun any number of times.
        carried_through: whether *op* is performed even if a Ctrl-C strikes before it begins.
    """

    __slots__ = ("_carried_through", "_op", "_over", "_undo")

    def __init__(
        self,
        op: Op[R],
        over: Callable[[], bool],
        undo: Callable[[BaseException], Op[object]],
        *,
        carried_through: bool = False,
    ) -> None:
        self._op = op
        self._over = over
        self._undo = undo
        self._carried_through = carried_through

    def rest(self, failure: BaseException | None) -> Op[R]:
        """Return the operation, or what is left to do after *failure*."""
        if failure is None:
            return self._op
        if self._begun():
            return failing(failure, self._undo(failure))
        through = self._carried_through and not isinstance(failure, Exception)
        return failing(failure, self._op if through else None)

    def over(self) -> bool:
        """Return whether nothing is left to undo or to carry through."""
        return self._over() if self._begun() else not self._carried_through

    def _begun(self) -> bool:
        return inspect.getgeneratorstate(self._op) != inspect.GEN_CREATED


def failing(failure: BaseException | None, op: Op[object] | None = None) -> Op[Any]:
    """Return the operation that raises *failure* after *op*; a Ctrl-C hides an error of *op*."""
    assert failure is not None
    try:
        try:
            if op is not None:
                yield from op
        except Exception:
            if isinstance(failure, Exception):
                raise
        raise failure
    finally:
        del (
            failure
        )  # the error knows this frame: together they would wait for the garbage collector


def ended(op: Op[object]) -> bool:
    """Return whether *op* has returned or raised, so that nothing can be thrown into it any more."""
    return inspect.getgeneratorstate(op) == inspect.GEN_CLOSED


def undoing(op: Op[R], undo: Callable[[Unpack[A], BaseException], Op[None]], *args: *A) -> Op[R]:
    """Run *op*.

    If it ends by an exception, run *undo* of *args* and it before that goes on to the caller.

    An abandoned operation (`GeneratorExit`) is not undone: nobody is left to perform anything.
    """
    try:
        return (yield from op)
    except GeneratorExit:
        raise
    except BaseException as error:
        yield from undo(*args, error)
        raise
