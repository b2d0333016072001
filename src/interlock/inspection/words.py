"""What is known of locks, clients and times, in words; the commands and the console share them."""

from __future__ import annotations

import time
from math import inf
from typing import TYPE_CHECKING

from interlock._core.insight.card import BY_TICKET

if TYPE_CHECKING:
    from interlock.inspection.info import ClientInfo, HolderInfo, LockInfo

LEFT_LOCKED = "left locked"
"""The program of a hold whose lease goes on for a least time after its call has ended."""
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_TENTHS = 10
"""Seconds below which tenths are told."""


def counted(number: int, one: str, many: str = "") -> str:
    """Return *number* with the noun in its form: ``1 hold``, ``2 holds``."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def duration(seconds: float) -> str:
    """Return *seconds* in words: ``3.2 s``, ``12 s``, ``4 min 10 s``, ``2 h 5 min``."""
    whole = int(seconds)
    if whole < _MINUTE:
        return f"{seconds:.1f} s" if seconds < _TENTHS else f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE} s"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR} h"


def clock_at(ago: float) -> str:
    """Return the local time *ago* seconds before now; with the date if it was another day."""
    at, now = time.time() - ago, time.time()
    same = time.localtime(at)[:3] == time.localtime(now)[:3]
    return time.strftime("%X" if same else "%Y-%m-%d %H:%M:%S", time.localtime(at))


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
    if by_ticket(client):
        return ""
    cut_off = client.answering and client.connected is False
    if client.silent is None or not (client.answering is False or cut_off):
        return ""
    since = f"since {clock_at(client.silent)} ({duration(client.silent)})"
    if cut_off:
        return f"without a connection, silent {since}"
    return f"dead, silent {since}" if client.dead else f"silent {since}"


def client_of(client: ClientInfo, fallback: str) -> str:
    """Return what is known of a client: its host, process, program and silence."""
    parts: list[str] = []
    if client.host:
        parts.append(client.host)
    if client.pid is not None:
        parts.append(f"pid {client.pid}")
    if client.program:
        parts.append(client.program)
    if not parts:
        parts.append(fallback)
    if client.doubt:
        parts.append("(doubtful)")
    elif silent := silence(client):
        parts.append(f"({silent})")
    return " ".join(parts)


def given_to(holder: HolderInfo) -> str:
    """Return to whom a release has given what *holder* stands for."""
    return f"given to {client_of(holder.client, 'a waiter')}"


def end_of(holder: HolderInfo) -> str:
    """Return when a hold ends, and whether that is certain."""
    if holder.remaining is None:
        return "never ends by itself"
    left = f"ends in {duration(holder.remaining)}"
    if holder.client.dead:
        return f"{left}, at {clock_at(-holder.remaining)}: nobody is there to renew it"
    if holder.renewed is False:
        return f"{left}, at {clock_at(-holder.remaining)}: its lease is fixed"
    return f"{left} unless it is renewed"


def without_holders(info: LockInfo) -> str:
    """Return what is told in place of holders: the server shows none."""
    if info.free is None:
        return "nobody"
    return f"{'count' if info.kind == 'count_down_latch' else 'free'}: {info.free}"


def trouble(
    info: LockInfo, at: float = 0.0
) -> tuple[int, bool, bool, bool, int, float, float, str]:
    """Return the key to sort by: dead holders, deadlocks, late ones, queues, long holds.

    Args:
        info: the lock.
        at: when it was looked at; matters only beside locks that were looked at at another time.
    """
    wait, held = info.longest_wait, info.held_for
    return (
        -info.dead,
        not info.deadlock,
        not info.late,
        not info.silent,
        -info.waiting_at_least,
        inf if wait is None else at - wait,
        inf if held is None else at - held,
        info.name,
    )
