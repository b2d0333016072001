"""What a user must be permitted for the objects that it uses: commands, keys and channels.

The commands are read from the scripts, which therefore cannot need one that is not named here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from interlock._core.insight.card import ASK, CARD, INDEX
from interlock._core.model import names
from interlock._core.scripts.script import text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_INSPECTION = resources.files("interlock.inspection").joinpath("lua")
_COMMENT = re.compile(r"--.*")
_CALL = re.compile(r"(?:redis\.p?call|asked)\('(\w+)'")

QUEUE = frozenset({"time", "zadd", "zrange", "zrem", "zscore"})
"""Commands of the waiting clients' queue: its scripts do without where they are not permitted."""
FOR_QUEUE = {
    **dict.fromkeys(("lock_acquire", "lock_release", "lock_hand_over"), QUEUE),
    "fenced_lock_acquire": QUEUE | {"hdel"},
    **dict.fromkeys(("read_lock_acquire", "read_lock_release"), QUEUE),
    **dict.fromkeys(("write_lock_acquire", "write_lock_release"), QUEUE),
    "semaphore_acquire": QUEUE | {"pexpire", "pttl"},
    "semaphore_release": QUEUE,
    "semaphore_leave": QUEUE,
}
"""What scripts call for nothing else."""
OPTIONAL = frozenset({"pubsub", "cluster"})
"""Commands that scripts do without where they are not permitted, or call in a cluster only."""
COUNTING = "cluster|info"
"""What `COUNTED` need in a cluster, where failovers must not repeat tokens."""
COUNTED = frozenset({"fenced_lock", "election"})
LIBRARY = "client|setinfo"
"""What tells the server which library connects; older servers refuse a rule with that name."""
NAMING = frozenset({"client|setname", LIBRARY})
"""Without them connections have no name, and cards are written all the same."""
SCRIPTS = ("evalsha", "eval")
"""Commands of every object."""


class Place(NamedTuple):
    """Keys or channels that belong to an object.

    Attributes:
        of: from the object's name to what they begin with.
        varied: whether something follows that is different each time.
        fixed: what an ACL calls them if their names have nothing to do with the object's.
        plain: of a channel: whether it is a plain one where others are sharded.
    """

    of: Callable[[str], str]
    varied: bool = False
    fixed: str = ""
    plain: bool = False

    def example(self, name: str) -> str:
        """Return one that belongs to the object *name*."""
        return self.of(name) + ("interlock-check" if self.varied else "")

    def pattern(self, name_pattern: str) -> str:
        """Return what an ACL calls those of the objects *name_pattern*.

        A name, or the beginning of names and ``*``.
        """
        if self.fixed:
            return self.fixed
        text = self.of(name_pattern) + ("*" if self.varied else "")
        if not name_pattern.endswith("*"):
            return text
        # Whatever follows the name is covered by the star in it.
        return text[: text.index(name_pattern) + len(name_pattern)]


@dataclass(frozen=True, slots=True)
class Kind:
    """What one kind of object uses.

    Attributes:
        scripts: the names of its Lua files.
        keys: besides the one that is called like the object.
        channels: where it announces and hears; none if it sends no messages.
        named: whether it uses the key that is called like the object.
        others: commands that no script calls.
        queue: where waiting clients stand in a queue; None if they do not.
    """

    scripts: tuple[str, ...]
    keys: tuple[Place, ...] = ()
    channels: tuple[Place, ...] = ()
    named: bool = True
    others: tuple[str, ...] = ()
    queue: Place | None = None

    @property
    def commands(self) -> frozenset[str]:
        """Return the commands that its scripts call, without those for the queue.

        PUBLISH, which has two names, is not among them.
        """
        called = (_called(script) - FOR_QUEUE.get(script, frozenset()) for script in self.scripts)
        return frozenset[str]().union(*called)

    @property
    def for_queue(self) -> frozenset[str]:
        """Return the commands that its scripts call for the queue."""
        needed = (_called(script) & FOR_QUEUE.get(script, frozenset()) for script in self.scripts)
        return frozenset[str]().union(*needed) if self.queue is not None else frozenset()


@cache
def _called(script: str) -> frozenset[str]:
    own = _INSPECTION.joinpath(f"{script}.lua")
    text = own.read_text(encoding="utf-8") if own.is_file() else text_of(script)
    return frozenset(_CALL.findall(_COMMENT.sub("", text))) - OPTIONAL


_PLAIN = (
    *("lock_acquire", "lock_release", "lock_renew", "lock_hand_over"),
    *("lock_force_release", "lock_query", "lock_set_lease", "lock_give"),
)


def _itself(name: str) -> str:
    return name


def _request(name: str) -> str:
    return names.request_latch(name, "")


def _own_request(name: str) -> str:
    return names.own_request(name, "")


def _election_request(name: str) -> str:
    return names.own_request(names.election_key(name), "")


def _condition_turn(name: str) -> str:
    return names.waiter_channel(names.condition_channel(name), "")


def _turn(name: str) -> str:
    return names.waiter_channel(names.lock_channel(name), "")


