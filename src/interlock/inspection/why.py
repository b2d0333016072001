"""Say in plain sentences why a lock is as it is, and what to do: `interlock why` and the console.

Rules:

* A sentence tells only what the server or a card shows. All else is unknown, and the text says so.
* Dead, silent and alive are those of `ClientInfo.state`. A lease that ends is told with its time.
* A command that breaks something is told only where waiting does not help.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from interlock._core.insight.card import LASTING, MOST
from interlock._core.insight.events import tell_loss
from interlock._core.insight.observing import ENDLESS
from interlock.inspection.words import by_ticket, clock_at, counted, duration, given_to, left_locked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from interlock.inspection.deadlocks import Deadlock
    from interlock.inspection.info import ClientInfo, EndInfo, HolderInfo, LockInfo, WaiterInfo

TOLD = 3
"""Groups of holders that are told one by one."""
LISTED = 10
"""Holder ids and waiters that are named."""
LONG_TURN = 30.0
"""Seconds of a wait during which a lock that is held for less has changed hands."""
NEW = 600
"""Seconds after the start of a server in which it may explain what is missing."""
LOSSES = {
    "expired": "its lease ran out",
    "force-released": "it was released by force",
    "server lost it": f"it was {tell_loss('server lost it')}",
    "unreachable past validity": "no renewal succeeded until the lease had run out",
}
"""The reason of a loss -> in words."""


@dataclass(frozen=True, slots=True)
class Account:
    """Why a lock is as it is.

    Attributes:
        name: of the lock.
        state: ``"free"``, ``"held"``, ``"awaited"``, ``"late"``, ``"silent"``, ``"dead"`` or
            ``"deadlock"``.
        sentences: one fact each.
        commands: what to type, the first one first.
    """

    name: str
    state: str
    sentences: tuple[str, ...]
    commands: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return the paragraph."""
        return " ".join(self.sentences)


def explain(
    name: str,
    info: LockInfo | None,
    *,
    ends: Sequence[EndInfo] = (),
    deadlocks: Sequence[Deadlock] = (),
    beside: Mapping[str, str] | None = None,
    uptime: int | None = None,
) -> Account:
    """Return the account of one lock.

    Args:
        name: of the lock.
        info: what is known of it; None if nobody holds or awaits it.
        ends: how its holds ended, the newest first.
        deadlocks: of any locks.
        beside: of `Reader.beside`.
        uptime: seconds since the last start of a server; None if that is not known.
    """
    rings = [each for each in deadlocks if any(step.waits_for == name for step in each.steps)]
    if info is None:
        told = [*_nobody(name, beside or {}, None if ends else uptime)]
    else:
        told = [*_holders(info), *_waiters(info), *map(_ring, rings)]
    told += [_end(each) for each in ends[:1]]
    state = "free" if info is None else _state(info, rings)
    advice, commands = ("", ()) if info is None else _advice(info, state)
    return Account(name, state, (*told, *filter(None, [advice])), commands)


def _state(info: LockInfo, rings: Sequence[Deadlock]) -> str:
    if info.dead:
        return "dead"
    if rings or info.deadlock:
        return "deadlock"
    if info.silent or info.late:
        return "silent" if info.silent else "late"
    if info.holders or info.awaited:
        return "held" if info.holders else "awaited"
    return "free" if info.free else "held"


def _nobody(name: str, beside: Mapping[str, str], uptime: int | None) -> Iterator[str]:
    """Yield what is known of a lock that nobody holds or awaits."""
    if "event_waiters" not in beside:
        yield f"Nobody holds or awaits {name!r}."
    yield from objects_of(name, beside)
    if uptime is not None and uptime < NEW:
        yield (
            f"A server was started {duration(uptime)} ago, at {clock_at(uptime)}: what it did not "
            "keep on disk is lost, and holders may not know it yet."
        )


def objects_of(name: str, found: Mapping[str, str]) -> Iterator[str]:
    """Yield what was *found* of other objects with this name, by `Reader.beside`."""
    if foreign := found.get("key"):
        # Somebody may have acquired the lock since it was looked at, and a lock is a hash.
        lasts = "if that lasts, " if foreign == "hash" else ""
        yield (
            f"The key {name!r} is a {foreign} without a holder: {lasts}another program uses it, "
            "perhaps as a lock of another library, and nobody can acquire a lock of that name."
        )
    if event := found.get("event"):
        yield f"The event {name!r} is {event}."
    if waiting := found.get("event_waiters"):
        waits = "client waits" if waiting == "1" else "clients wait"
        yield f"{waiting} {waits} for the event {name!r}, which is not set."
    if "condition" in found:
        yield f"Somebody waits for the condition {name!r}."
    if "barrier" in found:
        yield f"Somebody waits at the barrier {name!r}."
    if count := found.get("count_down_latch"):
        yield f"The latch {name!r} is open; it was set up with the count {count}."
    if permits := found.get("semaphore"):
        yield (
            f"The semaphore {name!r} had {permits} permits, and is gone: another program has "
            "deleted it, or the server has evicted it."
        )


