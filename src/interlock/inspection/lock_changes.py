"""What happens to one lock: looks at it again and again, and tells what has changed.

Rules:

* A lock is looked at from outside, so any client is seen, in any language. A hold that comes and
  goes between two looks is not seen.
* A hold that is gone was lost if its lease had time to run out, or if an operator's note says so.
  So it was if the server was restarted, flushed, or evicted keys. Else it was released.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from interlock.inspection.reader import Reader
from interlock.inspection.server_facts import ServerFacts, story_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from interlock._links.cluster import Cluster
    from interlock._links.endpoint import Endpoint
    from interlock.inspection.info import HolderInfo, LockInfo
    from interlock.options import Options

CARD_WITHIN = 15.0
"""Seconds after a change for which the cards of holders are looked for."""


@dataclass(frozen=True, slots=True)
class Change:
    """Something that has happened to a lock.

    Attributes:
        name: of the lock.
        what: ``"acquired"``, ``"released"``, ``"lost"``, or ``"waiters"``: others wait for it than
            before.
        time: when it was seen, in seconds since 1970.
        holder: who holds it now, or held it until now; None for ``"waiters"``.
        why: the reason of a loss; else empty.
        waiting: how many clients wait.
        holders: who holds it now.
    """

    name: str
    what: Literal["acquired", "released", "lost", "waiters"]
    time: float
    holder: HolderInfo | None
    why: str
    waiting: int
    holders: tuple[HolderInfo, ...]


Change.__module__ = "interlock"  # where users find it


class Watcher:
    """Looks at one lock, on connections of its own; close it.

    Args:
        servers: of the service.
        options: the client's.
        name: what the user calls the lock.
        key: of the lock.

    Attributes:
        changes: what was not told yet.
    """

    def __init__(self, servers: Endpoint | Cluster, options: Options, name: str, key: str) -> None:
        self._reader = Reader(servers, options)
        self._busy = threading.Lock()
        self._pid = os.getpid()
        self._name = name
        self._key = key
        self._holders: dict[str, HolderInfo] = {}
        self._waiting = 0
        self._facts = ServerFacts()
        self._looked_at = self._changed_at = -CARD_WITHIN
        self.changes: deque[Change] = deque()

    def __del__(self) -> None:
        self._reader.close()

    def close(self) -> None:
        """Close the connections; the next look makes new ones."""
        with self._busy:
            self._reader.close()

    def look(self) -> None:
        """Look at the lock, and note in `changes` what has changed.

        Raises:
            ServerUnavailableError: a server cannot be reached, or did not answer.

        Cost:
            Three to five round trips; if something has changed, those of a description.
        """
        # A task that was cancelled leaves its look to the thread that makes it.
        with self._busy:
            if self._pid != os.getpid():
                self._pid = os.getpid()
                self._reader.close()  # the connections are the parent's
            self._look()

    def _look(self) -> None:
        began, reader = time.monotonic(), self._reader
        info, facts = reader.glance(self._key), reader.facts()
        waiting = 0 if info is None else info.waiting
        changed = {each.holder for each in _holders(info)} != self._holders.keys()
        unknown = any(each.client.answering is None for each in self._holders.values())
        if changed or (unknown and began < self._changed_at + CARD_WITHIN):
            info = reader.describe(self._key)
        if changed:
            self._changed_at = began
        passed, story = began - self._looked_at, story_of(self._facts, facts)
        self._looked_at, self._facts = began, facts
        self._compare(info, waiting, passed, story)

    def _compare(self, info: LockInfo | None, waiting: int, passed: float, story: str) -> None:
        before = self._holders
        self._holders = {each.holder: _known(each, before) for each in _holders(info)}
        for holder, each in before.items():
            if holder not in self._holders:
                why = self._loss(each, passed, story)
                self._tell("released" if why is None else "lost", waiting, each, why or "")
        for holder, each in self._holders.items():
            if holder not in before:
                self._tell("acquired", waiting, each)
        if waiting != self._waiting:
            self._waiting = waiting
            self._tell("waiters", waiting)

    def _loss(self, each: HolderInfo, passed: float, story: str) -> str | None:
        """Return why the hold *each*, which is gone, was lost; None if it was released."""
        if each.remaining is not None and each.remaining <= passed:
            return "expired"
        note = self._reader.forced(self._key, each.holder)
        if note is not None:
            return f"force-released: {note}" if note else "force-released"
        return story or None

    def _tell(
        self,
        what: Literal["acquired", "released", "lost", "waiters"],
        waiting: int,
        holder: HolderInfo | None = None,
        why: str = "",
    ) -> None:
        holders = tuple(self._holders.values())
        self.changes.append(Change(self._name, what, time.time(), holder, why, waiting, holders))


def _known(each: HolderInfo, before: dict[str, HolderInfo]) -> HolderInfo:
    """Return *each* with what a card has told of it before, if none tells now."""
    known = before.get(each.holder)
    if known is None or each.client.answering is not None:
        return each
    return replace(known, remaining=each.remaining)


def _holders(info: LockInfo | None) -> Iterable[HolderInfo]:
    return () if info is None else info.holders
