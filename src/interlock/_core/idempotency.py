"""How a call that cannot be repeated becomes one that can.

An id of its own, and a latch that remembers its answer.

Theory. A lock's scripts name the depth to reach and may run any number of times. A counter has no
such thing: an INCRBY that is sent again after a lost reply counts twice. So each call has a key
of its own, its latch. The script that runs first writes there what it did; every copy that
arrives later finds that, does nothing and answers the same. An undo writes the latch too, so that
a copy which arrives after it does nothing.

Rules:

* A latch outlives every copy of its call. They are sent for a command time-out, the outage
  time-out and the command time-out of the last try, or until the caller's deadline; then in the
  background for another outage time-out. What is left is for their way.
* The id is made of the client's own and a counter, and only then of randomness: a program may
  seed its generator, and two processes that did so alike must not take each other's answers for
  their own.
* The next call through the same object removes the latch of one that was answered; that costs
  nothing. It stays, to expire, where any copy was not answered and may still arrive.
* A latch that was given to a later call may be gone, so it undoes nothing any more. All copies of
  its own call were answered, so the opposite of that is sent, with a latch of its own.

Source: the unlock latch of Redisson 4.7.0.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from interlock._core import names
from interlock._core.effects import NEVER, Step, Whole, failing, undoing
from interlock.errors import ClosedError, InterlockError, ServerUnavailableError
from interlock.options import MAX_LEASE

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.effects import Eval, Op, R
    from interlock._core.session import Session

    Make: TypeAlias = Callable[["IdempotentCall"], Eval[R]]
    """Makes a script with the latch of a request.

    While a step is performed, not before: a client learns with its first operation how to publish.
    """

MAX_OLD_LATCHES = 64
"""Latches that an object remembers to remove; what is beyond expires by itself."""

_numbers = itertools.count(1)


def new_id(session: Session) -> str:
    """Return 32 hex digits that nobody else has."""
    seed = f"{session.client_id} {next(_numbers)} {session.random()} {session.clock()}"
    return hashlib.blake2b(seed.encode(), digest_size=16).hexdigest()


class IdempotentCall:
    """One call.

    Attributes:
        key: its latch.
        ttl: seconds for which the latch is kept.
        old_latch: the latch of an earlier call, to be removed on the way; a key that is never
            there when there is none.
        id: what tells it from all others.
        unanswered: True when a copy was sent that was not answered, and may still arrive.
        done: True when it was executed and has not been undone.
        answer: what it was answered.
        ended: True when a later call may remove the latch.
        opposite: the call that makes up for it when its latch is gone.
    """

    __slots__ = (
        "answer",
        "done",
        "ended",
        "id",
        "key",
        "old_latch",
        "opposite",
        "ttl",
        "unanswered",
    )

    def __init__(self, key: str, ttl: float, old_latch: str, id_: str = "") -> None:
        self.key = key
        self.id = id_
        self.ttl = ttl
        self.old_latch = old_latch
        self.unanswered = self.done = self.ended = False
        self.answer: object = None
        self.opposite: Eval[bool] | None = None

    def settled(self) -> bool:
        """Return whether there is nothing to undo."""
        return not (self.unanswered or self.done)


class IdempotentCalls:
    """The calls through one object.

    Args:
        session: the client's state.
        key: the object's key.
        latch: returns the latch of a request for *key*.
    """

    def __init__(
        self, session: Session, key: str, latch: Callable[[str, str], str] = names.request_latch
    ) -> None:
        self.session = session
        self._key = key
        self._latch = latch
        self._old_latches: deque[str] = deque(maxlen=MAX_OLD_LATCHES)

    def begin(self, deadline: float = NEVER) -> IdempotentCall:
        """Return a new call that may be sent until *deadline*."""
        session = self.session
        try:
            old_latch = self._old_latches.popleft()
        except IndexError:
            old_latch = self._latch(self._key, "none")
        id_ = new_id(session)
        return IdempotentCall(self._latch(self._key, id_), self.ttl(deadline), old_latch, id_)

    def ttl(self, deadline: float = NEVER) -> float:
        """Return the seconds for which a latch is kept, of a call sent until *deadline*."""
        session = self.session
        late = 2 * session.options.command_timeout + session.options.outage_timeout
        last = late if deadline == NEVER else max(late, deadline - session.clock())
        return min(last + late, MAX_LEASE)

    def send(self, request: IdempotentCall, call: Eval[R]) -> Op[R]:
        """Send *call*, a script with the latch of *request*, until a reply is read.

        Keeps track of unanswered copies.

        Raises:
            ServerUnavailableError: as `Session.persist`.
        """
        unanswered, request.unanswered = request.unanswered, True
        try:
            answer = yield from self.session.persist(call)
        except InterlockError as error:
            self.failed(request, error, before=unanswered)
            raise
        # In this order: a Ctrl-C may strike in between, and until the caller has the answer.
        request.answer = answer
        request.done = bool(answer)
        request.unanswered = unanswered or call.unknown > 0
        return answer

    def end(self, request: IdempotentCall) -> None:
        """Note that the answer to *request* was read."""
        if not request.unanswered:
            request.ended = True
            self._old_latches.append(request.key)

    def carried_through(self, make: Make[bool]) -> CarriedThrough:
        """Return the step that sends what *make* makes.

        Interrupted anywhere, it is sent until it is answered all the same.
        """
        return CarriedThrough(self, make)

    def failed(
        self, request: IdempotentCall, error: BaseException | None, *, before: bool = False
    ) -> None:
        """Note by what *error* a call ended; *before*: a copy was sent and not answered already."""
        if isinstance(error, InterlockError) and not isinstance(error, ClosedError):
            # What the server refused, or was never sent, is not under way any more.
            request.unanswered = before or error.sent

    def undone(
        self, request: IdempotentCall, make: Make[R], undo: Make[bool], opposite: Make[bool]
    ) -> Step[R]:
        """Return the step that sends what *make* makes; `retract` undoes it if interrupted."""
        op = undoing(self._send_and_end(request, make), self.retract, request, undo, opposite)
        return Whole(op, request.settled, partial(self.retract, request, undo, opposite))

    def _send_and_end(self, request: IdempotentCall, make: Make[R]) -> Op[R]:
        answer = yield from self.send(request, make(request))
        self.end(request)
        return answer

    def retract(
        self, request: IdempotentCall, undo: Make[bool], opposite: Make[bool], error: BaseException
    ) -> Op[None]:
        """Undo *request*, which ended by *error*, if it may have done something or do it yet.

        By *undo*, or by *opposite*, with a latch of its own, if another call was given the latch to
        remove.
        """
        if request.settled():
            return
        call = None
        if request.ended:
            try:
                # First of all: from now on no other call removes it.
                self._old_latches.remove(request.key)
                request.ended = False
            except ValueError:
                # Once only: this may be interrupted and begun again.
                call = request.opposite = request.opposite or opposite(self.begin())
        yield from self._clean_up(call or undo(request), error)
        request.unanswered = request.done = False

    def go_on(self, request: IdempotentCall, call: Eval[bool], error: BaseException) -> Op[None]:
        """Have *call* sent in the background if *request*, which ended by *error*, may not have been executed."""
        if request.unanswered or getattr(error, "transient", False):
            yield from self._clean_up(call, error)

    def _clean_up(self, call: Eval[bool], error: BaseException) -> Op[None]:
        until = self.session.clock() + self.session.options.outage_timeout
        yield from self.session.clean_up_after(error, call, until)


class CarriedThrough(Step[bool]):
    """A call that is executed once and for all.

    An interruption anywhere leaves it to the background.
    """

    __slots__ = ("_call", "_make", "_over", "_request", "_requests", "result")

    def __init__(self, requests: IdempotentCalls, make: Make[bool]) -> None:
        self._requests = requests
        self._make = make
        self._request: IdempotentCall | None = None
        self._call: Eval[bool] | None = None
        self._over = self.result = False

    def begin(self) -> Eval[bool]:
        """Return the call."""
        request = self._request = self._requests.begin()
        call = self._call = self._make(request)
        request.unanswered = True
        return call

    def done(self, answer: bool) -> bool:
        """Take the answer; return True."""
        assert self._request is not None
        self._request.unanswered = False
        self._requests.end(self._request)
        self._over, self.result = True, answer
        return True

    def rest(self, failure: BaseException | None) -> Op[bool]:
        """Send it again, now or in the background."""
        if self._request is None or self._call is None:
            if isinstance(failure, Exception):
                self._over = True
                return failing(failure)
            self._request = None
            _ = self.begin()
        assert self._request is not None
        assert self._call is not None
        assert failure is not None
        return self._go_on(self._request, self._call, failure)

    def over(self) -> bool:
        """Return whether it was answered, or left to the background."""
        return self._over

    def _go_on(self, request: IdempotentCall, call: Eval[bool], failure: BaseException) -> Op[bool]:
        answer = yield from undoing(self._again(request, call, failure), self._leave, request, call)
        self._over, self.result = True, answer
        self._requests.end(request)
        return answer

    def _leave(self, request: IdempotentCall, call: Eval[bool], error: BaseException) -> Op[None]:
        yield from self._requests.go_on(request, call, error)
        self._over = True

    def _again(self, request: IdempotentCall, call: Eval[bool], failure: BaseException) -> Op[bool]:
        self._requests.failed(request, failure)
        if not isinstance(failure, ServerUnavailableError):
            raise failure
        try:
            answer = yield from self._requests.session.again(call, failure)
        except InterlockError as error:
            self._requests.failed(request, error)
            raise
        request.unanswered = call.unknown > 0
        return answer
