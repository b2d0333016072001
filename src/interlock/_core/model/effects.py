"""The effects: everything that an operation may ask of the outside world.

An operation is a generator. It yields effects. A driver performs them (with threads, asyncio or
trio, or in the simulator) and sends the outcome back. Nothing else in the core does any I/O. So a
lock's algorithm is written once, and can be read in one piece. A test can interrupt it at every
single point where it touches the outside world.

Rules for operations:

* ``reply = yield from effect`` - each effect yields itself and decodes its reply, so types are
  inferred.
* Time is read from the session's clock, which the driver supplies.
* *Interrupted*: the driver throws the exception (lost connection, Ctrl-C, cancellation) at the
  ``yield``. It still performs the clean-up that the operation then asks for. *Abandoned*
  (`GeneratorExit`): no driver is left, so nothing may be yielded.
* Do not yield in an ``except`` or ``finally``: an abandoned generator must not yield. Use
  `undoing`, which lets GeneratorExit pass. `LockBase.go_on` contains the same code, to save memory.
* Change the state first, without a yield in between. I/O comes after that, and may be interrupted.
* A hot operation is a `Step`: an object with one first command, which usually completes it.
  Drivers perform a step without a generator. Each line of a step costs measurable time, because
  caches are cold after a system call.

Rejected:

* ``async def`` cores: a stray ``await asyncio.sleep()`` passes every type checker, and a test can
  neither see nor interrupt an opaque await.
* Hand-written state machines: four times the lines.
* Two copies: they drift.

Prior art: psycopg 3's ``generators.py``, h11 and websockets (sans-I/O).
"""

from __future__ import annotations

import hashlib
import inspect
from abc import abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    TypeVarTuple,
    Unpack,
    cast,
)

from interlock.errors import InterlockError

if TYPE_CHECKING:
    from interlock._core.model.replication import Replication
    from interlock._core.queue.lines import Line
    from interlock._core.queue.waiter import Waiter

R = TypeVar("R")
A = TypeVarTuple("A")
R_co = TypeVar("R_co", covariant=True)

NEVER = float("inf")
"""A deadline that never comes."""
PAST = -NEVER
"""A deadline that has passed: one try."""


