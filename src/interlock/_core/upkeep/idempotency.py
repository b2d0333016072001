"""How to make a call repeatable: by an id of its own, and a latch that remembers its answer.

Theory. A lock's scripts name the depth to reach, so they may run any number of times. A counter has
no such thing: an INCRBY that is sent again after a lost reply counts twice. So each call has a key
of its own, its latch. The copy that runs first writes there what it did. Every copy that arrives
later finds that, does nothing and gives the same answer. An undo writes the latch too. So a copy
that arrives after the undo does nothing.

Rules:

* A latch outlives every copy of its call. Copies are sent for a command time-out, the outage
  time-out and the command time-out of the last try. If the caller's deadline is later, they are
  sent until then. After that the background sends them for another outage time-out. The time that
  is left is for copies that are still on their way.
* An id is made of the client's own id and a counter, besides randomness. A program may seed its
  generator. Two processes with the same seed must not take each other's answers for their own.
  `Session.id_prefix` has all of that but the counter: it is drawn once.
* The next call through the same object removes the latch of an answered call; that costs nothing.
  If a copy was not answered and may still arrive, the latch stays until it expires.
* A later call may have removed a latch, so that it can no longer undo its own call. But then all
  copies of that call were answered. So the opposite call is sent, with a latch of its own.

Source: the unlock latch of Redisson 4.7.0.
"""

from __future__ import annotations

import itertools
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from interlock._core.model import names
from interlock._core.model.effects import NEVER, Carried, Undoable, failing, undoing
from interlock._core.model.form import note_form
from interlock._core.queue.grant_looks import GIVEN
from interlock._core.scripts.forced import remember
from interlock._core.scripts.script import Request, milliseconds
from interlock.errors import ClosedError, InterlockError, ServerUnavailableError
from interlock.options import MAX_LEASE

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.model.effects import A, Eval, Op, R, Step
    from interlock._core.model.form import Forms
    from interlock._core.queue.grant_looks import Given
    from interlock._core.upkeep.session import Session

    Make: TypeAlias = Callable[["IdempotentCall"], Eval[R]]
    """Makes a script with the latch of a request.

    It is called while a step is performed, not before. A client learns with its first operation how
    to publish.
    """

_new: Any = object.__new__
NO_ID = "0" * 32
"""Stands for the id of a call that there never was."""
MAX_OLD_LATCHES = 64
"""Latches that an object remembers to remove, at most; all others expire by themselves."""

FIRST_NUMBER = 10**11
"""The number of the first id; all numbers have twelve digits, which can be read as hex digits."""
numbers = itertools.count(FIRST_NUMBER)
"""The numbers of the next ids."""


def once(session: Session, key: str, call: Eval[R]) -> Eval[R]:
    """Make *call*, a script for the object with *key*, take effect once; return it.

    The network may deliver a copy after a later call was answered. That copy must not undo the
    later call. So the script gets the key of its answer as a spare last key, and its TTL as the
    last argument. A user without the right to this key runs the script without it.
    """
    request = IdempotentCalls(session, key, names.own_request).begin()
    call.keys = (*call.keys, request.key)
    call.args = (*call.args, milliseconds(request.ttl))
    call.spare_keys = call.spare_args = 1
    return call


def break_once(session: Session, key: str, call: Eval[R]) -> Eval[R]:
    """Make *call*, the release of another client's hold, take effect once; return it.

    The holder does not hear of it if the hold had ended before. So it may use its id again.
    """
    request = IdempotentCalls(session, key, names.own_request).begin()
    remember(call, request.key, request.ttl)
    return call


def copies_of(call: Eval[object], other: Eval[R]) -> Eval[R]:
    """Give *other* the request of *call*, as `once` gave it to *call*; return *other*."""
    other.keys = (*other.keys, call.keys[-1])
    other.args = (*other.args, call.args[-1])
    other.spare_keys = other.spare_args = 1
    return other


def new_id(session: Session) -> str:
    """Return 32 hex digits that nobody else has."""
    return (session.id_prefix or session.draw_prefix()) + str(next(numbers))


class IdempotentCall(Request):
    """One call.

    Attributes:
        id: tells it from all other calls.
        unanswered: True if a copy was sent and not answered, and may still arrive.
        done: True if it was executed and has not been undone.
        answer: the answer to it.
        ended: True if a later call may remove the latch.
        opposite: the call that undoes it when its latch is gone.
    """

    __slots__ = ("answer", "done", "ended", "id", "opposite", "unanswered")
    id: str
    unanswered: bool
    done: bool
    ended: bool
    answer: object
    opposite: Eval[int] | None

    def take(self, answer: object, *, unanswered: bool = False) -> None:
        """Note the *answer* to it, and whether another copy is still *unanswered*."""
        # In this order: a Ctrl-C may come in between, or before the caller has the answer.
        self.answer = answer
        self.done = bool(answer)
        self.unanswered = unanswered

    def settled(self) -> bool:
        """Return whether there is nothing to undo."""
        return not (self.unanswered or self.done)


