"""The plain lock's algorithm, part one: acquire and re-enter. `release` has the rest.

Each command names a target, not a change: the depth that a holder id is to reach, or a place in the
queue. So any of them may be sent again, and a copy that comes late finds an id that nobody uses.

An interrupted call undoes nothing. `give_up` ends the hold in our own tables, and the rest is
garbage: when the error reaches the caller, the release is under way.

    acquire     the script with one key; nobody pays for a queue that does not exist
    refused     stand in the queue: hear its messages, then ask (`Lock.wait`)
    told        start with the grant, or ask if in doubt
    release     gives the lock to the first in the queue; a reply tells if that is one of ours

Source: RLock, Redisson 4.7.0.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Self

from interlock._core.locks.errors import lost_error
from interlock._core.model.effects import GRACE, NEVER, Eval, Op, R, Step
from interlock._core.model.forms import HOLE, Form, Forms
from interlock._core.model.hold import ENDED, FIRST, KEPT, LEAST, LOST, OPEN, SLACK, Hold
from interlock._core.model.names import (
    GRANT,
    draw,
    forced_note,
    lock_channel,
    packed_text,
    shares_channels,
    waiting_channel,
    waiting_queue,
    wake_channel,
)
from interlock._core.model.replication import Replication
from interlock._core.queue.places import Line, news_for, nobody
from interlock._core.scripts import locks as scripts
from interlock._core.scripts.replies import Grant, News, Refusal, is_grant, milliseconds
from interlock.errors import InterlockError, ReentryError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlock._core.model.effects import Script
    from interlock._core.model.hold import Owner
    from interlock._core.scripts.locks import LockStatus
    from interlock._core.upkeep.session import Session


class Lock:
    """The algorithm of one lock, for all its owners in this client.

    A kind overrides what its scripts differ in: `asks`, `releases` and `own_keys`, or `_entering`,
    `_asking` and `_leaving` (its forms), `granted` if the answers differ, `renewing` with
    `renewed_with` if holds are renewed together, and `state` if its holders do not stand in a hash
    of its key, each with its depth. Without a queue on the server, `queues` is False, `channels`
    names one channel, and `line` is the class of those who wait here. A release that leaves entries
    sends the new depth: if `_leaving` ignores that, the kind is not reentrant.

    Args:
        session: the client's state.
        name: what the user calls it.
        key: of the hash on the server.
        reentrant: whether its owner may take it again.

    Attributes:
        queue: the key of the queue; empty if there is none, as another name has the same channels.
        channel: where Java listens.
        standing: by what its line is found.
        place: what an owner calls it in its own table.
        token_source: what kept the last token above all earlier ones.
        leave: the form of the usual release, once it is known how messages are sent.
        renewed_with: the key of the locks whose holds are renewed by one script.
    """

    kind = "lock"
    acquiring: ClassVar[Any]
    releasing: ClassVar[Any]
    extending: ClassVar[Any]
    breaking: ClassVar[Any]
    """The classes of the steps, here and in `release`, and what releases by force."""
    asks: ClassVar[Mapping[str, Script[Any]]] = scripts.ASK
    releases: ClassVar[Mapping[str, Script[Any]]] = scripts.RELEASE
    """Its scripts, by the command that sends their messages."""
    own_keys: tuple[str, ...] = ()
    """The keys of these between the lock's and those of the queue."""
    enters: ClassVar[bool] = True
    """Whether its first try is known before it is known how messages are sent."""
    queues = True
    """Whether its waiters stand in the queue."""
    waiters_apart = False
    """Whether no waiter loses its place by a release of its id by force."""
    in_turn = False
    """Whether its waiters of one client ask one after the other."""
    sides = False
    """Whether it is one of two, so that a refusal may name readers."""
    line: ClassVar[type[Line]] = Line
    """The class of the lines in which its waiters stand."""
    renewed_with = ""
    gone = ""
    """What else may have happened to a hold that the server does not have."""
    channel_of = staticmethod(lock_channel)
    """Returns where Java listens, from the key."""

    def __init__(self, session: Session, name: str, key: str, *, reentrant: bool = True) -> None:
        self.session, self.name, self.key, self.reentrant = session, name, key, reentrant
        self.channel = self.standing = self.channel_of(key)
        self.queue = "" if shares_channels(key) else waiting_queue(self.channel)
        self.place = f"{id(session)}:{key}"
        if session.outside.clustered:  # no script may have keys of several slots
            self.renewed_with = self.place
        self.token_source: str | None = None
        self._lasts = session.options.lease
        self._forms = Forms()
        self._enter = self._entering(session.options.lease, 1) if self.enters else None
        self.leave: Form | None = None

    def __repr__(self) -> str:
        return f"{self.kind} {self.name!r}"

    def channels(self, client: str) -> tuple[str, ...]:
        """Return Java's channel, that by which scripts count who waits, and that of *client*."""
        channel = self.channel
        return channel, waiting_channel(channel), wake_channel(channel, client)

    @property
    def publish(self) -> str:
        """Return the command that sends the messages of its releases; empty if there are none."""
        return self.session.publish

    # The commands. A kind with other scripts has its own forms.

    def _entering(self, lease: float, depth: int) -> Form:
        return Form(scripts.ACQUIRE, (self.key,), (milliseconds(lease), HOLE, depth))

    def _asking(self, lease: float, deaf: str) -> Form:
        return self._form(self.asks, milliseconds(lease), HOLE, self.channel, *deaf)

    def _leaving(self, depth: int, how: str) -> Form:
        return self._form(self.releases, HOLE, depth, self.channel, *how)

    def _form(self, variants: Mapping[str, Script[Any]], *args: str | int) -> Form:
        spare = self.queue_keys
        keys = (self.key, *self.own_keys, *spare)
        return self._made(variants[self.publish], keys, args, len(spare))

    def _made(self, *parts: Any) -> Form:
        return Form(*parts)

    @property
    def queue_keys(self) -> tuple[str, ...]:
        """The last keys of its scripts, which may be missing: they are about its waiters."""
        return (self.queue,) if self.queue else ()

    def call(self, hold: Hold, lease: float, depth: int) -> Eval[Any]:
        """Return the script by which *hold* reaches *depth* with a *lease*."""
        if depth == 1 and hold.renewed and self._enter is not None:
            return self._enter.of(hold)
        which = "enter", lease, depth
        form = self._forms.get(which) or self._forms.keep(which, self._entering(lease, depth))
        return form.of(hold)

    def ask(self, hold: Hold) -> Eval[Any]:
        """Return the script by which *hold* gets the lock, or a place in its queue."""
        place = hold.place
        deaf = "?" if place is not None and place.line.deaf else ""
        which = "ask", hold.lease, deaf
        form = self._forms.get(which) or self._forms.keep(which, self._asking(hold.lease, deaf))
        call = form.of(hold)
        if place is not None and place.came and not place.refused:
            # It names its place, which it may have lost only because nobody listened for a moment.
            call = call.anew()
            call.args = (*call.args, *([] if deaf else [""]), place.came)
        return call

    def down(self, hold: Hold, depth: int) -> Eval[Any]:
        """Return the script by which *hold* goes down to *depth*."""
        place = hold.place
        if depth == 0 and (place is None or not place.open):
            leave = self.leave
            if leave is None:
                leave = self.leave = self._leaving(0, "")
            return leave.of(hold)
        which = "leave", depth
        how = "" if depth else "1"
        form = self._forms.get(which) or self._forms.keep(which, self._leaving(depth, how))
        return form.of(hold)

    def give(self, holder: str, successor: str, lease: float) -> Eval[bool]:
        """Return the script by which *successor* takes the place of *holder*."""
        keys, args = (self.key, *self.queue_keys), (holder, successor, milliseconds(lease))
        return Eval(scripts.GIVE, keys, args, spare_keys=len(keys) - 1)

    def forced(self, holder: str) -> Eval[Any]:
        """Return the release of *holder* for another client, whose own waiters get a message too."""
        hold = Hold().of(self, nobody, packed_text(holder), GRANT, True)
        return self._leaving(0, "-").of(hold).anew()

    def victims(self) -> Op[list[str]]:
        """Return whose holds end if it is freed by force, in the order in which that is done."""
        return list((yield from self.status()).holders)

    # The steps of an acquire.

    def new_hold(self, owner: Owner, lease: float | None) -> Hold:
        session, lasts = self.session, self._lasts if lease is None else lease
        packed = f"{session.head}{draw()}\r\n" if lasts >= GRANT else session.new_id(lasts)
        return Hold().of(self, owner.reference, packed, lasts, lease is None)

    def first(self, hold: Hold, deadline: float) -> Eval[Any] | None:
        """Return the first try to acquire *hold*; None if `attempt` makes it."""
        session, clock = self.session, self.session.clock
        session.live[hold] = None
        if session.lines:
            line = session.lines.get(self.channel)
            if line is not None and line.ready and self._stands() and deadline > clock():
                # Somebody here has just waited for it: do not try in vain first.
                session.queues.stand(hold)
        hold.sent_at, hold.asking = clock(), True
        enter = self._enter
        if enter is None or hold.place is not None or session.replicas is not None:
            return self.confirmed(self.trial(hold, deadline), hold)
        return enter.of(hold) if hold.renewed else self.call(hold, hold.lease, 1)

    def confirmed(self, call: Eval[Any], hold: Hold) -> Eval[Any]:
        """Return *call*; replicas are asked about what it grants *hold*, if the client wants that."""
        policy = self.session.replicas
        if policy is not None:
            call = call.anew()
            call.replication = hold.replication = Replication(
                policy, repr(self), is_grant, hold.lease
            )
        return call

    def _stands(self) -> bool:
        """Return whether there is a queue to stand in."""
        return bool(self.queue and self.queues)

    def trial(self, hold: Hold, until: float) -> Eval[Any]:
        """Return the script by which *hold* tries to get the lock, for which it waits *until* then."""
        del until
        place = hold.place
        ready = place is not None and place.line.ready and self._stands()
        return self.ask(hold) if ready else self.call(hold, hold.lease, 1)

    def attempt(self, hold: Hold, until: float, failure: Exception | None) -> Op[Any]:
        """Try once to acquire *hold*; sent again after *failure*, and while there is no answer."""
        call = self.confirmed(self.trial(hold, until), hold)
        return self.session.attempt(call, until, hold, failure)

    def granted(self, hold: Hold, answer: Any) -> bool:
        """Take the *answer* to a try; return whether *hold* is valid now."""
        session, clock = self.session, self.session.clock
        if answer.__class__ is not Grant:
            hold.asking = False
            if answer.__class__ is Refusal:
                session.queues.refused(hold, answer)
            elif hold.place is not None:
                hold.place.sent = hold.sent_at
                session.queues.put_off(hold.place.line, answer)
            return False
        until = hold.valid_until = hold.sent_at + hold.lease * KEPT - SLACK
        hold.asking = False  # not earlier: at each instant one of the two says that it is held
        now = hold.since = clock()
        if now < until:
            return True
        session.outside.note(
            "lease.too_short",
            f"the answer to an acquire of {self!r} came after its lease of {hold.lease:g} s: it is "
            "tried again. A lease must be longer than the way to the server and back",
        )
        return False  # somebody else may have it by now

    def started(self, hold: Hold, news: News) -> bool:
        """Return whether *hold*, which waits, is valid by the *news*; if not, it asks.

        A lease of the user's own that a grant does not cover is asked for: it is whole when the
        acquire returns. And who wants replicas to acknowledge asks.
        """
        place, now = hold.place, self.session.clock()
        assert place is not None
        until = place.granted_until(news, hold.lease, now)
        own = not hold.renewed and hold.lease > GRANT
        if not until or own or self.session.replicas is not None:
            return False
        hold.since = now
        hold.sent_at = now  # or the watchdog might think that its acquire was interrupted
        hold.valid_until = until
        if hold.renewed:
            place.prolong_at = now + GRANT / 6
        return True

    def renewing(self, group: Sequence[Hold], lease: float) -> Eval[list[bool]]:
        """Return the script that keeps *group* for *lease* seconds; its first hold is of this lock."""
        if len(group) > 1:
            holders = (hold.holder for hold in group)
            keys = tuple([hold.lock.key for hold in group])
            return Eval(scripts.RENEW, keys, (milliseconds(lease), *holders))
        which = "renew", lease
        form = self._forms.get(which) or self._forms.keep(which, self._renewing(lease))
        return form.of(group[0])

    def _renewing(self, lease: float) -> Form:
        return Form(scripts.RENEW, (self.key,), (milliseconds(lease), HOLE))

    def owning(self, number: bytes) -> Lock:
        """Return the lock that a hold with *number* is of; messages are for both sides of one."""
        del number
        return self

    # What the server knows of it.

    def state(self) -> Eval[LockStatus]:
        """Return the script that tells who holds it."""
        return Eval(scripts.QUERY, (self.key,), ())

    def query(self) -> Eval[LockStatus]:
        """Return the script that tells who keeps others from it, to be answered at once."""
        call = self.state()
        call.deadline = self.session.clock() + PROMPT
        return call

    def status(self) -> Op[LockStatus]:
        return self.session.persist(self.state(), NEVER)

    def depth_of(self, hold: Hold) -> Op[int]:
        """Return how deep *hold* is if the server has it, else 0."""
        found = yield from self.status()
        if found.holders.get(hold.holder):  # 0: it has some of the values of a group
            return hold.depth
        self.session.watchdog.gone(hold)
        return 0

    def present_holder(self) -> Op[tuple[Lock, str | None]]:
        """Return the lock, and who holds it, if somebody does and the server answers at once."""
        call = self.query()
        try:
            found = call.script.decode((yield call))
        except InterlockError:
            return self, None
        return self, next(iter(found.holders), None)

    def wait(self, hold: Hold, deadline: float) -> Op[bool]:
        """Wait for *hold*, which was refused once; return whether it is held now."""
        while (news := (yield from news_for(hold, deadline))) is not None:
            if self.started(hold, news):
                return True
            if self.granted(hold, (yield from self.attempt(hold, deadline, None))):
                return True
            if hold.valid_until and self.session.clock() >= deadline:
                return False  # answers take longer than the lease: it would ask for ever
        return False

    def ask_why(self, hold: Hold) -> Op[None]:
        """Lose *hold*, which the server does not have: read the note that an operator may have left."""
        session = self.session
        answer: Any = None
        if session.clock() >= hold.valid_until:
            session.watchdog.lose(hold, hold.expiry_reason())
            return
        if session.options.card:
            call = scripts.forced_note_read(forced_note(self.key, hold.holder))
            try:
                answer = call.script.decode((yield call))
            except InterlockError as error:
                answer = error
        session.watchdog.explain(hold, answer)

    def excludes(self, hold: Hold) -> bool:
        """Return whether *hold*, which another owner has, keeps this lock from being acquired."""
        return hold.lock.place == self.place


