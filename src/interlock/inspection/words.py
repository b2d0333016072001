"""What is known of locks, clients and times, in words; the commands and the console share them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from interlock._core.insight.card import BY_TICKET

if TYPE_CHECKING:
    from interlock.inspection.info import ClientInfo, LockInfo

LEFT_LOCKED = "left locked"
"""The program of a hold whose lease goes on for a least time after its call has ended."""
_UNITS = ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))
_TENTHS = 10
"""Seconds below which tenths are told."""


def duration(seconds: float) -> str:
    """Return *seconds* in words: ``3.2 s``, ``12 s``, ``4 min 10 s``, ``2 h 5 min``."""
    if seconds < _TENTHS:
        return f"{seconds:.1f} s"
    for size, first, smaller, second in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {first} {int(seconds % size // smaller)} {second}"
    return f"{int(seconds)} s"


def clock_at(ago: float) -> str:
    """Return the local time *ago* seconds before now; with the date if it was another day."""
    at, now = time.localtime(time.time() - ago), time.localtime()
    return time.strftime("%X" if at[:3] == now[:3] else "%Y-%m-%d %H:%M:%S", at)


def by_ticket(client: ClientInfo) -> bool:
    """Return whether *client* is a ticket: it has no process, and so no connection either."""
    return client.pid is None and client.program == BY_TICKET


def left_locked(client: ClientInfo) -> bool:
    """Return whether *client* is a hold that a call has left locked when it ended."""
    return client.pid is None and client.program == LEFT_LOCKED


def silence(client: ClientInfo) -> str:
    """Return since when *client* does not answer; an empty text if it does, or without a card.

    It is empty for a ticket, too: nobody is there to answer, and nobody has to be.
    """
    cut_off = client.answering and client.connected is False
    if by_ticket(client) or client.silent is None or not (client.answering is False or cut_off):
        return ""
    state = "without a connection, " if cut_off else "dead, " if client.dead else ""
    return f"{state}silent since {clock_at(client.silent)} ({duration(client.silent)})"


def client_of(client: ClientInfo, fallback: str) -> str:
    """Return what is known of a client: its host, process, program and silence."""
    process = "" if client.pid is None else f"pid {client.pid}"
    known = " ".join(part for part in (client.host, process, client.program) if part) or fallback
    state = "doubtful" if client.doubt else silence(client)
    return f"{known} ({state})" if state else known


def called(client: ClientInfo, thread: str, holder: str) -> str:
    """Return what people call a holder or waiter: its host, process, program and thread."""
    return f"{client_of(client, holder)} {thread}".rstrip()


def without_holders(info: LockInfo) -> str:
    """Return what is told in place of holders: the server shows none."""
    if info.free is None:
        return "nobody"
    return f"{'count' if info.kind == 'count_down_latch' else 'free'}: {info.free}"


def trouble(info: LockInfo) -> tuple[bool, bool, bool, bool, int, float, float, str]:
    """Return the key to sort by: dead holders, deadlocks, late ones, queues, long holds."""
    return (
        not info.dead,
        not info.deadlock,
        not info.late,
        not info.silent,
        -info.waiting_at_least,
        -(info.longest_wait or 0.0),
        -(info.held_for or 0.0),
        info.name,
    )
