"""Say in plain sentences why a lock is as it is, and what to do: `interlock why` and the console.

Rules:

* A sentence tells only what the server or a card shows. All else is unknown, and the text says so.
* Dead, silent and alive are those of `ClientInfo.state`. A lease that ends is told with its time.
* A command that breaks something is told only where waiting does not help.
"""

from __future__ import annotations

import difflib
import re
import shlex
import unicodedata
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from interlock._core.insight.card import LASTING, MOST
from interlock._core.insight.events import tell_loss
from interlock._core.insight.observing import ENDLESS
from interlock.inspection.words import by_ticket, clock_at, counted, duration, given_to, left_locked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from interlock.inspection.deadlocks import Deadlock
    from interlock.inspection.info import (
        ClientInfo,
        EndInfo,
        HolderInfo,
        LockInfo,
        WaiterInfo,
    )

TOLD = 3
"""Holders that are told one by one."""
LONG_TURN = 30.0
"""Seconds of a wait during which a lock that is held for less has changed hands."""
NEW = 600
"""Seconds after the start of a server in which it may explain what is missing."""
UNLESS = ", unless it is renewed"
"""What is added where a hold may be renewed, as far as is known."""
ALIKE = 0.85
"""Share of equal characters from which two names look alike."""
LOSSES = {
    "expired": "its lease ran out",
    "force-released": "it was released by force",
    "server lost it": f"it was {tell_loss('server lost it')}",
    "unreachable past validity": "no renewal succeeded until the lease had run out",
}
"""The reason of a loss -> in words."""
_LETTERS = str.maketrans("аеорсухіјѕԁԛοανρτικ", "aeopcyxijsdqoavptik")


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
    names: Iterable[str] = (),
    beside: Mapping[str, str] | None = None,
    uptime: int | None = None,
) -> Account:
    """Return the account of one lock.

    Args:
        name: of the lock.
        info: what is known of it; None if nobody holds or awaits it.
        ends: how its holds ended, the newest first.
        deadlocks: that were proven, of any locks.
        names: of other locks that are held or awaited.
        beside: of `Reader.beside`; None if that is not known.
        uptime: seconds since the last start of a server; None if that is not known.
    """
    told: list[str] = []
    rings = [each for each in deadlocks if any(step.waits_for == name for step in each.steps)]
    if info is None:
        if "event_waiters" not in (beside or {}):
            told.append(f"Nobody holds or awaits {name!r}.")
        told += objects_of(name, beside)
        if uptime is not None and uptime < NEW and not ends:
            told.append(
                f"A server was started {duration(uptime)} ago, at {clock_at(uptime)}: what it did "
                "not keep on disk is lost, and holders may not know it yet."
            )
    else:
        told += _holders(info)
        told += _waiters(info)
        told += [_ring(each) for each in rings]
        if info.deadlock and not rings:
            told.append("A client has proven that it is in a deadlock.")
    told += [_end(each) for each in ends[:1]]
    alike = _alike(name, names, free=info is None)
    if alike:
        shown = ", ".join(map(repr, alike))
        told.append(f"Another lock looks alike and is in use: {shown}. Is one name a mistake?")
    elif info is None and not ends and beside is None:
        told.append("Events, conditions and barriers were not looked at.")
    state = _state(info, rings)
    advice, commands = _advice(name, info, state)
    return Account(name, state, (*told, *advice), commands)


def objects_of(name: str, beside: Mapping[str, str] | None) -> Iterator[str]:
    """Yield what there is of other objects with this name; *beside* as in `explain`."""
    found = dict(beside or {})
    if foreign := found.get("key"):
        # Somebody may have acquired the lock since it was looked at, and a lock is a hash.
        lasts = "if that lasts, " if foreign == "hash" else ""
        yield (
            f"The key {name!r} is a {foreign} without a holder: {lasts}another program uses it, "
            "perhaps as a lock of another library, and nobody can acquire a lock of that name."
        )
    if event := found.get("event"):
        yield f"The event {name!r} is {event.partition(' ')[0]}."
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