def _person(client: ClientInfo, thread: str, holder: str) -> str:
    """Return who holds or waits."""
    if by_ticket(client):
        reason = f" ({thread})" if thread else ""
        if not client.host:
            return "a ticket that nobody announced, of a task in a queue or a hold given away"
        return f"a ticket of {client.host}{reason}"
    if left_locked(client):
        return "a call that has ended, and left it locked for a least time (min_hold)"
    place = f"pid {client.pid} on {client.host}" if client.pid and client.host else ""
    program = f"{client.program} ({place})" if client.program and place else place
    if thread and program:
        return f"{thread} of {program}"
    return program or thread or f"{holder} (no card tells its process)"


def _holders(info: LockInfo) -> Iterator[str]:
    kind = "lock" if info.mode else info.kind.replace("_", " ")
    what = f"The {info.mode} {kind} {info.name!r}".replace("  ", " ")
    if info.free is not None:
        what = ""
        yield from _number(info, kind)
    elif not info.holders:
        yield f"Nobody holds the {kind} {info.name!r} now."
    left = info.holder_count
    for group in _groups(info)[:TOLD]:
        left -= len(group)
        yield from _group(what, group)
    if left > 0:
        yield f"There {'is' if left == 1 else 'are'} {counted(left, 'more holder')}."
    if info.token is not None:
        yield f"Its last fencing token is {info.token}."


def _number(info: LockInfo, kind: str) -> Iterator[str]:
    """Yield what is known of permits, or of the count of a latch."""
    free, total = info.free or 0, info.total
    if info.kind == "count_down_latch":
        yield f"The latch {info.name!r} is at {free}{f' of {total}' if total else ''}, and opens at 0."
        return
    if info.kind == "semaphore" and not info.awaited and total is None:
        yield (
            f"The number {info.name!r} is {free}: the free permits of a semaphore, or the count of "
            "a latch. The server does not show which, or who holds permits."
        )
        return
    held = f"{counted(info.holder_count, 'permit')} held and " if info.holders else ""
    yield f"The {kind} {info.name!r} has {held}{free} free."
    if total is not None:
        story = f"so {total - free} are taken, unless Java has changed it"
        if free > total:
            story = "so Java has added some, or somebody has released more than was acquired"
        yield f"Python has set {total} in all, {story}."
    if info.kind == "semaphore":
        yield "The server does not show who holds its permits."
        if info.awaited and free < 1:
            yield (
                "Those of a program that has died do not come back by themselves: "
                f"client.semaphore({info.name!r}).release(n) gives n of them back."
            )


def _health(each: HolderInfo) -> tuple[bool, bool, bool]:
    """Return the key to sort holders by: dead ones come first, then silent ones, then late ones."""
    return (not each.client.dead, each.client.answering is not False, not each.late)


def _groups(info: LockInfo) -> list[list[HolderInfo]]:
    """Return holders of whom one sentence tells: those of one client, or all without a card."""
    groups: dict[tuple[object, ...], list[HolderInfo]] = {}
    for each in sorted(info.holders, key=_health):
        client = each.client
        unknown = client.answering is None and not (by_ticket(client) or left_locked(client))
        key = (unknown or client.client_id, each.claim, each.late, bool(each.renewed))
        groups.setdefault(key, []).append(each)
    return list(groups.values())


def _group(what: str, group: Sequence[HolderInfo]) -> Iterator[str]:
    """Yield the sentences about holders that are alike; *what* they hold, empty for permits."""
    first, number = group[0], len(group)
    if first.claim:
        given = what or counted(number, "permit")
        yield f"{given} {'is' if what or number == 1 else 'are'} {given_to(first)} just now."
        return
    threads = {each.thread for each in group if each.thread}
    if first.client.answering is None and number > 1:
        who = f"{number} holders of whom no card tells"
    elif len(threads) > 1 and len(threads) == number:
        who = f"{number} threads or tasks of {_person(first.client, '', first.holder)}"
    else:
        who = _person(first.client, first.thread if len(threads) == 1 else "", first.holder)
    times = [each.held_for for each in group if each.held_for is not None]
    word = "for" if number == 1 else "the longest for"
    held = f"{'' if number == 1 else ','} {word} {duration(max(times))}" if times else ""
    permits = "A permit is" if number == 1 else f"{number} permits are"
    yield f"{f'{what} is' if what else permits} held by {who}{held}."
    yield from _details(group)
    yield _life(
        min(group, key=lambda each: inf if each.remaining is None else each.remaining), number
    )


