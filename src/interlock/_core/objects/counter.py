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
from interlock._core.model.forms import HOLE, Form
from interlock._core.model.hold import ENDED, Hold
from interlock._core.model.names import draw, new_request
from interlock._core.queue.places import Line, nobody
from interlock._core.scripts.replies import milliseconds
from interlock.errors import InterlockError
from interlock.options import check_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from interlock._core.insight.observing import Wish
    from interlock._core.model.effects import Script
    from interlock._core.upkeep.session import Session


class Request:
    """A key on the server that keeps the answer to the last call that used it.

    Attributes:
        client: the id of the client whose calls use it. A forked child is another one, and numbers
            its calls as its parent does.
        key: the key.
        forms: of the calls that use it, by what they do.
    """

    __slots__ = ("client", "forms", "key")

    def __init__(self, client: str, key: str) -> None:
        self.client, self.key = client, key
        self.forms: dict[tuple[object, ...], Form] = {}


MOST_FORMS = 8
"""Forms that a request keeps, at most."""
REMEMBERED = 10_000
"""Names that a client remembers, at most."""


class Call(Hold):
    """One call, or one wait.

    Attributes:
        request: its key; None if it changes nothing.
        finish: what the background sends if it was given up; None for its undo.
        wants: permits that it waits for.
        wish: what operators are told of its wait.
    """

    __slots__ = ("finish", "request", "wants", "wish")

    request: Request | None
    finish: Form | None
    wants: int
    wish: Wish | None

    def begin(self, counter: Counter, request: Request | None, span: float) -> Self:
        """Begin; the background sends what finishes it for *span* seconds. Return this call."""
        lock: Any = counter
        self.request, self.finish, self.wants, self.wish = request, None, 0, None
        return self.of(lock, nobody, f"$12\r\n{draw()}\r\n", span, False)

    @property
    def label(self) -> str:
        """What to call who has it in messages."""
        return "a block"

    @property
    def number(self) -> bytes:
        """Its number."""
        return self.packed[5:-2].encode()

    def unsure(self) -> bool:
        """Return whether the background has to finish it."""
        return self.request is not None and bool(self.valid_until or self.asking or self.resent)

    def over_by(self, now: float) -> float:
        """Return when the background is not to finish it any more."""
        return now + self.lease

    def may_come(self) -> bool:
        """Return False: after its undo a copy does nothing."""
        return False

    def release(self, entry: object = None) -> Any:
        """Return the step that gives back what the block of *entry* has."""
        return GiveBack(self, entry)


def tell_nobody(*_: Any) -> None:
    """Tell nobody."""


class Named:
    """The numbers that the code of one client has named, and what it was warned of.

    Attributes:
        differs: is told a name, the number on the server and the number in the code.
        missing: is told the kind and name of a semaphore without permits that is waited for.
        too_many: is told the kind and name of a semaphore, how many permits are wanted together,
            and how many there are.
    """

    def __init__(
        self,
        differs: Callable[[str, int, int], None] = tell_nobody,
        missing: Callable[[str, str], None] = tell_nobody,
        too_many: Callable[[str, str, int, int], None] = tell_nobody,
    ) -> None:
        self.differs, self.missing, self.too_many = differs, missing, too_many
        self._noted: dict[object, int | None] = {}

    def known(self, key: str, number: int) -> bool:
        """Return whether this client has set *number* for *key*, or found one there."""
        return self._noted.get(key) == number

    def note(self, key: object, number: int | None) -> None:
        """Note that *number* is set for *key*, or none; forget all others if they are too many."""
        if len(self._noted) >= REMEMBERED:
            self._noted.clear()
        self._noted[key] = number

    def first(self, key: str, number: int = 0) -> bool:
        """Return whether this is the first time that *number* of *key* is to be told of."""
        if (key, number) in self._noted:
            return False
        self.note((key, number), None)
        return True


