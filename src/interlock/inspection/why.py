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

from interlock._core.insight.events import tell_loss
from interlock.inspection.words import by_ticket, clock_at, counted, duration, given_to, left_locked

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from interlock.inspection.cards import End
    from interlock.inspection.deadlocks import Deadlock
    from interlock.inspection.info import ClientInfo, HolderInfo, LockInfo, WaiterInfo
    from interlock.inspection.reader import Reader

TOLD = 3
"""Groups of holders that are told one by one."""
LISTED = 10
"""Holder ids and waiters that are named."""
LOSSES = {
    "expired": "its lease ran out",
    "force-released": "it was released by force",
    "server lost it": f"it was {tell_loss('server lost it')}",
    "unreachable past validity": "no renewal succeeded until the lease had run out",
}
"""The reason of a loss -> in words."""
ADVICE = {
    "dead": "Make sure on {host} that the process has gone; then break the hold.",
    "dead holders": (
        "Make sure that the dead processes have gone; then break each of their holds."
    ),
    "deadlock": (
        "One of them must give way: break one hold, and then acquire in one order everywhere."
    ),
    "silent": "Look at the process on {host}; it may still be at work.",
    "late": "Look at the process on {host}; it may still be at work.",
    "many holders": "Look at what each holder does; break a hold only if it is stuck.",
    "ticket": "Ask {who} whether the ticket is in use; break the hold only if it is not.",
    "left locked": "It ends by itself. Break the hold only if the next call must not wait.",
    "holder": "Look at what the holder does; break the hold only if it is stuck.",
}
"""What is the matter with a lock that somebody holds -> what to do."""


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


def account_of(reader: Reader, name: str) -> tuple[LockInfo | None, Account]:
    """Return the lock *name*, and why it is as it is; errors as `Reader.describe`.

    Cost:
        A description, and a look at all cards.
    """
    info = reader.describe(name)
    return info, explain(
        name,
        info,
        end=reader.last_end(name),
        deadlocks=reader.deadlocks() if info is not None and info.deadlock else (),
        type_of_key=reader.type_of(name) if info is None else "none",
    )


def explain(
    name: str,
    info: LockInfo | None,
    *,
    end: End | None = None,
    deadlocks: Sequence[Deadlock] = (),
    type_of_key: str = "none",
) -> Account:
    """Return the account of one lock.

    Args:
        name: of the lock.
        info: what is known of it; None if nobody holds or awaits it.
        end: how its last hold ended.
        deadlocks: of any locks.
        type_of_key: of the key of that name, in the words of the command TYPE.
    """
    ending = [] if end is None else [_end(end)]
    if info is None:
        return Account(name, "free", (*_nobody(name, type_of_key), *ending))
    rings = [each for each in deadlocks if any(step.waits_for == name for step in each.steps)]
    state = _state(info, rings)
    advice, commands = _advice(info, state)
    told = (*_holders(info), *_waiters(info), *map(_ring, rings), *ending, *advice)
    return Account(name, state, told, commands)


def _state(info: LockInfo, rings: Sequence[Deadlock]) -> str:
    """Return what is the matter, the worst first."""
    held, awaited = bool(info.holders), info.awaited
    states = {
        "dead": info.dead,
        "deadlock": bool(rings) or info.deadlock,
        "silent": info.silent,
        "late": info.late,
        "held": held or not (awaited or info.free),
        "awaited": awaited,
    }
    return next((state for state, is_so in states.items() if is_so), "free")


