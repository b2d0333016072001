"""What outlives a call: the client's holds, garbage and renewals, and how a call is sent again."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock._core.insight.observing import Observing
from interlock._core.model.effects import GRACE, NEVER, Wait
from interlock._core.model.hold import ENDED, LOST, Claim, Hold
from interlock._core.model.names import GRANT, WRITES, check_one_slot, draw, packed_text
from interlock._core.model.tokens import Tokens
from interlock._core.queue.places import Queues, nobody
from interlock._core.upkeep.garbage import Garbage
from interlock._core.upkeep.watchdog import RELEASE, RENEW, Errand, Watchdog
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock._core.locks.base import Lock
    from interlock._core.model.effects import Eval, Op
    from interlock._core.model.hold import Owner
    from interlock._core.objects.counter import Call
    from interlock.options import Options

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
RECENT, MOST_RECENT = 5.0, 1000
"""Seconds before the last release: what was released since is sent again to another server, if it
may not know that; and how many of these at most."""


class Answers(NamedTuple):
    """The outcomes of *errands*; their *sender* talks to one node."""

    errands: Sequence[Errand]
    outcomes: Sequence[Any]
    sender: object


def nothing(*_: object) -> None:
    """Log nothing."""


class Outside(NamedTuple):
    """What a session is given by its driver.

    Attributes:
        options: the client's.
        clock: returns the time.
        random: returns a number from 0 to 1 by chance.
        wake: puts something into the inbox of the upkeep: None to look around, a dead `Claim`,
            `Answers`, or the reference to an owner that has ended.
        tell_loss: calls those who listen for the loss of a hold.
        tell_forgotten: warns of a hold that nobody can release any more.
        epoch: returns how often another server has taken over, as far as is known here.
        clustered: whether several servers share the keys.
        counts_failovers: whether *epoch* counts all failovers.
        patience: seconds that a reply is waited for.
        note: logs what the server lacks, or is asked in vain, once for each event.
        took_over: returns how many seconds ago another server has taken over a key.
        database, where: what tells its database and its server from others.
        home: returns the driver of the client, or None if that is gone.
        caller: returns the reference to the owner that calls.
    """

    options: Options
    clock: Callable[[], float]
    random: Callable[[], float]
    wake: Callable[[object], object]
    tell_loss: Callable[[Hold], object]
    tell_forgotten: Callable[[Hold], object]
    epoch: Callable[[], int]
    clustered: bool
    counts_failovers: bool
    patience: float
    note: Callable[[str, str], object] = nothing
    took_over: Callable[[str], float] = lambda _key: NEVER
    database: str = ""
    where: str = ""
    home: Callable[[], object] = nothing
    caller: Callable[[], Callable[[], Owner | None]] = lambda: nobody


class Session:
    """The state of one client.

    Attributes:
        publish: the command that sends messages; empty if there are none.
        events: what observers and cards are told.
        parents: the ids of the clients of the processes that forked this one.
        replicas: the policy for replicas; None if they are not asked.
        tokens: the largest that are known of fenced locks.
        write_card: has the client's card written soon: a hold has a longer lease than most.
        named: the numbers of semaphores and latches that it has used, and was warned of.
        head: what the ids of its holds begin with, as arguments of commands.
        write_head: the same for those of writers.
        recent: when what was released lately; see `resend`.
        resent_at: when that was done last.
        live: all holds that have not ended, from before the first command on.
        calls: the same of the calls on what nobody owns, of their waits, and of their open blocks.
        due: when the upkeep looks around by itself.
    """

    def __init__(self, outside: Outside, client_id: str) -> None:
        self.outside, self.options = outside, outside.options
        self.clock, self.random, self.wake = outside.clock, outside.random, outside.wake
        self.publish, self.patience, self.home = "PUBLISH", outside.patience, outside.home
        policy = outside.options.replicas
        self.replicas = None if policy == "off" or policy.mode == "off" else policy
        self.events = Observing(self)
        self.parents = set[str]()
        self.write_card: Callable[[], object] = nothing
        self.named: dict[object, int | None] = {}
        self.tokens = Tokens()
        self.begin(client_id)

    def begin(self, client_id: str) -> None:
        """Begin with nothing, as a client of its own; in a forked child for the second time."""
        self.client_id = client_id
        self.head = packed_text(f"{client_id}:{'0' * 12}")[:-14]
        self.write_head = packed_text(f"{client_id}:{'0' * 12}{WRITES}")[: -14 - len(WRITES)]
        self.live: dict[Hold, None] = {}
        self.calls: dict[Call, None] = {}
        self.recent: deque[tuple[float, Lock, str]] = deque(maxlen=MOST_RECENT)
        self.due, self.resent_at = NEVER, 0.0
        self.queues = Queues(self)
        self.garbage = Garbage(self.queues)
        self.lines = self.queues.lines  # each acquire looks at them
        self.watchdog = Watchdog(self)
        self.events.begin()

    def key(self, name: str) -> str:
        """Return the Redis key that belongs to the user's *name*, which was checked.

        Raises:
            ConfigError: the keys of the object would be in several hash slots of the cluster.
        """
        if self.outside.clustered:
            check_one_slot(name)
        return (self.options.prefix or "") + name

    def is_parents(self, holder: str | None) -> bool:
        """Return whether *holder* is one of a process that forked this one."""
        return holder is not None and holder.partition(":")[0] in self.parents

    def new_id(self, lease: float) -> str:
        """Return the id of a new hold, as the argument of a command.

        A lease that is shorter than a grant stands in it. So whoever grants it the lock, and
        whoever releases it in its name, knows all that there is to know of it.
        """
        if lease >= GRANT:
            return f"{self.head}{draw()}\r\n"  # always of twelve digits
        return packed_text(f"{self.client_id}:{draw()}/{max(1, round(lease * 1000))}")

    def give_up(self, hold: Hold) -> None:
        """End *hold* here and now, and let the upkeep release it; no I/O, and repeatable."""
        hold.give_up_parts()
        if hold.over is None:
            if hold.unsure():
                self.garbage.add(hold)
            hold.over = ENDED
            for whole in hold.wholes():  # its client ends, or nobody is left who could release it
                if whole.over is LOST:
                    self.outside.tell_loss(whole)
                elif not whole.kept():
                    whole.leave_owner()
            if hold.since and self.events.observed:
                self.events.released(hold)
        self.live.pop(hold, None)
        self.calls.pop(hold, None)  # type: ignore[call-overload] # pyright: ignore[reportArgumentType]
        hold.leave_owner()
        self.queues.leave(hold)
        if hold in self.garbage.dead:
            self.wake(None)

    def forget(self, hold: Hold) -> None:
        """Give up *hold*, which nobody can release any more, and warn of that, or of its parts."""
        for part in hold.parts:
            part.lock.session.entry_gone(part, hold)
        entered = hold.depth > 0 and not hold.parts
        if entered:
            self.garbage.add(hold)
            hold.over = ENDED  # it is not released, as observers are told
        self.give_up(hold)
        if entered:
            self.events.abandoned(hold)
            self.outside.tell_forgotten(hold)

    def released(self, hold: Hold) -> None:
        """Note that the server has released *hold*."""
        if hold.asking or hold.resent:  # a copy of a try may still come
            self.garbage.add(hold)
            self.wake(None)
        elif hold.place is not None:
            self.queues.forget(hold)
        over, hold.over = hold.over, ENDED  # last: who is interrupted before releases it once more
        if over is None and self.events.observed:
            self.events.released(hold)

    def resend(self) -> None:
        """Release again what was released last, because another server may be there now.

        It may have taken over without these releases. An id is never used again, so that harms
        nobody if it is the same one. The release that has just failed is among them: so its caller
        often hears that nothing was there to release.
        """
        self.resent_at = self.clock()
        recent, self.recent = self.recent, deque(maxlen=MOST_RECENT)
        with suppress(IndexError):  # that is the end; another thread may be here, too
            since = recent[-1][0] - RECENT
            while True:
                at, lock, packed = recent.popleft()
                if at >= since:
                    self.garbage.add(Hold().of(lock, nobody, packed, self.options.lease, True))
                    self.wake(None)

    def follow_keys(self) -> None:
        """Ask the server that has taken over some keys; it may lack their holds, or releases."""
        self.resend()
        self.watchdog.follow_keys()
        self.wake(None)

    def sort(self, item: Any, now: float) -> bool:
        """Take one *item* of the inbox; return whether something may be due by that.

        Tasks end by the thousand and leave nothing, as a rule: a turn for each costs too much.
        """
        if isinstance(item, Answers):
            self._answered(item, now)
        elif isinstance(item, Claim):  # nothing can leave its block any more
            hold = getattr(item, "hold", None)  # a signal may strike before it has one
            if hold is not None:
                self.entry_gone(hold, item)
        elif item is not None:
            left = [hold for hold in list(self.live) if hold.owner is item]
            for hold in left:
                if hold.renewed and not hold.claimed():
                    self.forget(hold)
            return bool(left)
        return True

    def _answered(self, item: Answers, now: float) -> None:
        """Take what came of the errands that a lane was given."""
        if any(isinstance(each, ServerUnavailableError) for each in item.outcomes):
            self.resend()
        due, sent_at = list[Hold](), now
        count, failures = 0, list[Exception]()
        for errand, outcome in zip(item.errands, item.outcomes, strict=True):
            if errand.what is RELEASE:
                self.garbage.answered(errand.holds[0], outcome, now)
                continue
            self.watchdog.answered(errand, outcome, now)
            if errand.what is RENEW:
                due.extend(errand.holds)
                sent_at = errand.sent_at
                if isinstance(outcome, Exception):
                    failures.append(outcome)
                else:
                    count += sum(outcome)
        self.events.renewal(item.sender, due, sent_at, count, failures)

    def entry_gone(self, hold: Hold, entry: object) -> None:
        """Note that nobody is left who could end this *entry* of *hold*."""
        if entry in hold.entries and hold.over is None:
            if hold.depth == 1:
                self.forget(hold)
            hold.drop(entry)

    def turn(self, now: float) -> list[Errand]:
        """Return what is to be released and renewed at *now*, and let those look who shall."""
        places = list(self.queues.places.values())
        renewals = self.watchdog.due(now, places)
        for hold in places:  # what ended it was interrupted
            if hold.over is not None and hold not in self.garbage.dead and hold not in self.live:
                self.queues.forget(hold)
        self.queues.turn(now)
        dead = self.garbage.due(now)
        releases = [Errand(RELEASE, hold.lock.down(hold, 0), [hold], now) for hold in dead]
        return [*releases, *renewals]

    def put_off(self, errands: Sequence[Errand], now: float) -> None:
        """Note that *errands* could not be sent."""
        for errand in errands:
            if errand.what is RELEASE:
                self.garbage.put_off(errand.holds[0], now)
            else:
                self.watchdog.put_off(now)

    def plan(self, now: float) -> float:
        """Return when to come again, unless something is put into the inbox before."""
        # Whoever wants it earlier compares with this, and wakes the upkeep; or the second look at
        # what is due sees him.
        self.due = self._next_due(now)
        self.due = min(self.due, self._next_due(now))
        return self.due

    def _next_due(self, now: float) -> float:
        return min(self.garbage.next_due(), self.watchdog.next_due(), self.queues.next_due(now))

    def attempt(
        self, call: Eval[Any], until: float, hold: Hold, failure: Exception | None = None
    ) -> Op[Any]:
        """Send *call*, by which *hold* asks, until it is answered; return the answer.

        A timeout of the caller's own may outlast an outage; without one it is given up as in
        `persist`. A try whose time is up already has time for a second one if its connection was
        dead.
        """
        began = self.clock() if failure is None else hold.sent_at
        sending = self.persist if until == NEVER else self._send
        return sending(call, max(until, began + GRACE), hold, failure)

    def persist(
        self,
        call: Eval[Any],
        until: float,
        hold: Hold | None = None,
        failure: Exception | None = None,
    ) -> Op[Any]:
        """Send *call* until it is answered, again after *failure*; return the answer.

        Args:
            call: the script; sending it twice changes nothing.
            until: when to give up; also after an outage of `Options.outage_timeout`.
            hold: what it acquires, if it does; `Lock.granted` takes the answer.
            failure: of the first try, if that was made.
        """
        until = min(until, self.clock() + self.options.outage_timeout)
        return self._send(call, until, hold, failure)

    def _send(
        self, call: Eval[Any], until: float, hold: Hold | None, failure: Exception | None
    ) -> Op[Any]:
        clock, pause = self.clock, FIRST_PAUSE
        while True:
            if failure is None:
                if hold is not None:
                    hold.ask(clock())
                try:
                    return call.script.decode((yield call))
                except ServerUnavailableError as error:
                    failure = error
                except Exception as error:
                    if hold is not None:  # the server has refused it, or given too few copies of it
                        hold.asking = getattr(error, "sent", False)
                    raise
            if hold is not None and not getattr(failure, "sent", True):
                hold.asking = False
            now = clock()
            if not getattr(failure, "transient", False):
                raise failure
            self.resend()
            if now >= until:
                raise failure
            yield from Wait(None, min(now + pause, until))
            pause, failure = min(2 * pause, LONGEST_PAUSE), None