class Counter:
    """What nobody owns, for one client.

    Args:
        session: the client's state.
        name: what the user calls it.
        key: the same with the client's prefix.
        number: what the user's code names, such as ``permits=10``; None if it names none.
        named: what the client knows of such numbers.
        idle: seconds after its last use when it ends; 0 for never.

    Attributes:
        key: of its value on the server.
        channel: where its changes are announced.
        makes: the *number*, as an argument of commands.
        counted: what the number is of; the code may name one from *least* to *most*.
        standing: by what its line is found; a leased semaphore of that name has the same channel.
        beside: further keys of each change, of which the last *spare* may be missing, but for
            what *whole* names; *besides* makes them of the key.
    """

    kind: ClassVar[str]
    changes: ClassVar[Mapping[str, Script[Any]]]
    counted, least, most = "", 0, 0
    spare, whole = 0, ("set", "set up")
    besides: ClassVar[tuple[Callable[[str], str], ...]] = ()
    channel_of: Callable[[str], str]
    key_of: Callable[[str], str] = staticmethod(str)
    place = ""
    in_turn, sides = True, False
    line: ClassVar[type[Line]] = Line

    def __init__(
        self,
        session: Session,
        name: str,
        key: str,
        number: int | None = None,
        named: Named | None = None,
        idle: float = 0.0,
    ) -> None:
        self.session, self.name = session, name
        self.base, self.key, self.channel = key, self.key_of(key), self.channel_of(key)
        self.number = None if number is None else self.checked(number)
        self.makes = "" if self.number is None else str(self.number)
        self.named = named or Named()
        self.beside = tuple([name(key) for name in self.besides])
        self.standing = f"{self.kind} {key}"
        self.seconds, self.idle = idle, milliseconds(idle) if idle else 0
        self._span = session.options.outage_timeout
        late = 2 * (2 * session.options.command_timeout + self._span)
        self.ttl = milliseconds(late)
        self._free: deque[Request] = deque()
        self.check()

    def checked(self, number: object) -> int:
        """Return *number* if it can have that; else raise TypeError or ConfigError."""
        return check_number(number, self.counted, self.least, self.most)

    def check(self) -> None:
        """Raise ConfigError if the client cannot use it."""

    def __repr__(self) -> str:
        return f"{self.kind} {self.name!r}"

    def channels(self, client: str) -> tuple[str, ...]:
        """Return where waiters listen."""
        del client
        return (self.channel,)

    # The number that the code names.

    @property
    def unset(self) -> bool:
        """Whether this client has not used the number that its code names; no round trip."""
        return self.number is not None and not self.named.known(self.key, self.number)

    def note(self) -> None:
        """Note that this client has used the number that its code names, or that another is meant."""
        if self.number is not None:
            self.named.note(self.key, self.number)

    def compare(self, there: int, *, exact: bool = True) -> None:
        """Warn at its first use if *there* is another number, or at least a larger one."""
        number = self.number
        if number is None or not self.unset:
            return
        self.note()
        if there > number or (exact and there < number):
            self.named.differs(self.name, there, number)

    # What each call has.

    def new_call(self) -> Call:
        """Return a new call, with a key that nobody else uses meanwhile."""
        client = self.session.client_id
        try:
            request = self._free.pop()
            while request.client != client:
                request = self._free.pop()
        except IndexError:
            request = self._new_request()
        return Call().begin(self, request, self._span)

    def _new_request(self) -> Request:
        client = self.session.client_id
        return Request(client, new_request(self.base, client))

    def new_wait(self) -> Call:
        """Return a new wait of one who changes nothing."""
        return Call().begin(self, None, self._span)

    def settle(self, call: Call) -> None:
        """Note that *call* was answered: another one may use its key, unless a copy may come."""
        request = call.request
        if request is not None and not call.resent:
            call.request = None  # first: a signal may strike
            self._free.append(request)

    # The commands. All have the same arguments, and differ in *how*, and in one number at most.

    def script(self, how: str) -> Script[Any]:
        """Return the script that does *how*."""
        del how
        return self.changes[self.session.publish]

    def _more(self) -> tuple[str | int, ...]:
        """Return the last arguments of each change."""
        return ()

    def form(self, request: Request | None, how: str, *n: int | str) -> Form:
        """Return what a call with the key *request* sends to do *how*; made once for each key."""
        assert request is not None
        form = request.forms.get((how, *n))
        if form is None:
            if len(request.forms) >= MOST_FORMS:
                request.forms.clear()
            keys = (self.key, request.key, *self.beside)
            args = (HOLE, self.ttl, how, *n, self.idle, self.channel, *self._more())
            spare = 0 if how in self.whole else self.spare
            form = request.forms[how, *n] = Form(self.script(how), keys, args, spare)
        return form

    def down(self, call: Call, depth: int) -> Eval[Any]:
        """Return what finishes *call*, which was given up: an acquire is undone.

        If its client ends, its answer may come just now, and leave its key to others. By a new key there
        is nothing to undo.
        """
        del depth
        request = call.request or self._new_request()
        return (call.finish or self.form(request, "undo", 0)).of(call)

    def change(
        self, how: str, *n: int | str, then: Callable[[Any], None] | None = None
    ) -> Carried[Any]:
        """Return the step that does *how*, completed once it was begun; *then* is told the answer."""
        return Carried(self, (how, *n), then)