def _nobody(name: str, type_of_key: str) -> Iterator[str]:
    """Yield what is known of a lock that nobody holds or awaits."""
    yield f"Nobody holds or awaits {name!r}."
    if type_of_key != "none":
        # Somebody may have acquired the lock since it was looked at, and a lock is a hash.
        lasts = "if that lasts, " if type_of_key == "hash" else ""
        yield (
            f"The key {name!r} is a {type_of_key} without a holder: {lasts}another program uses "
            "it, perhaps as a lock of another library, and nobody can acquire a lock of that name."
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


# Holders.


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
    of = "" if info.total is None else f" of {info.total}"
    if info.kind == "count_down_latch":
        yield f"The latch {info.name!r} is at {info.free}{of}, and opens at 0."
    elif info.any_number:
        yield (
            f"The number {info.name!r} is {info.free}: the free permits of a semaphore, or the "
            "count of a latch. The server does not show which, or who holds permits."
        )
    else:
        held = f"{counted(info.holder_count, 'permit')} held and " if info.holders else ""
        yield f"The {kind} {info.name!r} has {held}{info.free}{of} free."
    if info.kind == "semaphore" and not info.any_number:
        yield "The server does not show who holds its permits."
        if info.awaited and not info.free:
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
    word = " for" if number == 1 else ", the longest for"
    held = f"{word} {duration(max(times))}" if times else ""
    permits = "A permit is" if number == 1 else f"{number} permits are"
    yield f"{f'{what} is' if what else permits} held by {who}{held}."
    yield from _details(group)
    soonest = min(group, key=lambda each: inf if each.remaining is None else each.remaining)
    yield f"{_life(soonest, number)} {_ends(soonest, number)}"


def _details(group: Sequence[HolderInfo]) -> Iterator[str]:
    """Yield what commands and logs take: ids, depths and traces."""
    first, number = group[0], len(group)
    word = "holder" if ":" in first.holder else "permit"
    ids = ", ".join([each.holder for each in group[:LISTED]])
    more = f" and {number - LISTED} more" if number > LISTED else ""
    yield f"The {word} id is {ids}." if number == 1 else f"The {word} ids are {ids}{more}."
    if (depth := max(each.depth for each in group)) > 1:
        yield f"It was entered {depth} times."
    for trace in list(dict.fromkeys(each.trace_id for each in group if each.trace_id))[:TOLD]:
        yield f"It was acquired in the trace {trace}."
    if first.client.doubt:
        yield f"What its card tells is doubtful: {first.client.doubt}."


def _life(each: HolderInfo, number: int) -> str:
    """Return whether a holder is alive, or *number* alike are."""
    client, silent = each.client, each.client.silent or 0.0
    since = f"{clock_at(silent)} ({duration(silent)})"
    if by_ticket(client) or left_locked(client):
        until = ": it is held until the ticket is used" if by_ticket(client) else ""
        return f"No process is needed for that{until}."
    if client.dead:
        known = "and it has no connection" if client.connected is False else "for too long"
        return f"That process is dead: it has been silent since {since}, {known}."
    if client.answering is False:
        return f"That process is slow, frozen or cut off: it is silent since {since}."
    if client.answering is None:
        they, new = ("it is", "it is new, is Java, writes")
        if number > 1:
            they, new = "they are", "they are new, are Java, write"
        return (
            f"Whether {they} alive is not known: {new} no card, or ended within the first seconds."
        )
    if client.connected is False:
        return (
            f"That process has no connection, and answered {duration(silent)} ago: it has ended, "
            "or is connecting again."
        )
    return f"That process is alive: it answered {duration(silent)} ago."


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


# Waiters.


def _waiters(info: LockInfo) -> Iterator[str]:
    if not info.awaited:
        yield "Nobody waits."
        return
    number = max(info.waiter_count, len(info.waiters))
    if not number:
        one = info.waiting_clients == 1
        waits = "1 client waits" if one else f"{info.waiting_clients} clients wait"
        yield f"{waits} for it, {'' if one else 'each '}with one thread or more."
        return
    clients = counted(info.waiting_clients, "client")
    yield f"{number} {'waits' if number == 1 else 'wait'} for it, in {clients}."
    first = max(info.waiters, key=lambda each: each.waited or 0, default=None)
    if first is not None and first.waited is not None:
        place = info.waiters.index(first) + 1
        queue = f", at place {place} of the queue" if info.queued else ""
        who = _person(first.client, first.thread, first.holder)
        yield f"The longest wait is that of {who}: {duration(first.waited)}{queue}."
        others = [_waiter(each) for each in info.waiters if each is not first]
        if others:
            order = "In the order of the queue, the others are" if info.queued else "The others are"
            more = f" and {len(others) - LISTED} more" if len(others) > LISTED else ""
            yield f"{order}: {'; '.join(others[:LISTED])}{more}."
    head = next(iter(info.waiters), None)
    if head and info.queued and not info.holders and head.client.answering is False:
        left = "" if head.remaining is None else f" for {duration(head.remaining)} more"
        yield f"The first in its queue does not answer; its place is kept{left}."


def _waiter(each: WaiterInfo) -> str:
    """Return who waits, and for how long."""
    since = "" if each.waited is None else f", for {duration(each.waited)}"
    return f"{_person(each.client, each.thread, each.holder)}{since}"


def _ring(deadlock: Deadlock) -> str:
    steps = [
        f"{_person(step.client, step.thread, step.held_by)} waits for {step.waits_for!r}"
        for step in deadlock.steps
    ]
    number = len(deadlock.steps)
    return f"It is a deadlock of {number}: {', '.join(steps)}, and each holds what another awaits."


def _end(each: End) -> str:
    """Return how a hold ended."""
    reason, _, detail = each.why.partition(": ")
    why = LOSSES.get(reason, reason or "unknown why")
    how = f"lost: {why}{f': {detail}' if detail else ''}" if each.lost else "released"
    who = _person(each.client, "", each.holder)
    return f"The hold of {who} ended {duration(each.ago)} ago: it was {how}."


# What to do.


def _advice(info: LockInfo, state: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what to do, and the commands."""
    if not info.holders or (state == "held" and not info.awaited):
        return (), ()
    worst = min(info.holders, key=_health)
    client, release = worst.client, _break(worst, info.name)
    commands: tuple[str, ...] = (release,)
    if client.pid:
        commands = (f"py-spy dump --pid {client.pid}", release)
    matter = state
    if state == "dead":
        dead = [each for each in info.holders if each.client.dead]
        matter = "dead holders" if len(dead) > 1 else state
        commands = tuple([_break(each, info.name) for each in dead[:TOLD]])
    elif state == "deadlock":
        commands = ("interlock list --deadlocks", release)
    elif state == "held":
        alone = (
            "ticket" if by_ticket(client) else "left locked" if left_locked(client) else "holder"
        )
        matter = "many holders" if info.holder_count > 1 else alone
    host, who = client.host or "its host", client.host or "those who took it"
    return (ADVICE[matter].format(host=host, who=who),), commands


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

    def octal(letter: str) -> str:
        if letter in "\\'":
            return f"\\{letter}"
        data = letter.encode(errors="surrogatepass")
        return letter if letter.isprintable() else "".join(f"\\{byte:03o}" for byte in data)

    return f"$'{''.join(map(octal, text))}'"