def _state(info: LockInfo | None, rings: Sequence[Deadlock]) -> str:
    if info is None:
        return "free"
    if info.dead:
        return "dead"
    if rings or info.deadlock:
        return "deadlock"
    if info.silent or info.late:
        return "silent" if info.silent else "late"
    if info.holders or info.awaited is not False:
        return "held" if info.holders else "awaited"
    return "free" if info.free else "held"


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
    if info.kind == "count_down_latch":
        begun = f" of {info.total}" if info.total else ""
        yield f"The latch {info.name!r} is at {info.free}{begun}, and opens at 0."
    elif info.kind == "semaphore" and info.awaited is False and info.total is None:
        yield (
            f"The number {info.name!r} is {info.free}: the free permits of a semaphore, or the "
            "count of a latch. The server does not show which, or who holds permits."
        )
    elif info.free is not None:
        held = f"{counted(info.holder_count, 'permit')} held and " if info.holders else ""
        yield f"The {kind} {info.name!r} has {held}{info.free} free."
        yield from _of_all(info)
        if info.kind == "semaphore":
            yield from _unseen_permits(info)
    elif not info.holders:
        yield f"Nobody holds the {kind} {info.name!r} now."
    what = f"The {info.mode} {kind} {info.name!r}".replace("  ", " ")
    left = info.holder_count
    for group in list(_alike_holders(info.holders))[:TOLD]:
        left -= len(group)
        yield from _group(what if info.free is None else "", group)
    if left > 0:
        yield f"{counted(left, 'more holder')} can be seen by interlock show."


def _unseen_permits(info: LockInfo) -> Iterator[str]:
    yield "The server does not show who holds its permits."
    if info.awaited and info.free is not None and info.free < 1:
        yield (
            "Those of a program that has died do not come back by themselves: "
            f"client.semaphore({info.name!r}).release(n) gives n of them back."
        )


def _alike_holders(holders: Iterable[HolderInfo]) -> Iterator[list[HolderInfo]]:
    """Yield those of *holders* of whom one sentence tells: of one client, or all without a card."""
    groups: dict[tuple[object, ...], list[HolderInfo]] = {}
    for each in sorted(holders, key=_health):
        client = each.client
        unknown = client.answering is None and not (by_ticket(client) or left_locked(client))
        key = (unknown or client.client_id, each.claim, each.late, bool(each.renewed))
        groups.setdefault(key, []).append(each)
    yield from groups.values()


def _group(what: str, group: Sequence[HolderInfo]) -> Iterator[str]:
    """Yield the sentences about some holders that are alike.

    Args:
        what: they hold; empty for permits.
        group: the holders.
    """
    first, number = group[0], len(group)
    if first.claim:
        given = what or counted(number, "permit")
        yield f"{given} {'is' if what or number == 1 else 'are'} {given_to(first)} just now."
        return
    threads = {each.thread: None for each in group if each.thread}
    known = first.client.answering is not None
    if not known and number > 1:
        who = f"{number} holders of whom no card tells"
    elif len(threads) > 1 and len(threads) == number:
        who = f"{number} threads or tasks of {_person(first.client, '', first.holder)}"
    else:
        who = _person(first.client, first.thread if len(threads) == 1 else "", first.holder)
    times = [each.held_for for each in group if each.held_for is not None]
    held = (
        f"{' for' if number == 1 else ', the longest for'} {duration(max(times))}" if times else ""
    )
    if what:
        yield f"{what} is held by {who}{held}."
    else:
        permits = "A permit is" if number == 1 else f"{number} permits are"
        yield f"{permits} held by {who}{held}."
    yield _life(
        min(group, key=lambda each: inf if each.remaining is None else each.remaining), number
    )


def _of_all(info: LockInfo) -> Iterator[str]:
    """Return how many permits a semaphore has in all, as far as Python has set it."""
    if info.total is None or info.free is None:
        return
    if info.free > info.total:
        yield (
            f"Python has set {info.total} in all, so Java has added some, or somebody has released "
            "more than was acquired."
        )
    else:
        taken = info.total - info.free
        yield (
            f"Python has set {info.total} in all, so {taken} are taken, unless Java has changed it."
        )