PROMPT = 0.5
"""Seconds that an error about a holder waits for the answer who that is."""


def note_entered(hold: Hold) -> None:
    """Note that *hold* was entered; this is the last step of an acquire, if it has one."""
    session = hold.lock.session
    if hold.over is not None:  # it stood still for long: see `Watchdog`
        session.garbage.add(hold)
        raise lost_error(hold)
    if session.events.observed:
        session.events.acquired(hold, hold.sent_at)
    session.events.end_wait(hold, None)
    place = hold.place
    if place is not None:
        place.open = place.open or place.line.deaf  # it cannot know, and Java shall have turns
        session.queues.leave(hold)
    if not hold.renewed:
        session.wake(None)  # to tell when it ends
        if hold.lease > session.options.lease:
            session.write_card()


def settle(
    step: Step[R], call: Eval[Any], hold: Hold, failure: Exception | None, until: float = NEVER
) -> Op[R]:
    """Send the *call* of *step* again after *failure*, while *hold* is valid; or raise that it is lost."""
    if failure is not None:
        until = min(until, hold.valid_until)
        if step.done((yield from hold.lock.session.persist(call, until, failure=failure))):
            return step.result
    if hold.over is None:
        yield from hold.lock.ask_why(hold)
    raise lost_error(hold)


def let_go(hold: Hold) -> Op[None]:
    """Release *hold*, since time is up; without an answer at once the background does it."""
    session, call = hold.lock.session, hold.lock.down(hold, 0).anew()
    call.deadline = session.clock()
    with suppress(InterlockError):
        answer = call.script.decode((yield call))
        session.garbage.answered(hold, answer, session.clock())
        if hold not in session.garbage.dead:
            hold.over = ENDED