class IdempotentCalls:
    """The calls through one object.

    Args:
        session: the client's state.
        key: the object's key.
        latch: returns the latch of a call, for *key* and the id of the call, with which it ends.
        channel: where those listen who wait for what the calls change.

    Attributes:
        looked_at: what to look at after a call that told another client that it is next; None if
            calls through this object do not do that.
    """

    def __init__(
        self,
        session: Session,
        key: str,
        latch: Callable[[str, str], str] = names.request_latch,
        channel: str = "",
    ) -> None:
        self.session = session
        self._key, self._channel = key, channel
        self._latches = latch(key, "")
        # No id is 0. All latches of an object are equally long (`Form`).
        self._no_latch = self._latches + NO_ID
        self._usual_ttl = self.ttl()
        self._forms: Forms[Any] = {}
        self._old_latches: deque[str] = deque(maxlen=MAX_OLD_LATCHES)
        self.looked_at: Given | None = None

    def begin(self, deadline: float = NEVER) -> IdempotentCall:
        """Return a new call that may be sent until *deadline*."""
        old_latches = self._old_latches
        try:
            old_latch = old_latches.popleft() if old_latches else self._no_latch
        except IndexError:  # another thread was faster
            old_latch = self._no_latch
        session = self.session
        id_ = (session.id_prefix or session.draw_prefix()) + str(next(numbers))  # `new_id` inlined
        # Made without `__init__`, as in `LockBase.acquire`.
        request: IdempotentCall = _new(IdempotentCall)
        request.key, request.old_latch, request.id = self._latches + id_, old_latch, id_
        request.ttl = self._usual_ttl if deadline == NEVER else self.ttl(deadline)
        request.unanswered = request.done = request.ended = False
        request.answer = request.opposite = None
        return request

    def ttl(self, deadline: float = NEVER) -> float:
        """Return how many seconds to keep the latch of a call that is sent until *deadline*."""
        session = self.session
        late = 2 * session.options.command_timeout + session.options.outage_timeout
        last = late if deadline == NEVER else max(late, deadline - session.clock())
        return min(last + late, MAX_LEASE)

    def script(
        self,
        request: IdempotentCall,
        make: Callable[..., Eval[R]],
        numbers: tuple[int, ...],
        deadline: float = NEVER,
    ) -> Eval[R]:
        """Return the script that *make* makes with the latches of *request* and with *numbers*.

        Scripts that are made again and again differ only in their latches (`Form`). So do not
        change the keys and arguments of the script.
        """
        publish = self.session.publish
        ids, common = (request.key, request.old_latch), (make, publish, numbers)
        form = self._forms.get(common)
        usual = request.ttl == self._usual_ttl
        if form is not None and usual:
            return form.anew(ids, deadline)
        call = self.made(request, make, numbers, deadline)
        if usual:
            note_form(self._forms, common, call, ids)
        return call

    def made(
        self,
        request: IdempotentCall,
        make: Callable[..., Eval[R]],
        numbers: tuple[int, ...],
        deadline: float = NEVER,
    ) -> Eval[R]:
        """Return such a script as `script`, but one whose keys and arguments may be changed."""
        call = make(self._key, request, *numbers, self.session.publish, self._channel)
        call.deadline = deadline
        return call

    def ask(self, make: Callable[..., Eval[R]], number: int, deadline: float = NEVER) -> Op[R]:
        """Send a script of *number* that is made as by `made`; return its answer."""
        request = self.begin(deadline)
        call = self.made(request, make, (number,), deadline)
        call.patient = True  # a full round trip, as for the call that follows
        return (yield from self.answer_to(request, call))

    def send(
        self, request: IdempotentCall, call: Eval[R], failure: BaseException | None = None
    ) -> Op[R]:
        """Send *call*, a script with the latch of *request*, until a reply is read.

        Keeps track of unanswered copies.

        Args:
            request: its latch.
            call: the script.
            failure: how the first try, which was made before, has ended; None if there was none.

        Raises:
            ServerUnavailableError: as for `Session.persist`.
        """
        session = self.session
        unanswered, request.unanswered = request.unanswered and failure is None, True
        try:
            answer = yield from (
                session.persist(call) if failure is None else session.again(call, failure)
            )
        except InterlockError as error:
            if not isinstance(error, ClosedError):
                # A copy that the server refused, or that was never sent, is no longer under way.
                request.unanswered = unanswered or error.sent
            raise
        request.take(answer, unanswered=unanswered or call.unknown > 0)
        return answer

    def end(self, request: IdempotentCall) -> None:
        """Note that the answer to *request* was read."""
        if not request.unanswered:
            request.ended = True
            self._old_latches.append(request.key)

    def carried_through(
        self, make: Callable[[IdempotentCall, Unpack[A]], Eval[int]], *args: *A
    ) -> CarriedThrough:
        """Return the step that sends the script that *make* makes of a request and *args*.

        Even if the step is interrupted anywhere, the script is sent until it is answered.
        """
        step = CarriedThrough()  # made without `__init__`, as in `LockBase.acquire`
        step.requests, step.make, step.args = self, make, args
        step.request = step.call = step.first = None
        step.ended = step.result = False
        return step

    def undone(
        self, request: IdempotentCall, make: Make[R], undo: Make[int], opposite: Make[int]
    ) -> Step[R]:
        """Return the step that sends the script of *make*; if interrupted, `retract` undoes it."""
        retract = partial(self.retract, request, undo, opposite)
        return Undoable(self._make_and_send(request, make), request.settled, retract)

    def _make_and_send(self, request: IdempotentCall, make: Make[R]) -> Op[R]:
        return (yield from self.answer_to(request, make(request)))

    def answer_to(self, request: IdempotentCall, call: Eval[R]) -> Op[R]:
        """Send *call* as `send` does; return its answer, and note that it was read."""
        answer = yield from self.send(request, call)
        self.end(request)
        return answer

    def retract(
        self, request: IdempotentCall, undo: Make[int], opposite: Make[int], error: BaseException
    ) -> Op[None]:
        """Undo *request*, which ended with *error*, if it has done something or still may.

        Send *undo*. If another call was told to remove the latch, send *opposite* in its place,
        with a latch of its own.
        """
        if request.settled():
            return
        call = None
        if request.ended:
            try:
                # First of all: from now on no other call removes the latch.
                self._old_latches.remove(request.key)
                request.ended = False
            except ValueError:
                # Made only once: this may be interrupted and begin again.
                call = request.opposite = request.opposite or opposite(self.begin())
        yield from self.clean_up(call or undo(request), error)
        request.unanswered = request.done = False

    def clean_up(self, call: Eval[int], error: BaseException) -> Op[None]:
        """Send *call*, which *error* made necessary, as `Session.clean_up` does."""
        until = self.session.clock() + self.session.options.outage_timeout
        return self.session.clean_up(call, until, error=error)