def _health(each: HolderInfo) -> tuple[bool, bool, bool]:
    """Return the key to sort holders by: dead ones come first, then silent ones, then late ones."""
    return (not each.client.dead, each.client.answering is not False, not each.late)


def _ends(each: HolderInfo, number: int) -> str:
    """Return when a hold ends, the first of *number* that are alike."""
    client, left, one = each.client, each.remaining, number == 1
    if left is None:
        return "It never ends by itself." if one else "They never end by themselves."
    if each.renewed and client.answering and client.connected is not False:
        if not each.late:
            return "It is renewed." if one else "They are renewed."
        late = "Its renewal is late, and it ends" if one else "Renewal is late, and the first ends"
        return f"{late} in {duration(left)} without one."
    lease = "Its lease ends" if one else "The first lease ends"
    certain = each.renewed is False or client.dead
    return f"{lease} in {duration(left)}, at {clock_at(-left)}{'' if certain else UNLESS}."


def _life(each: HolderInfo, number: int) -> str:
    """Return whether a holder is alive, and when its hold ends, the first of *number* alike."""
    client, ends = each.client, _ends(each, number)
    if by_ticket(client) or left_locked(client):
        until = ": it is held until the ticket is used" if by_ticket(client) else ""
        return f"No process is needed for that{until}. {ends}"
    silent = 0.0 if client.silent is None else client.silent
    if client.dead:
        since = f"{clock_at(silent)} ({duration(silent)})"
        known = "and it has no connection" if client.connected is False else "for too long"
        return f"That process is dead: it has been silent since {since}, {known}. {ends}"
    if client.answering is False:
        since = f"{clock_at(silent)} ({duration(silent)})"
        return f"That process is slow, frozen or cut off: it is silent since {since}. {ends}"
    if client.answering is None:
        whether = "it is alive" if number == 1 else "they are alive"
        causes = (
            "it is new, is Java, writes no card, or"
            if number == 1
            else "they are new, are Java, write no card, or"
        )
        return f"Whether {whether} is not known: {causes} ended within the first seconds. {ends}"
    if client.connected is False:
        return (
            f"That process has no connection, and answered {duration(silent)} ago: it has ended, "
            f"or is connecting again. {ends}"
        )
    return f"That process is alive: it answered {duration(silent)} ago. {ends}"


def _waiters(info: LockInfo) -> Iterator[str]:
    if not info.awaited:
        unknown = "It is not known whether somebody waits."
        yield "Nobody waits." if info.awaited is False else unknown
        return
    number = max(info.waiter_count, len(info.waiters))
    if not number or info.waited_by_clients:
        if info.waiting_clients == 1:
            yield "1 client waits for it, with one thread or more."
        else:
            yield f"{info.waiting_clients} clients wait for it, each with one thread or more."
        yield from _first_client(info)
        return
    clients = counted(info.waiting_clients, "client")
    yield f"{number} {'waits' if number == 1 else 'wait'} for it, in {clients}."
    first = max(info.waiters, key=lambda each: each.waited or 0, default=None)
    if first is not None and first.waited is not None:
        place = info.waiters.index(first) + 1
        queue = f", at place {place} of the queue" if info.queued else ""
        who = _person(first.client, first.thread, first.holder)
        yield f"The longest wait is that of {who}: {duration(first.waited)}{queue}."
        held = max(map(_held_at_most, info.holders), default=inf)
        # A new leader does not mean that candidates take turns: the one before it may have died.
        turns = info.kind != ENDLESS
        if turns and first.waited > LONG_TURN and held < first.waited / 2:
            what = "its permits have" if info.waited_for_permits else "the lock has"
            yield f"Meanwhile {what} changed hands: it is busy, and not stuck."
    head = _stuck_head(info)
    if head is not None:
        left = "" if head.remaining is None else f" for {duration(head.remaining)} more"
        yield f"The first in its queue does not answer; its place is kept{left}."