def _room(channel: Callable[[str], str]) -> tuple[Place, tuple[Place, ...]]:
    """Return the queue of those who wait for what *channel* announces, and what they hear."""

    def queue(name: str) -> str:
        return names.waiting_queue(channel(name))

    def waiting(name: str) -> str:
        return names.waiting_channel(channel(name))

    def wake(name: str) -> str:
        return names.wake_channel(channel(name), "")

    return Place(queue), (Place(channel), Place(waiting), Place(wake, varied=True))


_NAME = Place(_itself)
_QUEUE, _HEARD = _room(names.lock_channel)
_PERMITS_QUEUE, _PERMITS_HEARD = _room(names.semaphore_channel)
_REQUESTS = Place(_request, varied=True)
_OWN_REQUESTS = Place(_own_request, varied=True)

KINDS = {
    "lock": Kind(_PLAIN, keys=(_OWN_REQUESTS,), channels=_HEARD, queue=_QUEUE),
    "fair_lock": Kind(
        (
            *("fair_lock_acquire", "fair_lock_release", "fair_lock_force_release"),
            *("lock_renew", "lock_query"),
        ),
        keys=(Place(names.fair_queue), Place(names.fair_timeouts), _OWN_REQUESTS),
        channels=(Place(_turn, varied=True),),
    ),
    "fenced_lock": Kind(
        (*_PLAIN, "fenced_lock_acquire"),
        keys=(Place(names.fence_token), _OWN_REQUESTS),
        channels=_HEARD,
        queue=_QUEUE,
    ),
    "group_lock": Kind(
        (
            *("group_lock_acquire", "group_lock_release", "group_lock_renew"),
            *("group_lock_force_release", "group_lock_query"),
        ),
        keys=(_OWN_REQUESTS,),
        channels=(Place(names.lock_channel),),
    ),
    "spin_lock": Kind(_PLAIN, keys=(_OWN_REQUESTS,)),
    "read_write_lock": Kind(
        (
            *("read_lock_acquire", "read_lock_release", "read_lock_renew"),
            *("write_lock_acquire", "write_lock_release", "lock_renew"),
            *("read_write_lock_query", "read_write_lock_force_release"),
        ),
        keys=(Place(names.read_entries, varied=True), _OWN_REQUESTS),
        channels=(Place(names.read_write_channel), *_HEARD[1:]),
        queue=_QUEUE,
    ),
    "semaphore": Kind(
        (
            *("semaphore_acquire", "semaphore_release", "semaphore_drain"),
            *("semaphore_undo", "semaphore_try_set", "semaphore_query", "semaphore_leave"),
            *("semaphore_delete", "semaphore_add", "semaphore_set", "semaphore_total"),
        ),
        keys=(_REQUESTS, Place(names.semaphore_total)),
        channels=_PERMITS_HEARD,
        queue=_PERMITS_QUEUE,
    ),
    "leased_semaphore": Kind(
        (
            *("leased_semaphore_acquire", "leased_semaphore_release", "leased_semaphore_renew"),
            *("leased_semaphore_update", "leased_semaphore_query"),
            *("leased_semaphore_add", "leased_semaphore_set", "semaphore_delete"),
        ),
        keys=(Place(names.permit_leases), _REQUESTS, _OWN_REQUESTS),
        channels=(Place(names.semaphore_channel),),
    ),
    "count_down_latch": Kind(
        ("latch_try_set", "latch_count_down", "latch_query", "latch_delete"),
        keys=(_REQUESTS, Place(names.latch_ending)),
        channels=(Place(names.latch_channel),),
    ),
    "event": Kind(
        ("event_set", "event_clear", "event_query"),
        keys=(Place(names.event_key), _OWN_REQUESTS),
        channels=(Place(names.event_channel),),
        named=False,
    ),
    # This is for a condition of a plain lock.
    "condition": Kind(
        (
            *_PLAIN,
            *("condition_enlist", "condition_look", "condition_notify"),
            *("condition_end", "condition_leave", "waiting_renew"),
        ),
        keys=(Place(names.condition_waiting), Place(names.condition_leases), _OWN_REQUESTS),
        channels=(*_HEARD, Place(_condition_turn, varied=True)),
        queue=_QUEUE,
    ),
    "barrier": Kind(
        (
            *("barrier_arrive", "barrier_look", "barrier_end", "barrier_pass"),
            *("barrier_query", "barrier_leave", "waiting_renew"),
        ),
        keys=(
            *(Place(names.barrier_key), Place(names.barrier_parties)),
            *(Place(names.barrier_passed), _OWN_REQUESTS),
        ),
        channels=(Place(names.barrier_channel),),
        named=False,
    ),
    "election": Kind(
        (
            *("fenced_lock_acquire", "lock_renew", "lock_query", "lock_force_release"),
            *("election_release", "election_announce", "election_query", "election_look"),
        ),
        keys=(
            *(Place(names.election_key), Place(names.election_token)),
            *(Place(names.election_leader), Place(names.election_candidates)),
            Place(_election_request, varied=True),
        ),
        channels=(Place(names.election_channel), Place(names.election_news)),
        named=False,
    ),
}
"""By the name of the factory on the client. A composite lock needs what its members need."""


