"""What a user must be permitted for the objects that it uses: commands, keys and channels.

The commands are read from the scripts, which therefore cannot need one that is not named here.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from interlock._core.insight.card import CARD, INDEX
from interlock._core.model import names
from interlock._core.scripts.script import text_of
from interlock.inspection.kinds import KINDS, PERMITS_QUEUE, KeyPattern, Uses, seen

if TYPE_CHECKING:
    from collections.abc import Iterable

_INSPECTION = resources.files("interlock.inspection").joinpath("lua")
_COMMENT = re.compile(r"--.*")
_CALL = re.compile(r"(?:redis\.p?call|asked)\('(\w+)'")

QUEUE = frozenset({"time", "zadd", "zrange", "zrem", "zscore"})
"""Commands of the waiting clients' queue: its scripts do without where they are not permitted."""
FOR_QUEUE = {
    **dict.fromkeys(("lock_acquire", "lock_release", "lock_pass_locally"), QUEUE),
    "fenced_lock_acquire": QUEUE | {"hdel"},
    "fenced_lock_release": QUEUE,
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
"""What kinds with tokens need in a cluster, where failovers must not repeat them."""
LIBRARY = "client|setinfo"
"""What tells the server which library connects; older servers refuse a rule with that name."""
SCRIPTS = ("evalsha", "eval")
"""Commands of every object."""


def commands_of(uses: Uses) -> frozenset[str]:
    """Return the commands that its scripts call, without those for the queue.

    PUBLISH, which has two names, is not among them.
    """
    called = (_called(script) - FOR_QUEUE.get(script, frozenset()) for script in uses.scripts)
    return frozenset[str]().union(*called)


def for_queue(uses: Uses) -> frozenset[str]:
    """Return the commands that its scripts call for the queue."""
    needed = (_called(script) & FOR_QUEUE.get(script, frozenset()) for script in uses.scripts)
    return frozenset[str]().union(*needed) if uses.queue is not None else frozenset()


@cache
def _called(script: str) -> frozenset[str]:
    own = _INSPECTION.joinpath(f"{script}.lua")
    text = own.read_text(encoding="utf-8") if own.is_file() else text_of(script)
    return frozenset(_CALL.findall(_COMMENT.sub("", text))) - OPTIONAL


def _itself(name: str) -> str:
    return name


def _index(name: str) -> str:
    del name
    return INDEX


def _note(name: str) -> str:
    return names.forced_note(name, "interlock-check")


_CARDS = (
    KeyPattern(CARD.format, fixed=CARD.format("\n").partition("{")[0] + "*"),
    KeyPattern(_index, fixed=INDEX),
    KeyPattern(_note, fixed="interlock_forced:*"),
)
_READING = ("card_read", "lock_info")
_LISTS = (
    KeyPattern(names.fair_queue),
    KeyPattern(names.fair_timeouts),
    KeyPattern(names.fence_token),
)
"""What is read of a lock to find its holders and waiters."""
NAME = KeyPattern(_itself)


def _read() -> tuple[KeyPattern, ...]:
    """Return what the reader reads of objects beside the key that is called like one."""
    apart = [sight for sight in seen().values() if sight.apart]
    tokens = [sight.token for sight in apart if sight.token is not None]
    totals = [sight.total for sight in seen().values() if sight.total is not None]
    return (
        *(*_LISTS, KeyPattern(names.read_entries, varied=True)),
        *(KeyPattern(names.event_key), KeyPattern(names.condition_waiting), PERMITS_QUEUE),
        KeyPattern(names.barrier_parties),
        *(KeyPattern(of) for of in (*(sight.key for sight in apart), *tokens, *totals)),
    )


def operations() -> dict[str, Uses]:
    """Return what goes beyond the objects.

    Clients do without cards, applications without operators.
    """
    return {
        # To write cards, and to ask why a lock was released by force.
        "cards": Uses(
            ("card_write", "forced_note_read"), _CARDS, others=("client|setname", LIBRARY)
        ),
        # To list, show and break holds; to break one takes the rights of the lock, too.
        "operator": Uses(
            (*_READING, "forced_note_write", "forced_note_read"),
            (*_read(), *_CARDS),
            others=("scan", "zscan", "pubsub|numsub", "pubsub|channels", "client|list"),
        ),
    }


def objects() -> dict[str, Uses]:
    """Return what each kind uses that needs rights of its own."""
    return {name: kind.uses for name, kind in KINDS.items() if kind.uses is not None}


def rules(mark: str, places: Iterable[KeyPattern], name_pattern: str) -> tuple[str, ...]:
    """Return what an ACL calls *places*, each behind *mark*: ``~locks:*``."""
    patterns = dict.fromkeys(place.pattern(name_pattern) for place in places)
    # The server takes no pattern beside one that covers everything.
    return tuple(f"{mark}{pattern}" for pattern in (("*",) if "*" in patterns else patterns))
