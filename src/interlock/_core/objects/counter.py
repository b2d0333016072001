"""Calls on what nobody owns: each counts once, however often it arrives.

A lock's commands name a hold, so they may run any number of times. A counter has no such thing: an
INCRBY that is sent again after a lost reply counts twice. So a call has a number, and a key on the
server, its `Request`, keeps the number and answer of the last call that used it. A copy finds its
own number there, or a later one, does nothing, and gives the same answer. A call that was answered
leaves its key to the next one; a key whose call may have a copy under way is left to its TTL.

    the call             what the background sends if it was given up
    ----------------     ---------------------------------------------------------------------
    an acquire           its undo: that gives back what it took, and then a copy does nothing
    an open block        the release of what it has
    all others           the call itself: what was begun is completed

A call is a `Hold` to garbage and queues: PENDING until it is answered, ENDED once it is over. A key
outlives all copies of its call. They are sent for `outage_timeout` by the caller and then as long
by the background; the last one may be on its way for a while.

Source: the unlock latch of Redisson 4.7.0.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar, Self

from interlock._core.model.effects import NEVER, Eval, Op, R, Step
from interlock._core.model.forms import HOLE, MORE, Form, Forms, Spliced
from interlock._core.model.hold import ENDED, Hold
from interlock._core.model.names import draw, new_request, packed_text
from interlock._core.queue.places import Line, nobody
from interlock._core.scripts.replies import milliseconds
from interlock._misuse import warn
from interlock.errors import InterlockError
from interlock.options import check_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from interlock._core.model.effects import Script
    from interlock._core.upkeep.session import Session


REMEMBERED = 10_000
"""Numbers that a client remembers, at most."""


class _Form(Form):
    """The calls that differ only in their number and in the key of their request."""

    __slots__ = ()

    def of(self, hold: Any) -> Eval[Any]:
        call: Any = Spliced()
        call.script, call.form, call.hold = self.script, self, hold
        call.more, request = hold.request
        call.packed = f"{self.head}{request}{self.middle}{hold.packed}{self.tail}".encode()
        return call  # type: ignore[no-any-return]


class Call(Hold):
    """One call, or one wait.

    Attributes:
        request: its key, and the same as an argument of commands; None if it changes nothing.
        settled: whether it was answered, and another one may use its key.
        finish: what the background sends if it was given up; None for its undo.
        wants: permits that it waits for.
        came: when it began to wait, if operators are told; or 0.
    """

    __slots__ = ("came", "finish", "request", "settled", "wants")

    lock: Any
    request: tuple[str, str] | None
    settled: bool
    finish: Form | None
    wants: int
    came: float

    def begin(self, lock: Any, request: tuple[str, str] | None, span: float) -> Self:
        """Begin; the background sends what finishes it for *span* seconds. Return this call."""
        self.request, self.settled, self.finish = request, False, None
        self.wants, self.came = 0, 0.0
        return self.of(lock, nobody, f"$12\r\n{draw()}\r\n", span, False)

    @property
    def label(self) -> str:
        """What to call who waits, or has it, in messages."""
        return "a block" if self.owner is nobody else super().label

    @property
    def holder(self) -> str:
        return f"{self.lock.session.client_id}:{self.member}"

    def wait(self, wants: int = 0) -> None:
        """Note that the caller begins to wait, for *wants* permits, and that operators are told."""
        session = self.lock.session
        self.owner, self.came, self.wants = session.outside.caller(), session.clock(), wants

    @property
    def number(self) -> bytes:
        return self.packed[5:-2].encode()

    def unsure(self) -> bool:
        begun = self.valid_until or self.asking or self.resent
        return bool(begun and self.request and not self.settled)

    def over_by(self, now: float) -> float:
        return now + self.lease

    def may_come(self) -> bool:
        return False  # after its undo a copy does nothing

    def release(self, entry: object = None) -> Any:
        return GiveBack(self, entry)


class Counter:
    """What nobody owns, for one client.

    Args:
        key: its name with the client's prefix.
        number: what the user's code names, such as ``permits=10``; None if it names none.
        idle: seconds after its last use when it ends; 0 for never.

    Attributes:
        makes: the *number*, as an argument of commands.
        counted: what the number is of; the code may name one from *least* to *most*.
        differs: what warns of another number on the server.
        standing: by what its line is found; a leased semaphore of that name has the same channel.
        beside: further keys of each change, of which the last *spare* may be missing, but for
            what *whole* names; *besides* makes them of the key.
    """

    kind: ClassVar[str]
    changes: ClassVar[Mapping[str, Script[Any]]]
    counted, differs, least, most = "", "", 0, 0
    spare, whole = 0, ("set", "set up")
    besides: ClassVar[tuple[Callable[[str], str], ...]] = ()
    channel_of: Callable[[str], str]
    key_of: Callable[[str], str] = staticmethod(str)
    place = ""
    in_turn, sides = True, False
    line: ClassVar[type[Line]] = Line

    def __init__(
        self, session: Session, name: str, key: str, number: int | None = None, idle: float = 0.0
    ) -> None:
        self.session, self.name = session, name
        self.base, self.key, self.channel = key, self.key_of(key), self.channel_of(key)
        self.number = None if number is None else self.checked(number)
        self.makes = "" if self.number is None else str(self.number)
        self.beside = tuple([name(key) for name in self.besides])
        self.standing = f"{self.kind} {key}"
        self.seconds, self.idle = idle, milliseconds(idle) if idle else 0
        self._span = session.options.outage_timeout
        late = 2 * (2 * session.options.command_timeout + self._span)
        self.ttl = milliseconds(late)
        self._free: deque[tuple[str, str]] = deque()
        self._forms = Forms()
        self.check()

    def checked(self, number: object) -> int:
        """Return *number* if it can have that; else raise TypeError or ConfigError."""
        return check_number(number, self.counted, self.least, self.most)

    def check(self) -> None:
        """Raise ConfigError if this client cannot use it."""

    def __repr__(self) -> str:
        return f"{self.kind} {self.name!r}"

    def channels(self, client: str) -> tuple[str, ...]:
        del client
        return (self.channel,)

    # The number that the code names.

    @property
    def unset(self) -> bool:
        """Whether this client has not used the number that its code names; no round trip."""
        return self.number is not None and self.session.named.get(self.standing) != self.number

    def note(self, what: object, number: int | None) -> None:
        """Remember *number* of *what*; forget all others if they are too many."""
        named = self.session.named
        if len(named) >= REMEMBERED:
            named.clear()
        named[what] = number

    def note_named(self) -> None:
        """Note that this client has used the number that its code names, or that another is meant."""
        if self.number is not None:
            self.note(self.standing, self.number)

    def first(self, number: int = 0) -> bool:
        """Return whether this is the first time that *number* is to be warned of."""
        what = self.standing, number
        if what in self.session.named:
            return False
        self.note(what, None)
        return True

    def compare(self, there: int, *, exact: bool = True) -> None:
        """Warn at its first use if *there* is another number, or at least a larger one."""
        number = self.number
        if number is None or not self.unset:
            return
        self.note_named()
        if there > number or (exact and there < number):
            warn(self.differs.format(name=self.name, there=there, number=number))

    # What each call has.

    def new_call(self) -> Call:
        """Return a new call, with a key that nobody else uses meanwhile."""
        client = self.session.client_id
        try:
            request = self._free.pop()
            while client not in request[0]:  # a forked child numbers its calls as its parent does
                request = self._free.pop()
        except IndexError:
            request = self._new_request()
        return Call().begin(self, request, self._span)

    def _new_request(self) -> tuple[str, str]:
        key = new_request(self.base, self.session.client_id)
        return key, packed_text(key)

    def new_wait(self) -> Call:
        """Return a new wait of one who changes nothing."""
        return Call().begin(self, None, self._span)

    def settle(self, call: Call) -> None:
        """Note that *call* was answered: another one may use its key, unless a copy may come."""
        if call.request is not None and not (call.resent or call.settled):
            call.settled = True  # first: a signal may strike
            self._free.append(call.request)

    # The commands. All have the same arguments, and differ in *how*, and in one number at most.

    def script(self, how: str) -> Script[Any]:
        del how
        return self.changes[self.session.publish]

    def _more(self) -> tuple[str | int, ...]:
        return ()

    def form(self, how: str, *n: int | str) -> Form:
        """Return what calls send to do *how*; made once."""
        form = self._forms.get((how, *n))
        if form is None:
            keys = (self.key, MORE, *self.beside)
            args = (HOLE, self.ttl, how, *n, self.idle, self.channel, *self._more())
            spare = 0 if how in self.whole else self.spare
            form = self._forms.keep((how, *n), _Form(self.script(how), keys, args, spare))
        return form

    def down(self, call: Call, depth: int) -> Eval[Any]:
        """Return what finishes *call*, which was given up: an acquire is undone.

        If its client ends, its answer may come just now, and leave its key to others. By a new key there
        is nothing to undo.
        """
        del depth
        if call.finish is None and call.settled:
            call.request = self._new_request()
        return (call.finish or self.form("undo", 0)).of(call)

    def change(
        self, how: str, *n: int | str, then: Callable[[Any], None] | None = None
    ) -> Carried[Any]:
        """Return the step that does *how*, completed once it was begun; *then* is told the answer."""
        return Carried(self, (how, *n), then)


class Carried(Step[R]):
    """A call that counts once, and is completed once it has begun."""

    __slots__ = ("_then", "_which", "call")

    def __init__(
        self, counter: Counter, which: tuple[Any, ...], then: Callable[[Any], None] | None
    ) -> None:
        self._which, self._then = which, then
        self.call = counter.new_call()

    def begin(self) -> Eval[Any] | None:
        call, session = self.call, self.call.lock.session
        made = self._made()
        session.calls[call] = None
        call.ask(session.clock())
        return made

    def _made(self) -> Eval[Any]:
        """Return the call, which the background is to send, too: how messages are sent is known now."""
        call = self.call
        form = call.finish = call.finish or call.lock.form(*self._which)
        call.valid_until = NEVER
        return form.of(call)

    def done(self, answer: Any) -> bool:
        call = self.call
        self.result, call.over = answer, ENDED
        call.lock.settle(call)
        call.lock.session.calls.pop(call, None)
        if self._then is not None:
            self._then(answer)
        return True

    def rest(self, failure: Exception | None, until: float = NEVER) -> Op[R]:
        """Send it until it is answered, or the time is *until*; again after *failure*."""
        call, session = self.call, self.call.lock.session
        try:
            sending: Op[Any] = session.persist(self._made(), until, call, failure)
            answer = yield from sending
        except InterlockError as error:
            if not (call.asking or call.resent or getattr(error, "transient", False)):
                call.over = ENDED  # the server has refused it
                session.calls.pop(call, None)
            raise
        _ = self.done(answer)
        return self.result

    def give_up(self) -> None:
        _ = self._made()
        self.call.lock.session.give_up(self.call)


class GiveBack(Carried[bool]):
    """The end of the block of *entry*, which gives back once what *call* took for it."""

    __slots__ = ("_entry",)

    def __init__(self, call: Call, entry: object) -> None:
        self.call, self._entry, self._then = call, entry, None
        self.result = False

    def begin(self) -> Eval[Any] | None:
        """Return the release, unless somebody was faster, or the client has been closed."""
        call, entries = self.call, self.call.entries
        if call.over is not None or not entries or not call.leave(self._entry or entries[-1]):
            return None
        call.ask(call.lock.session.clock())
        return self._made()

    def rest(self, failure: Exception | None, until: float = NEVER) -> Op[bool]:
        if failure is not None:
            persist = self.call.lock.session.persist
            _ = self.done((yield from persist(self._made(), until, self.call, failure)))
        return self.result

    def give_up(self) -> None:
        call = self.call
        if call.leave(self._entry) or not call.entries:
            call.lock.session.give_up(call)
