"""Say in plain sentences why a lock is as it is, and what to do: `interlock why` and the console.

Rules:

* A sentence tells only what the server or a card shows. All else is unknown, and the text says so.
* Dead, silent and alive are those of `ClientInfo.state`. A lease that ends is told with its time.
* A command that breaks something is told only where waiting does not help.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NamedTuple

from interlock.inspection.words import by_ticket, clock_at, duration, left_locked

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from interlock.inspection.deadlocks import Deadlock
    from interlock.inspection.info import ClientInfo, HolderInfo, LockInfo, WaiterInfo
    from interlock.inspection.reader import Reader

TOLD, LISTED = 3, 10
"""Holders that are told one by one, the worst first, and waiters that are named."""


class Account(NamedTuple):
    """Why a lock is as it is, in a paragraph, with the commands to type."""

    state: str
    text: str
    commands: tuple[str, ...] = ()


def account_of(reader: Reader, name: str) -> tuple[LockInfo | None, Account]:
    """Return the lock *name*, and why it is as it is; errors as `Reader.describe`."""
    info = reader.describe(name)
    rings = reader.deadlocks() if info is not None and info.deadlock else ()
    form = reader.type_of(name) if info is None else "none"
    return info, explain(name, info, rings, form)


def explain(
    name: str,
    info: LockInfo | None,
    deadlocks: Sequence[Deadlock] = (),
    form: str = "none",
) -> Account:
    """Return the account of the lock *name*, of which *info* is known.

    *form* is the type of its key, as TYPE has it.
    """
    if info is None:
        return Account("free", " ".join(_nobody(name, form)))
    rings = [_ring(each) for each in deadlocks if name in {step.waits_for for step in each.steps}]
    # The dead come first, then those that do not answer, then the late.
    holders = sorted(
        info.holders,
        key=lambda each: (not each.client.dead, each.client.answering is not False, not each.late),
    )
    about = (_object(info), _holders(info, holders), _token(info), _waiters(info), rings)
    told = [sentence for each in about for sentence in each]
    state, advice = _judged(info, holders[0].client.host or "its host" if holders else "")
    if not holders or (state == "held" and not info.awaited):
        return Account(state, " ".join(told))
    commands = tuple(_commands(info, state, holders))
    return Account(state, " ".join((*told, advice)), commands)


def _judged(info: LockInfo, host: str) -> tuple[str, str]:
    """Return the state of a lock, and what to do."""
    if info.dead:
        return "dead", f"Make sure on {host} that the process has gone; then break the hold."
    if info.deadlock:
        return "deadlock", "Break one of these holds, and then acquire in one order everywhere."
    if info.silent or info.late:
        state = "silent" if info.silent else "late"
        return state, f"Look at the process on {host}; it may still be at work."
    if any(by_ticket(each.client) for each in info.holders):
        return "held", f"Ask {host} whether the ticket is in use; break the hold only if it is not."
    if info.holders or not (info.awaited or info.free):
        return "held", "Look at what the holder does; break the hold only if it is stuck."
    return "awaited" if info.awaited else "free", ""


def _commands(info: LockInfo, state: str, holders: Sequence[HolderInfo]) -> Iterator[str]:
    worst = [each for each in holders if each.client.dead][:TOLD] or holders[:1]
    if state == "deadlock":
        yield "interlock list --deadlocks"
    elif state != "dead" and worst[0].client.pid:
        yield f"py-spy dump --pid {worst[0].client.pid}"
    for each in worst:
        name, options = word_of(info.name), f"--holder {word_of(each.holder)} --reason TEXT"
        # A name like an option stands behind `--`.
        words = (options, "--", name) if info.name.startswith("-") else (name, options)
        yield " ".join(("interlock break", *words))


def word_of(text: str) -> str:
    """Return *text* as one word of a shell, without anything that a terminal acts on."""
    if text.isprintable():
        return shlex.quote(text)
    data = "".join([rf"\{byte:03o}" for byte in text.encode(errors="surrogatepass")])
    return f"$'{data}'"  # as bash, zsh and ksh read it


# Sentences.


def _nobody(name: str, type_of_key: str) -> Iterator[str]:
    yield f"Nobody holds or awaits {name!r}."
    if type_of_key != "none":
        yield (
            f"Its key is a {type_of_key} without a holder: another program uses it, perhaps as a "
            "lock of another library, and nobody can acquire a lock of that name."
        )


def _object(info: LockInfo) -> Iterator[str]:
    kind, of = info.kind.replace("_", " "), "" if info.total is None else f" of {info.total}"
    if info.any_number:
        yield (
            f"The number {info.name!r} is {info.free}: the free permits of a semaphore, or the "
            "count of a latch. The server does not show which, or who holds permits."
        )
    elif info.kind == "count_down_latch":
        yield f"The latch {info.name!r} is at {info.free}{of}, and opens at 0."
    elif info.kind == "semaphore":
        yield f"The semaphore {info.name!r} has {info.free}{of} free."
        yield "The server does not show who holds its permits."
    elif info.free is not None:
        yield f"The {kind} {info.name!r} has {info.free} free, and {info.holder_count} held."
    elif not info.holders:
        yield f"Nobody holds the {kind} {info.name!r} now."


def _token(info: LockInfo) -> Iterator[str]:
    if info.token is not None:
        yield f"Its last fencing token is {info.token}."


def _holders(info: LockInfo, holders: Sequence[HolderInfo]) -> Iterator[str]:
    kind = f"{info.mode} lock" if info.mode else info.kind.replace("_", " ")
    what = f"The {kind} {info.name!r}" if info.free is None else "A permit"
    for each in holders[:TOLD]:
        client = each.client
        since = "" if each.held_for is None else f" for {duration(each.held_for)}"
        line = f", acquired at {each.place}" if each.place else ""
        yield f"{what} is held by {_person(client, each.thread, each.holder)}{since}{line}."
        yield f"The {'holder' if ':' in each.holder else 'permit'} id is {each.holder}."
        if each.depth > 1:
            yield f"It was entered {each.depth} times."
        if each.trace_id:
            yield f"It was acquired in the trace {each.trace_id}."
        if client.doubt:
            yield f"What its card tells is doubtful: {client.doubt}."
        yield _life(client)
        yield _ends(each)
    if info.holder_count > TOLD:
        yield f"{info.holder_count - TOLD} more hold it."


def _person(client: ClientInfo, thread: str, holder: str) -> str:
    if by_ticket(client):
        reason = f" ({thread})" if thread else ""
        if not client.host:
            return "a ticket that nobody announced, of a task in a queue or a hold given away"
        return f"a ticket of {client.host}{reason}"
    if left_locked(client):
        return "a call that has ended, and left it locked for a least time (min_hold)"
    place = f"pid {client.pid} on {client.host}" if client.pid and client.host else ""
    program = f"{client.program} ({place})" if client.program and place else place
    known = " of ".join(part for part in (thread, program) if part)
    return known or f"{holder} (no card tells its process)"


def _life(client: ClientInfo) -> str:
    silent = duration(client.silent or 0.0)
    since = f"since {clock_at(client.silent or 0.0)} ({silent})"
    if by_ticket(client):
        return "No process is needed for that: it is held until the ticket is used."
    if left_locked(client):
        return "No process is needed for that: it ends by itself."
    if client.dead:
        gone = "and it has no connection" if client.connected is False else "for too long"
        return f"That process is dead: it has been silent {since}, {gone}."
    if client.answering is None:
        return "Whether it is alive is not known: it is new, is Java, or writes no card."
    if not client.answering:
        return f"That process is slow, frozen or cut off: it is silent {since}."
    lives = "has no connection, and" if client.connected is False else "is alive: it"
    return f"That process {lives} answered {silent} ago."


def _ends(each: HolderInfo) -> str:
    client, left = each.client, each.remaining
    if left is None:
        return "It never ends by itself."
    if each.renewed and client.answering and client.connected is not False:
        late = "Its renewal is late, and it" if each.late else "It is renewed. Without that it"
        return f"{late} ends in {duration(left)}."
    unless = "" if each.renewed is False or client.dead else ", unless it is renewed"
    return f"Its lease ends in {duration(left)}, at {clock_at(-left)}{unless}."


def _waiters(info: LockInfo) -> Iterator[str]:
    one, clients = info.waiting_clients == 1, info.waiting_clients
    among = "1 client" if one else f"{clients} clients"
    if not info.awaited:
        yield "Nobody waits."
    elif not info.waiters:
        yield f"{among} {'waits' if one else 'wait'} for it."
    else:
        number = max(info.waiter_count, len(info.waiters))
        yield f"{number} {'waits' if number == 1 else 'wait'} for it, in {among}."
        queued = info.waiters[0].position is not None
        order = "In the order of the queue" if queued else "The longest wait first"
        more = "; and others" if number > LISTED else ""
        yield f"{order}: {'; '.join(map(_waiter, info.waiters[:LISTED]))}{more}."


def _waiter(each: WaiterInfo) -> str:
    since = "" if each.waited is None else f", for {duration(each.waited)}"
    since += ", to write" if each.holder.endswith(":write") else ""
    since += ", polling" if each.polls else ""
    if each.granted is not None:
        since += f", which was granted the lock {duration(each.granted)} ago, and let it end"
    return f"{_person(each.client, each.thread, each.holder)}{since}"


def _ring(deadlock: Deadlock) -> str:
    steps = [
        f"{_person(step.client, step.thread, step.held_by)} waits for {step.waits_for!r}"
        for step in deadlock.steps
    ]
    return f"It is a deadlock of {len(steps)}: {', '.join(steps)}: each holds what another awaits."