def _first_client(info: LockInfo) -> Iterator[str]:
    """Yield who is the first in the queue for permits, as far as that is known."""
    for first in info.waiters[:1]:
        who = _person(first.client, "", f"client {first.client.client_id}")
        since = "" if first.waited is None else f", for {duration(first.waited)}"
        yield f"The first in its queue is {who}{since}."


def _held_at_most(each: HolderInfo) -> float:
    """Return for how many seconds a hold has lasted at most, as far as cards tell.

    A hold that its client's card does not list has begun since, or shortly before.
    """
    if each.held_for is not None or each.claim:
        return each.held_for or 0.0
    client = each.client
    listed = (client.holds or 0) + (client.waits or 0) <= MOST
    return inf if client.silent is None or not listed else client.silent + LASTING


def _stuck_head(info: LockInfo) -> WaiterInfo | None:
    """Return the head of the queue of a free lock, if its client does not answer."""
    head = next(iter(info.waiters), None)
    if head is None or info.holders or not info.queued:
        return None
    return head if head.client.answering is False else None


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


def _advice(
    name: str, info: LockInfo | None, state: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what to do, and the commands."""
    if info is None or not info.holders:
        return (), ()
    worst = min(info.holders, key=_health)
    release = _release(worst, name)
    pid, host = worst.client.pid, worst.client.host
    dump = f"py-spy dump --pid {pid}" if pid else ""
    if state == "dead":
        dead = [each for each in info.holders if each.client.dead]
        told = f"Make sure on {host or 'its host'} that the process has gone; then break the hold."
        if len(dead) > 1:
            told = "Make sure that the dead processes have gone; then break each of their holds."
        return (told,), tuple([_release(each, name) for each in dead[:TOLD]])
    if state == "deadlock":
        told = (
            "One of them must give way: break one hold, and then acquire in one order everywhere."
        )
        return (told,), ("interlock deadlocks", release)
    if state in ("silent", "late"):
        told = f"Look at the process on {host or 'its host'}; it may still be at work."
        return (told,), tuple(each for each in (dump, release) if each)
    if info.awaited:
        commands = [_command("show", "", name), release]
        told = "Look at what the holder does; break the hold only if it is stuck."
        if info.holder_count > 1:
            told = "Look at what each holder does; break a hold only if it is stuck."
        elif by_ticket(worst.client):
            who = worst.client.host or "those who took it"
            told = f"Ask {who} whether the ticket is in use; break the hold only if it is not."
            del commands[0]
        elif left_locked(worst.client):
            told = "It ends by itself. Break the hold only if the next call must not wait."
            del commands[0]
        return (told,), tuple(commands)
    return (), ()


def _release(each: HolderInfo, name: str) -> str:
    """Return the command that breaks one hold."""
    return _command("release", f"--holder {word_of(each.holder)} --reason TEXT", name)


def _command(command: str, options: str, name: str) -> str:
    """Return what to type; a name that looks like an option stands behind ``--``."""
    if name.startswith("-"):
        return " ".join(filter(None, ("interlock", command, options, "--", word_of(name))))
    return f"interlock {command} {word_of(name)} {options}".rstrip()


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


def _alike(name: str, names: Iterable[str], *, free: bool) -> list[str]:
    """Return those of *names* that look like *name*; a free lock's may differ in a letter."""
    found: list[str] = []
    mine, digits = skeleton(name), re.findall(r"\d+", name)
    for each in names:
        if each == name:
            continue
        near = skeleton(each) == mine
        if not near and free and re.findall(r"\d+", each) == digits:
            near = difflib.SequenceMatcher(None, name, each).ratio() >= ALIKE
        if near:
            found.append(each)
    return found[:TOLD]


def skeleton(name: str) -> str:
    """Return what is left of *name* if one looks only at letters and digits, whatever their case.

    Letters of other scripts that look like Latin ones become these.
    """
    plain = unicodedata.normalize("NFKD", name).casefold().translate(_LETTERS)
    return "".join(each for each in plain if each.isalnum())