class Carried(Step[R]):
    """A call that counts once, and is completed once it has begun."""

    __slots__ = ("_counter", "_then", "_which", "call")

    def __init__(
        self,
        counter: Counter,
        which: tuple[Any, ...],
        then: Callable[[Any], None] | None = None,
    ) -> None:
        self._counter, self._which, self._then = counter, which, then
        self.call = counter.new_call()

    def begin(self) -> Eval[Any]:
        """Return the call."""
        call, session = self.call, self._counter.session
        made = self._made()
        session.calls[call] = None
        call.ask(session.clock())
        return made

    def _made(self) -> Eval[Any]:
        """Return the call, which the background is to send, too: how messages are sent is known now."""
        call = self.call
        if call.finish is None:
            call.finish = self._counter.form(call.request, *self._which)
        call.valid_until = NEVER
        return call.finish.of(call)

    def done(self, answer: Any) -> bool:
        """Take the answer."""
        call = self.call
        self.result, call.over = answer, ENDED
        self._counter.settle(call)
        self._counter.session.calls.pop(call, None)
        if self._then is not None:
            self._then(answer)
        return True

    def rest(self, failure: Exception | None, until: float = NEVER) -> Op[R]:
        """Send it until it is answered, or the time is *until*; again after *failure*."""
        call, session = self.call, self._counter.session
        try:
            answer = yield from session.persist(self._made(), until, call, failure)
        except InterlockError as error:
            if not (call.asking or call.resent or getattr(error, "transient", False)):
                call.over = ENDED  # the server has refused it
                session.calls.pop(call, None)
            raise
        _ = self.done(answer)
        return self.result

    def give_up(self) -> None:
        """Complete it without the caller."""
        _ = self._made()
        self._counter.session.give_up(self.call)


class GiveBack(Carried[bool]):
    """The end of a block, which gives back once what it has.

    Args:
        call: what the block has.
        entry: the block's.
    """

    __slots__ = ("_entry",)

    def __init__(self, call: Call, entry: object) -> None:
        counter: Any = call.lock
        self._counter, self._then = counter, None
        self.call, self._entry = call, entry
        self.result = False

    def begin(self) -> Any:
        """Return the release, unless somebody was faster, or the client has been closed."""
        call, entries = self.call, self.call.entries
        if call.over is not None or not entries or not call.leave(self._entry or entries[-1]):
            return None
        call.ask(self._counter.session.clock())
        return self._made()

    def rest(self, failure: Exception | None, until: float = NEVER) -> Op[bool]:
        """Send it again after *failure*."""
        if failure is not None:
            made, session = self._made(), self._counter.session
            _ = self.done((yield from session.persist(made, until, self.call, failure)))
        return self.result

    def give_up(self) -> None:
        """Give it back without the caller."""
        call = self.call
        if call.leave(self._entry) or not call.entries:
            self._counter.session.give_up(call)