def _index(name: str) -> str:
    del name
    return INDEX


def _note(name: str) -> str:
    return names.forced_note(name, "interlock-check")


_CARDS = (
    Place(CARD.format, fixed=CARD.format("\n").partition("{")[0] + "*"),
    Place(_index, fixed=INDEX),
    Place(_note, fixed="interlock_forced:*"),
)
_QUESTIONS = Place(ASK.format, fixed=ASK.format("\n").partition("{")[0] + "*", plain=True)
"""Plain messages, on a cluster with sharded channels too."""
_READING = ("card_busy", "card_read", "lock_info")
OPERATIONS = {
    # To write cards, to look for deadlocks, and to ask why a lock was released by force.
    "cards": Kind(
        ("card_write", "forced_note_read", *_READING),
        # What is read of a lock to find its holders.
        (*_CARDS, Place(names.fair_queue), Place(names.fair_timeouts), Place(names.fence_token)),
        channels=(_QUESTIONS,),
        others=("client|setname", LIBRARY, "pubsub|numsub"),
    ),
    # To list, show and break holds; to break one takes the rights of the lock, too.
    "operator": Kind(
        (*_READING, "forced_note_write", "forced_note_read"),
        (
            *(Place(names.fair_queue), Place(names.fair_timeouts), Place(names.fence_token)),
            *(Place(names.read_entries, varied=True), Place(names.permit_leases)),
            *(Place(names.election_key), Place(names.election_token), *_CARDS),
        ),
        channels=(_QUESTIONS,),
        others=("scan", "zscan", "pubsub|numsub", "pubsub|channels", "client|list", "info"),
    ),
}
"""What goes beyond the objects: clients do without cards, applications without operators."""
EVERYTHING = {**KINDS, **OPERATIONS}


@dataclass(frozen=True, slots=True)
class Rights:
    """Everything that a set of kinds needs together.

    Attributes:
        data: commands that scripts call, sorted.
        messages: commands for announcing and hearing; none where nothing is announced.
        others: commands that have nothing to do with objects.
        keys: where.
        channels: where.
    """

    data: tuple[str, ...]
    messages: tuple[str, ...]
    others: tuple[str, ...]
    keys: tuple[Place, ...]
    channels: tuple[Place, ...]

    @property
    def commands(self) -> tuple[str, ...]:
        """Return all commands, in the order in which an ACL line names them."""
        return (*SCRIPTS, *self.data, *self.messages, *self.others)


def rights(
    kinds: Iterable[str],
    others: Iterable[str] = (),
    *,
    telling: bool = True,
    sharded: bool = False,
    library: bool = False,
) -> Rights:
    """Return what *kinds* need together.

    Args:
        kinds: names of `EVERYTHING`.
        others: further commands, called by nobody's script.
        telling: whether releases are announced.
        sharded: whether messages go by sharded channels.
        library: whether the servers know `LIBRARY`.
    """
    chosen = [EVERYTHING[kind] for kind in kinds]
    queues = dict.fromkeys(kind.queue for kind in chosen if kind.queue is not None and telling)
    called = frozenset[str]().union(*(kind.commands for kind in chosen))
    if queues:
        called = called.union(*(kind.for_queue for kind in chosen))
    data = sorted(called)
    channels = tuple(dict.fromkeys(place for kind in chosen for place in kind.channels if telling))
    prefix = "s" if sharded else ""
    messages = (
        *(f"{prefix}{command}" for command in ("publish", "subscribe", "unsubscribe")),
        "ping",
        *(("publish", "subscribe") if sharded and _QUESTIONS in channels else ()),
        *((f"pubsub|{'shard' if sharded else ''}numsub",) if queues else ()),
    )
    named = (_NAME,) if any(kind.named for kind in chosen) else ()
    keys = (*named, *dict.fromkeys(place for kind in chosen for place in kind.keys), *queues)
    further = dict.fromkeys((*others, *(word for kind in chosen for word in kind.others)))
    for command in (*(messages if channels else ()), *(() if library else (LIBRARY,))):
        _ = further.pop(command, None)
    return Rights(tuple(data), messages if channels else (), tuple(further), keys, channels)


def rules(mark: str, places: Iterable[Place], name_pattern: str) -> tuple[str, ...]:
    """Return what an ACL calls *places*, each behind *mark*."""
    patterns = dict.fromkeys(place.pattern(name_pattern) for place in places)
    # The server takes no pattern beside one that covers everything.
    return tuple(f"{mark}{pattern}" for pattern in (("*",) if "*" in patterns else patterns))


def acl_line(wanted: Rights, name_pattern: str) -> str:
    """Return the line of an ACL file that permits *wanted* to a user, and nothing more.

    Args:
        wanted: from `rights`.
        name_pattern: a name, or the beginning of names and ``*``.
    """
    return " ".join(
        (
            *("user", "app", "on", ">secret"),
            *("resetkeys", *rules("~", wanted.keys, name_pattern)),
            *("resetchannels", *rules("&", wanted.channels, name_pattern)),
            *("-@all", *(f"+{command}" for command in wanted.commands)),
        )
    )