class Acquire(Step["Hold | None"]):
    """An acquire or re-entry by *owner*; the result is the hold, or None when time is up.

    Args:
        lock: the lock.
        owner: who acquires.
        deadline: when to stop waiting.
        lease: seconds after which the hold ends by itself; None if it is renewed.
        entry: what stands for it in `Hold.entries`: a `Claim` or a `Job`; None for the owner.
    """

    __slots__ = (
        "_again", "_call", "_deadline", "_entry", "_lease", "_lock", "_owner", "_sent_at", "hold",
    )  # fmt: skip

    def of(
        self,
        lock: Lock,
        owner: Owner,
        deadline: float,
        lease: float | None = None,
        entry: object = None,
    ) -> Self:
        self._lock, self._owner, self._deadline, self._lease = lock, owner, deadline, lease
        self._entry = FIRST if entry is None else entry
        self._again = False
        self.hold: Hold | None = None
        return self

    def begin(self) -> Eval[Any] | None:
        """Put a hold into the owner's table; return the first try, or the script of a re-entry."""
        lock, owner = self._lock, self._owner
        table, place = owner.table, lock.place
        found = table.get(place)
        if found is not None:
            if len(found.entries) >= LEAST:
                found.bury()
                if (now := lock.session.clock()) >= found.valid_until:
                    lock.session.watchdog.expire(found, now)
            if found.over is LOST:
                self._refuse_lost(found)
            elif self._entered(found):
                return self._enter_again(found)
            if found.over is None and not found.valid_until:
                # A call below this one acquires it: a signal handler or finalizer asks.
                raise ReentryError(
                    f"{lock!r} is just being acquired by the same owner", name=lock.name
                )
            # It is over and forgotten, or just being released.
            lock.session.give_up(found)
        if not owner.alone_in:
            owner.refuse_vain_wait(lock, self._deadline)
        hold = self.hold = table[place] = lock.new_hold(owner, self._lease)
        if owner.cell is not None:
            hold.come_among(owner.cell)
        return lock.first(hold, self._deadline)

    def _refuse_lost(self, found: Hold) -> None:
        """Raise that *found* is lost, unless it was left to its own lease, outside of blocks."""
        if found.depth and not found.ran_out():
            raise lost_error(found)

    def _entered(self, found: Hold) -> bool:
        """Enter *found* again if it is held; another flow may release it just now."""
        if len(found.entries) < LEAST or found.over is not None:
            return False
        if not self._lock.reentrant:
            raise ReentryError(
                f"{self._lock!r} is not reentrant, and {self._owner.label} holds it",
                name=self._lock.name,
            )
        if self._entry is FIRST:
            self._entry = object()
        self.hold = found  # what `give_up` looks at
        return found.enter(self._entry)

    def _enter_again(self, found: Hold) -> Eval[Any] | None:
        session = self._lock.session
        self._again = True
        lease = session.options.lease if self._lease is None else self._lease
        self._sent_at = session.clock()
        self._call = self._lock.call(found, lease, len(found.entries) - 1)
        return self._call

    def done(self, answer: Any) -> bool:
        hold, lock = self.hold, self._lock
        assert hold is not None
        if self._again:
            if answer.__class__ is not Grant or hold.over is not None:
                return False
            lease = lock.session.options.lease if self._lease is None else self._lease
            hold.grant(self._sent_at, lease)
            hold.renewed = hold.renewed or self._lease is None
            self.result = hold
            return lock.session.clock() < hold.valid_until
        if not lock.granted(hold, answer):
            return False
        self.result = hold
        hold.entries = [OPEN, self._entry]
        told = lock.session.events.observed
        if told or hold.over is not None or hold.place is not None or not hold.renewed:
            note_entered(hold)
        return True

    def rest(self, failure: Exception | None) -> Op[Hold | None]:
        """Ask again after *failure*; wait for the lock; or raise that the hold is lost."""
        hold, lock, session = self.hold, self._lock, self._lock.session
        assert hold is not None
        if self._again:
            until = max(self._deadline, self._sent_at + GRACE)
            return (yield from settle(self, self._call, hold, failure, until))
        began = hold.sent_at or session.clock()
        tried = failure is None and hold.sent_at
        if not tried and self.done((yield from lock.attempt(hold, self._deadline, failure))):
            return hold
        if session.clock() < self._deadline:
            session.events.begin_wait(hold, began)
            if (yield from lock.wait(hold, self._deadline)):
                hold.entries = [OPEN, self._entry]
                note_entered(hold)
                return hold
            session.events.end_wait(hold, None)
        if hold.place is not None and hold.place.sent:
            yield from let_go(hold)
        self.give_up()
        return None

    def give_up(self) -> None:
        """End the hold, or only this entry of it."""
        hold = self.hold
        if hold is None:
            return
        self._lock.session.events.end_wait(hold, sys.exception())
        if not (hold.entries or self._again):
            hold.since = 0.0  # it never was held, as observers are told
        if hold.leave(self._entry) or not hold.entries:
            if hold.over is LOST:
                hold.leave_owner()
            else:
                self._lock.session.give_up(hold)


Lock.acquiring = Acquire