class CarriedThrough(Carried[bool]):
    """A call that is carried through, and takes effect once.

    If it is interrupted anywhere, the background goes on with it.

    Attributes:
        first: comes before it, if anything does. If the server does not answer that, the background
            goes on with the call.
    """

    __slots__ = ("args", "call", "ended", "first", "make", "request", "requests", "result")
    first: Op[object] | None
    requests: IdempotentCalls
    make: Callable[..., Eval[int]]
    args: tuple[object, ...]
    request: IdempotentCall | None
    call: Eval[int] | None
    ended: bool

    def begin(self) -> Eval[int] | None:
        """Return the script to send, unless something comes first."""
        if self.first is not None:
            return None
        request = self.request = self.requests.begin()
        make = self.make  # bound first: else Python 3.11 looks for a method
        call = self.call = make(request, *self.args)
        request.unanswered = True
        return call

    def done(self, answer: int) -> bool:
        """Take the answer; return True."""
        request, call = self.request, self.call
        assert request is not None
        assert call is not None
        request.unanswered = call.unknown > 0
        # In this order: a Ctrl-C may come in between. From `end` on, any other call may remove the
        # latch. Then another copy would count again.
        self.ended, self.result = True, answer > 0
        self.requests.end(request)
        if answer == GIVEN and self.looked_at is not None:
            session = self.requests.session
            session.looks.given(self.looked_at, session.clock())
        return True

    def begun(self) -> bool:
        """Return whether there is a script to send."""
        return self.call is not None

    def refuse(self) -> None:
        """Note that nothing is sent."""
        self.ended = True

    def carry_on(self, failure: BaseException | None) -> Op[bool]:
        """Send it again, now or in the background."""
        if self.ended:
            return failing(failure)  # a Ctrl-C that came when it was answered
        return undoing(self._go_on(failure), self._leave)

    def over(self) -> bool:
        """Return whether it was answered, or left to the background."""
        return self.ended

    @property
    def looked_at(self) -> Given | None:
        """Return what to look at if the script tells another client that it is next."""
        return self.requests.looked_at

    def at_close(self) -> Eval[int] | None:
        """Return the script for a client that closes; None if it has not begun, or is over."""
        return None if self.ended or self.call is None else self.call.anew()

    def _made(self) -> Eval[int]:
        """Return the script, now that nothing comes first any more."""
        self.first = None
        call = self.call or self.begin()
        assert call is not None
        return call

    def _go_on(self, failure: BaseException | None) -> Op[bool]:
        if failure is None and self.first is not None:
            _ = yield from self.first
        call, request = self._made(), self.request
        assert request is not None
        if failure is None:
            request.unanswered = False  # nothing was sent
        _ = self.done((yield from self.requests.send(request, call, failure)))
        return self.result

    def _leave(self, error: BaseException) -> Op[None]:
        """Leave the script to the background if it may not have been executed, because of *error*.

        After a Ctrl-C it is sent in any case: it may have come between two tries, the first of
        which was not sent. If *error* ended what comes first, the script is sent if the server did
        not answer that.
        """
        request = self.request
        if request is None:
            needed = isinstance(error, ServerUnavailableError) or not isinstance(error, Exception)
        else:
            struck = not isinstance(error, InterlockError)
            needed = request.unanswered or struck or getattr(error, "transient", False)
        # Not if it was answered: any other call may have removed its latch since.
        if needed and not self.ended:
            yield from self.requests.clean_up(self._made(), error)
        self.ended = True