def _details(group: Sequence[HolderInfo]) -> Iterator[str]:
    """Yield what commands and logs take: ids, depths and traces."""
    first, number = group[0], len(group)
    word = "holder" if ":" in first.holder else "permit"
    ids = ", ".join([each.holder for each in group[:LISTED]])
    more = f" and {number - LISTED} more" if number > LISTED else ""
    yield f"The {word} id is {ids}." if number == 1 else f"The {word} ids are {ids}{more}."
    depth = max(each.depth for each in group)
    if depth > 1:
        yield f"It was entered {depth} times."
    for trace in list(dict.fromkeys(each.trace_id for each in group if each.trace_id))[:TOLD]:
        yield f"It was acquired in the trace {trace}."
    if first.client.doubt:
        yield f"What its card tells is doubtful: {first.client.doubt}."


def _life(each: HolderInfo, number: int) -> str:
    """Return whether a holder is alive, and when its hold ends, the first of *number* alike."""
    client, ends, one = each.client, _ends(each, number), number == 1
    if by_ticket(client) or left_locked(client):
        until = ": it is held until the ticket is used" if by_ticket(client) else ""
        return f"No process is needed for that{until}. {ends}"
    silent = 0.0 if client.silent is None else client.silent
    since = f"{clock_at(silent)} ({duration(silent)})"
    if client.dead:
        known = "and it has no connection" if client.connected is False else "for too long"
        return f"That process is dead: it has been silent since {since}, {known}. {ends}"
    if client.answering is False:
        return f"That process is slow, frozen or cut off: it is silent since {since}. {ends}"
    if client.answering is None:
        whether, new = ("it is", "it is new, is Java, writes")
        if not one:
            whether, new = "they are", "they are new, are Java, write"
        return (
            f"Whether {whether} alive is not known: {new} no card, or ended within the first "
            f"seconds. {ends}"
        )
    if client.connected is False:
        return (
            f"That process has no connection, and answered {duration(silent)} ago: it has ended, "
            f"or is connecting again. {ends}"
        )
    return f"That process is alive: it answered {duration(silent)} ago. {ends}"


def _ends(each: HolderInfo, number: int) -> str:
    """Return when a hold ends, the first of *number* that are alike."""
    client, left, one = each.client, each.remaining, number == 1
    if left is None:
        return "It never ends by itself." if one else "They never end by themselves."
    in_time = f"ends in {duration(left)}"
    if each.renewed and client.answering and client.connected is not False:
        if each.late:
            late = "Its renewal is late, and it" if one else "Renewal is late, and the first"
            return f"{late} {in_time} without one."
        if one:
            return f"It is renewed. Without that it {in_time}."
        return f"They are renewed. The first {in_time} without that."
    lease = "Its lease" if one else "The first lease"
    unless = "" if each.renewed is False or client.dead else ", unless it is renewed"
    return f"{lease} {in_time}, at {clock_at(-left)}{unless}."


def _waiters(info: LockInfo) -> Iterator[str]:
    if not info.awaited:
        yield "Nobody waits."
        return
    number = max(info.waiter_count, len(info.waiters))
    if not number or info.waited_by_clients:
        one = info.waiting_clients == 1
        waits = "1 client waits" if one else f"{info.waiting_clients} clients wait"
        yield f"{waits} for it, {'' if one else 'each '}with one thread or more."
        if info.waiters:
            yield f"The first in its queue is {_waiter(info, info.waiters[0])}."
            yield from _others(info, info.waiters[0])
        return
    clients = counted(info.waiting_clients, "client")
    yield f"{number} {'waits' if number == 1 else 'wait'} for it, in {clients}."
    first = max(info.waiters, key=lambda each: each.waited or 0, default=None)
    if first is not None and first.waited is not None:
        place = info.waiters.index(first) + 1
        queue = f", at place {place} of the queue" if info.queued else ""
        who = _person(first.client, first.thread, first.holder)
        yield f"The longest wait is that of {who}: {duration(first.waited)}{queue}."
        yield from _others(info, first)
        if _changes_hands(info, first.waited):
            what = "its permits have" if info.waited_for_permits else "the lock has"
            yield f"Meanwhile {what} changed hands: it is busy, and not stuck."
    head = next(iter(info.waiters), None)
    if head and info.queued and not info.holders and head.client.answering is False:
        left = "" if head.remaining is None else f" for {duration(head.remaining)} more"
        yield f"The first in its queue does not answer; its place is kept{left}."


