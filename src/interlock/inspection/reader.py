"""Read locks from servers: page by page, with few commands and bounded memory.

Theory. SCAN goes through the keys in small steps and never blocks the server. One script for each
key tells what it is and who holds it, in one atomic look. A page of several hundred locks costs
three round trips: the locks, the number of clients that listen for them, and the holders' cards.

Rules:

* Nothing is written, and nothing is looked at as a whole: each answer has a bound.
* What cannot be read (no rights, moved meanwhile, no lock) is left out, and counted if it was the
  rights.
* A lock that comes or goes meanwhile may be missed. While keys move, one may come twice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from interlock._core.kinds import KINDS, queues_permits, seen, sight_of
from interlock._core.model import names
from interlock._links.cluster import Cluster
from interlock._links.resp import ReplyError
from interlock.errors import ConfigError, ServerUnavailableError
from interlock.inspection import cards
from interlock.inspection.beside import read_beside, read_totals
from interlock.inspection.card_reader import (
    ALL,
    LIMIT,
    NOBODY,
    REMEMBERED,
    STEP,
    WAITS,
    CardReader,
    place_of,
    waited,
    waiter_with_card,
)
from interlock.inspection.info import EndInfo, LockInfo
from interlock.inspection.listeners import listeners_of, permit_waiters
from interlock.inspection.lock_reply import (
    is_forsaken,
    key_of,
    lock_info_of,
    may_be,
    numbers,
    numbers_of,
    time_readers,
    token_of,
)
from interlock.inspection.search import scans
from interlock.inspection.server_facts import read_facts
from interlock.inspection.service import Service, code_of, load, text_of
from interlock.inspection.words import counted
from interlock.options import check_name, check_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Self

    from interlock._core.kinds import Sight
    from interlock._links.endpoint import Endpoint
    from interlock.inspection.server_facts import ServerFacts
    from interlock.inspection.service import Call
    from interlock.options import Options

_PASSED_OVER = {"NOPERM", "MOVED", "ASK", "TRYAGAIN", "WRONGTYPE"}
LOCK_INFO = load("lock_info")


class Reader:
    """Reads the locks of one server or cluster; close it, or use it in a ``with`` statement.

    Args:
        servers: one server, what finds it, or a cluster.
        options: the client's.

    Attributes:
        forbidden: how many keys the user has no right to read.
        refused: these keys; of very many only some.
        forbidden_counts: how often the server refused to tell how many clients listen.
    """

    def __init__(self, servers: Endpoint | Cluster, options: Options) -> None:
        self._service = Service(servers, options)
        self._cards = CardReader(self._service)
        self.forbidden = 0
        self.refused: set[str] = set()
        self.forbidden_counts = 0

    @property
    def forbidden_cards(self) -> int:
        """Return how many cards the user has no right to read; finding them counts as one."""
        return len(self._cards.unread)

    def missing(self) -> list[str]:
        """Return what could not be read for want of rights, one line for each kind."""
        lines: list[str] = []
        if self.forbidden:
            lines.append(_left_out(self.forbidden, "key"))
        if self._cards.unread:
            lines.append(
                f"{_left_out(len(self._cards.unread), 'card')}, so host, thread and age of holders "
                "and waiters may be missing"
            )
        if self.forbidden_counts:
            lines.append(
                "some waiters may be missing: the server refused to tell who listens "
                "(PUBSUB NUMSUB, a right of its own)"
            )
        return lines

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close what is open; doing it twice changes nothing."""
        self._service.close()

    def pages(
        self,
        pattern: str = "*",
        kinds: Iterable[str] = (),
        *,
        step: int = STEP,
        plain: bool = False,
        wants: Callable[[str], bool] | None = None,
    ) -> Iterator[list[LockInfo]]:
        """Yield the locks whose keys match *pattern*, some at a time.

        A semaphore and a latch look like any other number. So without *kinds* only those are told
        that a client waits for. A number that nobody waits for is told as a semaphore, or as a
        latch if *kinds* asks for latches and not for semaphores.

        Args:
            pattern: as of the command KEYS.
            kinds: of `LockInfo.kind`; none for all.
            step: keys that the server looks at for each page.
            plain: whether the locks' own keys are enough. Then no card is read, and nobody asks
                who listens: a page takes two round trips, and tells holder ids and leases.
            wants: is asked for each name that is found whether to look at it; all if None. It may
                be asked more than once for a name. A page then has what several steps find.

        Raises:
            ConfigError: a kind that does not exist, or *pattern* cannot be written as UTF-8.
            ServerUnavailableError: a server cannot be reached, or did not answer.

        Cost:
            Four round trips for each *step* keys of hashes, two for others; before them two for
            each 500 cards. The keys are gone through once for each type of key. A cluster has no
            list of its cards: it is scanned for them first.
        """
        wanted, known = frozenset(kinds), seen()
        if unknown := sorted(wanted - known.keys()):
            raise ConfigError(f"wanted kinds of {', '.join(known)}, found {unknown[0]!r}")
        pattern = check_text(pattern, "a pattern")
        with self._service.understood():
            yield from self._pages(pattern, wanted, step, plain=plain, wants=wants)

    def _pages(
        self,
        pattern: str,
        wanted: frozenset[str],
        step: int,
        *,
        plain: bool,
        wants: Callable[[str], bool] | None,
    ) -> Iterator[list[LockInfo]]:
        self._service.find_nodes()
        self._cards.forget()
        told: set[int] = set()
        for node in self._service.nodes:
            found = scans(self._service, node, pattern, wanted, step)
            for keys, apart in found if wants is None else _gathered(found, wants, step):
                new = keys if apart else [key for key in keys if hash(key) not in told]
                page = [
                    info
                    for info in self._look(node, new, LIMIT, apart)
                    if hash(key_of(info)) not in told and may_be(info, wanted)
                ]
                if page:
                    if len(told) > REMEMBERED:
                        told.clear()
                    told.update(hash(key_of(info)) for info in page)
                    finished = page if plain else self._finish(node, page)
                    if not wanted.isdisjoint(numbers()):
                        finished = list(numbers_of(finished, wanted))
                    yield finished

    def describe(self, key: str) -> LockInfo | None:
        """Return everything that is known about the lock *key*; None if nobody holds or awaits it.

        Raises:
            ConfigError: *key* is empty, or cannot be written as UTF-8.
            ServerUnavailableError: a server cannot be reached, or did not answer.

        Cost:
            About seven round trips, and one for each hundred cards.
        """
        key = check_name(key)
        with self._service.understood():
            return self._describe(key)

    def _describe(self, key: str) -> LockInfo | None:
        self._service.find_nodes()
        node = self._service.owner(key)
        forbidden = self.forbidden
        found = self._found(node, key)
        if not found:
            return None
        self.forbidden = forbidden  # of what is not this lock
        self._cards.forget(closely=True)
        return self._finish(node, found[:1], key_of(found[0]))[0]

    def glance(self, key: str) -> LockInfo | None:
        """Return who holds the lock *key*, and how many clients listen, without any cards.

        Raises:
            ConfigError: *key* is empty, or cannot be written as UTF-8.
            ServerUnavailableError: a server cannot be reached, or did not answer.

        Cost:
            Two to four round trips.
        """
        key = check_name(key)
        with self._service.understood():
            self._service.find_nodes()
            node, forbidden = self._service.owner(key), self.forbidden
            found = self._found(node, key)[:1]
            if not found and self.forbidden > forbidden:
                raise ServerUnavailableError(
                    f"the user has no right to read {key!r}", code="NOPERM"
                )
            if not found:
                return None
            listening, _ = self._listening(node, found) or ({}, {})
            waiting = max([found[0].waiting, *listening.values()])
            return replace(found[0], waiting=waiting)

    def beside(self, key: str) -> dict[str, str] | None:
        """Return what there is of other objects called *key*, as `read_beside` does."""
        with self._service.understood():
            self._service.find_nodes()
            return read_beside(self._service, key)

    def forced(self, key: str, holder: str) -> str | None:
        """Return the note that says why the hold of *holder* was broken; None if there is none.

        Its client removes the note when it reads it.
        """
        with self._service.understood():
            self._service.find_nodes()
            note = names.forced_note(key, holder)
            [reply] = self._service.ask(self._service.owner(note), [("GET", note)])
            return text_of(reply) if isinstance(reply, bytes) else None

    def _found(self, node: Endpoint, key: str) -> list[LockInfo]:
        """Return the lock *key*, if there is one, without what cards tell."""
        apart = [(kind, sight) for kind, sight in seen().items() if sight.apart]
        # The number of a leased semaphore looks like that of a plain one.
        first = [sight for kind, sight in apart if KINDS[kind].key is not sight.key]
        last = [sight for kind, sight in apart if KINDS[kind].key is sight.key]
        for sight in (*first, None, *last):
            at = key if sight is None else sight.key(key)
            found = self._look(node, [at], ALL, sight)
            if found and (sight is None or sight_of(found[0].kind) is sight):
                return found
        return []

    def card(self, client_id: str) -> cards.Card | None:
        """Return the whole card of a client; None if there is none, or if it may not be read."""
        with self._service.understood():
            self._service.find_nodes()
            key = cards.card_key(client_id)
            return next(self._cards.read(self._service.owner(key), [((key,), (0,))]), None)

    def holders(self, key: str) -> tuple[str, ...]:
        """Return the holder ids of the lock *key*, all of which a waiter waits for.

        Of a lock that several owners may hold there are none: one of them is enough to go on.
        """
        with self._service.understood():
            self._service.find_nodes()
            found = self._look(self._service.owner(key), [key], ALL)
            awaited = [info for info in found if not KINDS[info.kind].shared]
            return tuple(holder.holder for info in awaited for holder in info.holders)

    def ends(self, key: str) -> list[EndInfo]:
        """Return how holds of the lock *key* ended in the last minute, the newest first.

        Only holds of more than a second are told, and only by clients that write cards.

        Cost:
            About two round trips for each 500 cards.
        """
        with self._service.understood():
            self._service.find_nodes()
            found = [
                EndInfo(holder, card.client, end.age, end.lost, end.why)
                for holder, card, end in self._cards.ends(key)
            ]
        return sorted(found, key=lambda end: end.ago)

    def facts(self) -> ServerFacts:
        """Return what the servers tell of restarts, flushes and evictions.

        Cost:
            A round trip for each primary.
        """
        with self._service.understood():
            self._service.find_nodes()
            return read_facts(self._service)

    def waiting_cards(self) -> Iterator[cards.Card]:
        """Yield the cards of all clients with a thread or task that waits."""
        with self._service.understood():
            yield from self._cards.busy(WAITS)

    def _look(
        self, node: Endpoint, keys: Sequence[str], limit: int, apart: Sight | None = None
    ) -> list[LockInfo]:
        """Return those of *keys* that are locks, without what cards tell.

        Args:
            node: has them.
            keys: any keys.
            limit: of the holders and waiters of each.
            apart: the kind that has *keys* beside those that are called like its objects.
        """
        if not keys:
            return []
        calls: list[Call] = []
        for key in keys:
            # The number of free permits is called like the semaphore.
            name = apart.name_of(key) if apart is not None and apart.permits else key
            queue, places = names.fair_queue(name), names.fair_timeouts(name)
            calls.append(((key, queue, places, token_of(key), name), ()))
        replies = self._service.run(node, LOCK_INFO, limit, calls)
        time_readers(self._service, node, keys, replies)
        found: list[LockInfo] = []
        for key, reply in zip(keys, replies, strict=True):
            if isinstance(reply, ReplyError):
                self._note(node, key, reply)
            elif reply is not None:
                info = lock_info_of(key, cast("list[Any]", reply))
                if not is_forsaken(info):
                    found.append(info)
        return found

    def _note(self, node: Endpoint, key: str, reply: Exception) -> None:
        """Count a *key* that may not be read; pass over one that has moved.

        Raises:
            ServerUnavailableError: another error of the server's.
        """
        code = code_of(reply)
        if code == "NOPERM":
            self.forbidden += 1
            if len(self.refused) < REMEMBERED:
                self.refused.add(key)
        if code not in _PASSED_OVER:
            raise ServerUnavailableError(f"{node.where} cannot be read: {reply}", code=code)

    def _finish(
        self, node: Endpoint, page: list[LockInfo], only: str | None = None
    ) -> list[LockInfo]:
        """Return *page* with all that is known of its locks; *only* is the key of a single one."""
        heard = self._listening(node, page)
        waiting, twins = heard or ({}, dict[str, str]())
        totals = read_totals(self._service, node, page)
        awaited = [info for info in page if waiting.get(key_of(info))]
        limit = LIMIT if only is None else ALL
        if queues := permit_waiters(self._service, node, awaited, limit):
            page = [replace(info, waiters=queues.get(key_of(info), info.waiters)) for info in page]
        if only is None:
            told = self._cards.kept(page)
        else:
            wanted = [(*place_of(each), "h", only) for info in page for each in info.holders]
            wanted += [(*place_of(each), "w", only) for info in page for each in info.waiters]
            told = self._cards.of(wanted)
        # No holder or queue tells the ids of those who poll. Once for all pages: else a waiter
        # would appear or not by what its page has beside it. To find cards, a cluster must be
        # scanned: for one lock only if somebody listens, or holds permits.
        permits = any(sight_of(info.kind).permits for info in page)
        scanned = only is not None and isinstance(self._service.servers, Cluster)
        if not scanned or permits or heard is None or any(waiting.values()):
            self._cards.read_all(only)
        crowds = self._cards.crowds
        finished: list[LockInfo] = []
        for info in page:
            key, sight = key_of(info), sight_of(info.kind)
            kind, total = totals.get(key, (info.kind, None))
            kind = twins.get(key, kind)
            crowd = crowds.get(key, NOBODY) if sight.queue is None else NOBODY
            if crowd.count and sight.alone:
                crowd = crowd.without(info.holders)
            for holder in info.holders:
                self._cards.complete(holder, key, told, permit=sight.permits)
            listening = waiting.get(key, 0)
            counted = heard is not None or sight.queue is not None
            if (
                info.waiters
                or crowd.count
                or listening
                or kind != info.kind
                or total is not None
                or not counted
            ):
                queue = tuple([waiter_with_card(each, info.name, told) for each in info.waiters])
                if queues_permits(kind):
                    queue, crowd = (), crowd.beside(queue)
                info = replace(  # noqa: PLW2901 - the finished one
                    info,
                    kind=kind,
                    total=total,
                    waiters=queue or tuple(sorted(crowd.waiters, key=waited, reverse=True)),
                    waiting=max(info.waiting, listening),
                    waiter_count=info.waiting if queue else crowd.count,
                    waiting_known=counted,
                )
            finished.append(info)
        return finished

    def _listening(
        self, node: Endpoint, page: Sequence[LockInfo]
    ) -> tuple[dict[str, int], dict[str, str]] | None:
        """Return what `listeners_of` does; count a refusal."""
        heard = listeners_of(self._service, node, page)
        self.forbidden_counts += heard is None
        return heard


def _gathered(
    found: Iterable[tuple[list[str], Sight | None]], wants: Callable[[str], bool], step: int
) -> Iterator[tuple[list[str], Sight | None]]:
    """Yield those keys of *found* that *wants* asks for, at least *step* of a kind at a time.

    A page of a few keys would cost as many round trips as one of many.
    """
    keys: dict[str, None] = {}
    of: Sight | None = None
    for page, apart in found:
        if keys and (apart is not of or len(keys) >= step):
            yield list(keys), of
            keys = {}
        of = apart
        keys.update((key, None) for key in page if wants(apart.name_of(key) if apart else key))
    if keys:
        yield list(keys), of


def _left_out(number: int, noun: str) -> str:
    was, it = ("was", "it") if number == 1 else ("were", "them")
    return f"{counted(number, noun)} {was} left out: the user has no right to read {it}"
