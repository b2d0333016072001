"""Say in plain sentences why a lock is as it is, and what to do: `interlock why` and the console.

Rules:

* A sentence tells only what the server or a card shows. All else is unknown, and the text says so.
* Dead, silent and alive are those of `ClientInfo.state`. A lease that ends is told with its time.
* A command that breaks something is told only where waiting does not help.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NamedTuple

from interlock._core.insight.events import tell_loss
from interlock.inspection.words import by_ticket, client_of, clock_at, duration, left_locked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from interlock.inspection.cards import End
    from interlock.inspection.deadlocks import Deadlock
    from interlock.inspection.info import ClientInfo, HolderInfo, LockInfo, WaiterInfo
    from interlock.inspection.reader import Reader

TOLD, LISTED = 3, 10
"""Holders that are told one by one, the worst first, and waiters that are named."""
LOSSES = {
    "expired": "its lease ran out",
    "force-released": "it was released by force",
    "server lost it": f"it was {tell_loss('server lost it')}",
    "unreachable past validity": "no renewal succeeded until the lease had run out",
}
"""The reason of a loss -> in words."""
LOOK = "Look at the process on {host}; it may still be at work."
RULES: tuple[tuple[str, Callable[[LockInfo], object], str], ...] = (
    (
        "dead",
        lambda info: info.dead,
        "Make sure on {host} that the process has gone; then break the hold.",
    ),
    (
        "deadlock",
        lambda info: info.deadlock,
        "One of them must give way: break one hold, and then acquire in one order everywhere.",
    ),
    ("silent", lambda info: info.silent, LOOK),
    ("late", lambda info: info.late, LOOK),
    (
        "held",
        lambda info: any(by_ticket(each.client) for each in info.holders),
        "Ask {host} whether the ticket is in use; break the hold only if it is not.",
    ),
    (
        "held",
        lambda info: info.holders or not (info.awaited or info.free),
        "Look at what the holder does; break the hold only if it is stuck.",
    ),
    ("awaited", lambda info: info.awaited, ""),
    ("free", lambda _: True, ""),
)
"""The state of a lock, when it is in that, and what to do; the first one that fits is told."""


class Account(NamedTuple):
    """Why a lock is as it is.

    Its state is one of `RULES`, each sentence tells one fact, and the commands are to be typed.
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
    """Return the lock *name*, and why it is as it is; errors as `Reader.describe`."""
    info = reader.describe(name)
    rings = reader.deadlocks() if info is not None and info.deadlock else ()
    form = reader.type_of(name) if info is None else "none"
    return info, explain(name, info, reader.last_end(name), rings, form)


def explain(
    name: str,
    info: LockInfo | None,
    end: End | None = None,
    deadlocks: Sequence[Deadlock] = (),
    form: str = "none",
) -> Account:
    """Return the account of the lock *name*, of which *info* is known.

    *end* tells how its last hold ended, and *form* is the type of its key, as TYPE has it.
    """
    ending = [] if end is None else [_end(end)]
    if info is None:
        return Account(name, "free", (*_nobody(name, form), *ending))
    state, _, advice = next(rule for rule in RULES if rule[1](info))
    rings = [_ring(each) for each in deadlocks if name in {step.waits_for for step in each.steps}]
    # The dead come first, then those that do not answer, then the late.
    holders = sorted(
        info.holders,
        key=lambda each: (not each.client.dead, each.client.answering is not False, not each.late),
    )
    told = [*_object(info), *_holders(info, holders), *_waiters(info), *rings, *ending]
    if not holders or (state == "held" and not info.awaited):
        return Account(name, state, tuple(told))
    told.append(advice.format(host=holders[0].client.host or "its host"))
    return Account(name, state, tuple(told), tuple(_commands(info, state, holders)))


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
    """Yield what is known of a lock that nobody holds or awaits."""
    yield f"Nobody holds or awaits {name!r}."
    if type_of_key != "none":
        # Somebody may have acquired the lock since it was looked at, and a lock is a hash.
        lasts = "if that lasts, " if type_of_key == "hash" else ""
        yield (
            f"The key {name!r} is a {type_of_key} without a holder: {lasts}another program uses "
            "it, perhaps as a lock of another library, and nobody can acquire a lock of that name."
        )


def _object(info: LockInfo) -> Iterator[str]:
    """Yield what is known of permits, of the count of a latch, or of a lock without holders."""
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
        if info.awaited and not info.free:
            yield (
                "Those of a program that has died do not come back by themselves: "
                f"client.semaphore({info.name!r}).release(n) gives n of them back."
            )
    elif info.free is not None:
        yield f"The {kind} {info.name!r} has {info.free} free, and {info.holder_count} held."
    elif not info.holders:
        yield f"Nobody holds the {kind} {info.name!r} now."
    if info.token is not None:
        yield f"Its last fencing token is {info.token}."


def _holders(info: LockInfo, holders: Sequence[HolderInfo]) -> Iterator[str]:
    kind = f"{info.mode} lock" if info.mode else info.kind.replace("_", " ")
    what = f"The {kind} {info.name!r}" if info.free is None else "A permit"
    for each in holders[:TOLD]:
        client = each.client
        if each.claim:
            yield f"{what} is given to {client_of(client, 'a waiter')} just now."
            continue
        since = "" if each.held_for is None else f" for {duration(each.held_for)}"
        yield f"{what} is held by {_person(client, each.thread, each.holder)}{since}."
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
    known = " of ".join(part for part in (thread, program) if part)
    return known or f"{holder} (no card tells its process)"


def _life(client: ClientInfo) -> str:
    """Return whether a holder is alive."""
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
    """Return when a hold ends."""
    client, left = each.client, each.remaining
    if left is None:
        return "It never ends by itself."
    if each.renewed and client.answering and client.connected is not False:
        late = "Its renewal is late, and it" if each.late else "It is renewed. Without that it"
        return f"{late} ends in {duration(left)}."
    unless = "" if each.renewed is False or client.dead else ", unless it is renewed"
    return f"Its lease ends in {duration(left)}, at {clock_at(-left)}{unless}."


def _waiters(info: LockInfo) -> Iterator[str]:
    clients = "1 client" if info.waiting_clients == 1 else f"{info.waiting_clients} clients"
    if not info.awaited:
        yield "Nobody waits."
    elif not info.waiters:
        yield f"{clients} {'waits' if info.waiting_clients == 1 else 'wait'} for it."
    else:
        number = max(info.waiter_count, len(info.waiters))
        yield f"{number} {'waits' if number == 1 else 'wait'} for it, in {clients}."
        order = "In the order of the queue" if info.queued else "The longest wait first"
        more = "; and others" if number > LISTED else ""
        yield f"{order}: {'; '.join(map(_waiter, info.waiters[:LISTED]))}{more}."
        head = info.waiters[0]
        if info.queued and not info.holders and head.client.answering is False:
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
    return f"It is a deadlock of {len(steps)}: {', '.join(steps)}: each holds what another awaits."


def _end(each: End) -> str:
    """Return how a hold ended."""
    reason, _, detail = each.why.partition(": ")
    why = LOSSES.get(reason, reason or "unknown why")
    how = f"lost: {why}{f': {detail}' if detail else ''}" if each.lost else "released"
    who = _person(each.client, "", each.holder)
    return f"The hold of {who} ended {duration(each.ago)} ago: it was {how}."