def _others(info: LockInfo, first: WaiterInfo) -> Iterator[str]:
    """Yield who waits besides *first*, those in a queue in its order."""
    others = [_waiter(info, each) for each in info.waiters if each is not first]
    if others:
        order = "In the order of the queue, the others are" if info.queued else "The others are"
        more = f" and {len(others) - LISTED} more" if len(others) > LISTED else ""
        yield f"{order}: {'; '.join(others[:LISTED])}{more}."


def _waiter(info: LockInfo, each: WaiterInfo) -> str:
    """Return who waits for *info*, and for how long."""
    fallback = f"client {each.client.client_id}" if info.waited_by_clients else each.holder
    since = "" if each.waited is None else f", for {duration(each.waited)}"
    return f"{_person(each.client, each.thread, fallback)}{since}"


def _changes_hands(info: LockInfo, waited: float) -> bool:
    """Return whether all holders have come while one has *waited*.

    A new leader does not mean that candidates take turns: the one before it may have died.
    """
    held = max(map(_held_at_most, info.holders), default=inf)
    return info.kind != ENDLESS and waited > LONG_TURN and held < waited / 2


def _held_at_most(each: HolderInfo) -> float:
    """Return for how many seconds a hold has lasted at most, as far as cards tell.

    A hold that its client's card does not list has begun since, or shortly before.
    """
    if each.held_for is not None or each.claim:
        return each.held_for or 0.0
    client = each.client
    listed = (client.holds or 0) + (client.waits or 0) <= MOST
    return inf if client.silent is None or not listed else client.silent + LASTING


def _ring(deadlock: Deadlock) -> str:
    steps = [
        f"{_person(step.client, step.thread, step.held_by)} waits for {step.waits_for!r}"
        for step in deadlock.steps
    ]
    number = len(deadlock.steps)
    return f"It is a deadlock of {number}: {', '.join(steps)}, and each holds what another awaits."


def loss_of(why: str) -> str:
    """Return in words *why* a hold was lost, as a card tells it."""
    reason, _, detail = why.partition(": ")
    if detail and reason in LOSSES:
        return f"{LOSSES[reason]}: {detail}"
    return LOSSES.get(why, why or "unknown why")


def _end(each: EndInfo) -> str:
    who = _person(each.client, "", each.holder)
    how = f"lost: {loss_of(each.why)}" if each.lost else "released"
    return f"The hold of {who} ended {duration(each.ago)} ago: it was {how}."


def _advice(info: LockInfo, state: str) -> tuple[str, tuple[str, ...]]:
    """Return what to do, and the commands."""
    if not info.holders:
        return "", ()
    worst = min(info.holders, key=_health)
    client, where = worst.client, worst.client.host or "its host"
    release = _break(worst, info.name)
    dump = [f"py-spy dump --pid {client.pid}"] if client.pid else []
    commands = (*dump, release)
    if state == "dead":
        dead = [each for each in info.holders if each.client.dead]
        commands = tuple([_break(each, info.name) for each in dead[:TOLD]])
        told = f"Make sure on {where} that the process has gone; then break the hold."
        if len(dead) > 1:
            told = "Make sure that the dead processes have gone; then break each of their holds."
    elif state == "deadlock":
        commands = ("interlock list --deadlocks", release)
        told = (
            "One of them must give way: break one hold, and then acquire in one order everywhere."
        )
    elif state in ("silent", "late"):
        told = f"Look at the process on {where}; it may still be at work."
    elif not info.awaited:
        told, commands = "", ()
    elif info.holder_count > 1:
        told = "Look at what each holder does; break a hold only if it is stuck."
    elif by_ticket(client):
        who = client.host or "those who took it"
        told = f"Ask {who} whether the ticket is in use; break the hold only if it is not."
    elif left_locked(client):
        told = "It ends by itself. Break the hold only if the next call must not wait."
    else:
        told = "Look at what the holder does; break the hold only if it is stuck."
    return told, commands


def _break(each: HolderInfo, name: str) -> str:
    """Return the command that breaks a hold; a name like an option stands behind ``--``."""
    options = f"--holder {word_of(each.holder)} --reason TEXT"
    if name.startswith("-"):
        return f"interlock break {options} -- {word_of(name)}"
    return f"interlock break {word_of(name)} {options}"


def word_of(text: str) -> str:
    """Return *text* as one word of a shell, without anything that a terminal acts on.

    What is not printable becomes octal bytes in ``$'...'``, as bash, zsh and ksh read them.
    """
    if text.isprintable():
        return shlex.quote(text)
    parts = [
        f"\\{each}"
        if each in "\\'"
        else each
        if each.isprintable()
        else "".join(f"\\{byte:03o}" for byte in each.encode(errors="surrogatepass"))
        for each in text
    ]
    return f"$'{''.join(parts)}'"