class Script(Generic[R_co]):
    """A Lua text, its digest, and how to read its reply.

    Attributes:
        name: the stem that the ``.lua`` file, the constructor in `scripts` and error messages
            share.
        text: what EVAL takes.
        sha: what EVALSHA takes.
        decode: turns the reply into core units (seconds, bool, str).
        varies: whether each call has other arguments, so that its packed form is not cached.
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
            `GRACE` at least, but no longer than the command time-out.
        patient: whether each reply is waited for until the command time-out, also after *deadline*.
            A try for a lock is given up only then, so that a long way to the server does not end
            it. The deadline still ends the tries.
        replication: what replicas must acknowledge, if they are asked. That takes additional time.
        unknown: how often it was sent and no reply was read. Each time, the server may have
            executed it, or may still do so.
        packed: the encoded command, once it has been made.
        then: called with the undecoded reply, or with the error in its place, before the caller
            resumes, if several tasks share the connection. It is not called if the caller has gone.
            It must not raise.
        spare_keys: how many of the last keys may be left out. One is the queue of waiters, which is
            often missing. While a slot moves, a server refuses a call with a missing key. It always
            refuses a key that the user has no right to. Then the call is sent again without them.
        spare_args: how many of the last arguments are left out with these keys. They are about the
            queue, or about the answer to this call, which the server remembers.
        asks: the place of the argument that repeats what the server told; 0 if the script never
            asks for more keys. See `interlock._core.model.readers`.
        readers: readers that the script will ask for, so that it need not: holder ids and depths.

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
    unknown: int = 0
    replication: Replication | None = None
    packed: bytes | None = None
    then: Callable[[object], None] | None = None
    spare_args: int = 0
    spare_keys: int = 0
    patient: bool = False
    asks: int = 0
    readers: str = ""

    def anew(self) -> Eval[R_co]:
        """Return an unsent copy of this call."""
        # By place: names cost as much as the object.
        return Eval(
            self.script,
            self.keys,
            self.args,
            self.deadline,
            0,
            self.replication,
            self.packed,
            None,
            self.spare_args,
            self.spare_keys,
            self.patient,
            self.asks,
            self.readers,
        )

    def __iter__(self) -> Generator[Effect, object, R_co]:
        return self.script.decode((yield self))


def _decoded(call: Eval[R], reply: object) -> R | Exception:
    """Return the outcome of *call*; if its reply cannot be read, only this call has an error."""
    if isinstance(reply, Exception):
        return reply
    try:
        return call.script.decode(reply)
    except Exception as error:  # noqa: BLE001 - the other calls keep their outcomes
        return error


@dataclass(slots=True)
class Batch(Generic[R_co]):
    """Run all *evals*, in one write per server; the outcome of each is its result or its error."""

    evals: tuple[Eval[R_co], ...]

    def __iter__(self) -> Generator[Effect, object, list[R_co | Exception]]:
        replies = cast("list[object]", (yield self))
        return [_decoded(call, reply) for call, reply in zip(self.evals, replies, strict=True)]


class Client(Protocol):
    """The client that an effect is for: its `Session`, as the drivers see it."""

    @property
    def home(self) -> Callable[[], object]:
        """Return a reference to the driver with the client's connections.

        Called, it returns that driver, or None if it is gone. Of a driver over threads it is the
        `ThreadDriver` beneath.
        """
        ...

    @property
    def clock(self) -> Callable[[], float]:
        """Return the clock of its deadlines."""
        ...


class _Late:
    """Stands in place of a reply that did not come in time."""

    def __repr__(self) -> str:
        return "LATE"


LATE: Final = _Late()
"""What a `Gather` tells of a call whose reply nobody waited for."""


class Enough(Protocol):
    """Judges the replies to a `Gather` as they come.

    Attributes:
        least: how many replies it needs at least to decide.
        linger: for how many seconds the others are waited for then, at least.
    """

    least: int
    linger: float

    def __call__(self, place: int, reply: object, took: float, /) -> float | None:
        """Judge *reply*, as `Gather` tells."""
        ...


@dataclass(slots=True)
class Gather:
    """Send each call to the server of its own client, all before any reply is read.

    The reply to this effect has an undecoded reply or an error for each call. With *enough*, it has
    `LATE` for each call that others need not wait for. The server may execute such a call later.

    Attributes:
        calls: the scripts, each with its client.
        enough: called with the place and the undecoded reply of each call, as it comes, and with
            the seconds that it took. It returns None while the other replies may decide something,
            else for how many seconds they are still waited for. It must not raise.
        seconds: how long each reply is waited for, in place of what its call says; None: as it
            says.
    """

    calls: tuple[tuple[Client, Eval[object]], ...]
    enough: Enough | None = None
    seconds: float | None = None


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
    """Stand in *line* locally, and subscribe to its channel.

    When the subscription is confirmed, the waiter gets a wake-up.

    The driver makes the wake-up, and joins the queue by `Waiters.join`. When the operation ends,
    however it ends, the driver removes the waiter from the queue.
    """

    line: Line

    def __iter__(self) -> Generator[Effect, object, Waiter]:
        waiter: Any = yield self
        return waiter  # type: ignore[no-any-return]


@dataclass(slots=True)
class Wait:
    """Wait for a wake-up of *waiter* (None: just sleep), but no longer than *until*.

    *until* may be `NEVER`.
    """

    waiter: Waiter | None
    until: float

    def __iter__(self) -> Generator[Effect, object, None]:
        yield self


@dataclass(slots=True)
class Cleanup(Generic[R_co]):
    """Send *call* in the background until a reply is read or *until* passes; do not wait for it.

    It is for calls that must still reach the server when the caller's time is up.

    Attributes:
        call: the script.
        until: the time after which the call is useless.
        late: how many late grants it must find. It is sent again until it has found them, or
            *until* passes.
    """

    call: Eval[R_co]
    until: float
    late: int = 0

    def __iter__(self) -> Generator[Effect, object, None]:
        yield self


@dataclass(slots=True)
class Post(Generic[R_co]):
    """Send *call* now, before the caller goes on, and do not wait for the reply.

    The result tells whether it was sent. It is not sent if that would take time: while there is no
    connection, for instance.

    Attributes:
        call: the script.
        heard: called with the undecoded reply if it is read. It must not raise.
    """

    call: Eval[R_co]
    heard: Callable[[object], None]


Effect: TypeAlias = "Eval[object] | Batch[object] | Gather | RunOn[object] | \
Enqueue | Wait | Cleanup[object] | Post[object]"
Op: TypeAlias = Generator[Effect, object, R]


class Step(Generic[R_co]):
    """An operation that its first command usually completes.

    A driver sends the command that `begin` returns, and passes the decoded answer to `done`. If
    `done` returns True, the driver returns `result`. In all other cases, including an exception at
    any point, it runs `rest`. Iterating over a step does the same with generators. Operations that
    consist of steps do that, and so does the simulator.
    """

    __slots__ = ()

    of_owner = False
    """Whether who performs it has been asked for as an owner, so that nothing blocks a loop unseen."""
    result: R_co

    def begin(self) -> Eval[Any] | None:
        """Note what must be known before anything is sent.

        Return the first command, or None to go on with `rest` at once.
        """
        return None

    def done(self, answer: Any) -> bool:
        """Take the answer to the first command; a step without one has no need of this.

        Return whether the operation is complete, with `result` as its result.
        """
        raise NotImplementedError

    @abstractmethod
    def rest(self, failure: BaseException | None) -> Op[R_co]:
        """Return the operation that goes on after `begin` or `done`, or cleans up after *failure*.

        A Ctrl-C may interrupt it, too. Then a driver calls `rest` again, unless `over` is true.
        """
        ...

    @abstractmethod
    def over(self) -> bool:
        """Return whether nothing is left to clean up."""
        ...

    def unfinished(self) -> Self | None:
        """Return this step if something is left to clean up, else None."""
        return None if self.over() else self

    def __iter__(self) -> Op[R_co]:
        return self.performed(begins=True)

    def performed(
        self,
        call: Eval[Any] | None = None,
        failure: BaseException | None = None,
        *,
        begins: bool = False,
    ) -> Op[R_co]:
        """Perform the step; clean up if `rest` is interrupted.

        Unless it *begins* here, `begin` has returned *call* already, or has ended with *failure*.
        Without either it goes on with `rest`.
        """
        try:
            try:
                if begins:
                    call = self.begin()
                if call is not None and self.done(call.script.decode((yield call))):
                    return self.result
            except GeneratorExit:
                self.abandon()
                raise
            except BaseException as error:  # noqa: BLE001 - raised again where it can be undone
                failure = error
            del call
            try:
                return (yield from self.rest(failure))
            except (Exception, GeneratorExit):
                raise
            except BaseException as error:
                if self.over():
                    raise
                failure = error
            return (yield from self.rest(failure))
        finally:
            del failure  # a frame and its error would keep each other alive

    def abandon(self) -> None:
        """Note that nobody is left to perform the rest."""


class Undone(Step[R]):
    """A step that takes back what it did, unless it is complete."""

    __slots__ = ()


class Carried(Step[R]):
    """A step that is carried through once it has begun.

    An error before that refuses it. A Ctrl-C does not: then it goes on all the same.
    """

    __slots__ = ()

    @abstractmethod
    def begun(self) -> bool:
        """Return whether something may have been done."""
        ...

    def refuse(self) -> None:
        """Note that it will not begin."""

    @abstractmethod
    def carry_on(self, failure: BaseException | None) -> Op[R]:
        """Return the operation that does what is left, and then raises *failure*."""
        ...

    def rest(self, failure: BaseException | None) -> Op[R]:
        """Return the operation that does what is left, or raises a *failure* that refuses it."""
        if isinstance(failure, Exception) and not self.begun():
            self.refuse()
            return failing(failure)
        return self.carry_on(failure)


class Opened(Undone[R]):
    """A step with a first command, and an operation that goes on from there.

    If the operation fails or is interrupted, `undo` undoes what it did. A Ctrl-C may come during
    that, or before the caller has the result. Then `undo` does what is left.

    Attributes:
        begun: whether there may be something to undo; `begin` sets it before the first command.
        goes_on: whether the operation was begun.
    """

    __slots__ = ("begun", "goes_on")
    begun: bool
    goes_on: bool

    @abstractmethod
    def go_on(self, failure: InterlockError | None) -> Op[R]:
        """Return the operation that goes on after the first command, or after its *failure*.

        If there was no first command, the operation does all.
        """
        ...

    @abstractmethod
    def settled(self) -> bool:
        """Return whether nothing is left to undo."""
        ...

    @abstractmethod
    def undo(self, failure: BaseException) -> Op[object]:
        """Return the operation that undoes what is left; it may be called any number of times."""
        ...

    def rest(self, failure: BaseException | None) -> Op[R]:
        """Return the operation, or what is left to do after *failure*."""
        if failure is not None and not self.begun:
            return failing(failure)
        if self.goes_on or not (failure is None or isinstance(failure, InterlockError)):
            assert failure is not None
            return failing(failure, self.undo(failure))
        self.goes_on = True
        return undoing(self.go_on(failure), self._undo_begun)

    def _undo_begun(self, failure: BaseException) -> Op[None]:
        if self.begun:
            _ = yield from self.undo(failure)

    def over(self) -> bool:
        """Return whether nothing is left to undo."""
        return not self.begun or self.settled()


class Undoable(Opened[R]):
    """A step without a first command of its own: all of it is *op*.

    Args:
        op: the operation.
        over: returns True if the caller knows of everything that *op* did.
        undo: returns the operation that does the rest; it may be called any number of times.
    """

    __slots__ = ("_op", "_over", "_undo")

    def __init__(
        self, op: Op[R], over: Callable[[], bool], undo: Callable[[BaseException], Op[object]]
    ) -> None:
        self._op = op
        self._over = over
        self._undo = undo
        self.begun = self.goes_on = False

    def begin(self) -> None:
        """Return None: *op* does all."""
        self.begun = True

    def go_on(self, failure: InterlockError | None) -> Op[R]:
        """Return the operation."""
        del failure
        return self._op

    def settled(self) -> bool:
        """Return whether nothing is left to undo."""
        return self._over()

    def undo(self, failure: BaseException) -> Op[None]:
        """Undo what is left, if anything is."""
        if not self._over():
            _ = yield from self._undo(failure)


def failing(failure: BaseException | None, op: Op[object] | None = None) -> Op[Any]:
    """Return the operation that runs *op* and then raises *failure*.

    If *op* fails, its error is raised instead, unless *failure* is a Ctrl-C or the like.
    """
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
        # The error refers to this frame. Otherwise only the garbage collector would free the two.
        del failure


def ended(op: Op[object]) -> bool:
    """Return whether *op* has returned or raised. Then nothing can be thrown into it any more."""
    return inspect.getgeneratorstate(op) == inspect.GEN_CLOSED


def undoing(op: Op[R], undo: Callable[[Unpack[A], BaseException], Op[None]], *args: *A) -> Op[R]:
    """Run *op*; if it raises an exception, run *undo* and then raise the exception again.

    *undo* gets *args* and the exception.

    An abandoned operation (`GeneratorExit`) is not undone: no driver is left to perform anything.
    """
    try:
        return (yield from op)
    except GeneratorExit:
        raise
    except BaseException as error:
        yield from undo(*args, error)
        raise
