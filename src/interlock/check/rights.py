"""What the objects need on a server beyond the catalogue of kinds: commands, and operators' rights.

The commands are read from the scripts, which therefore cannot need one that is not named here.
"""

from __future__ import annotations

import re
from functools import cache, partial
from importlib import resources

from interlock._core.insight.card import CARD, INDEX
from interlock._core.model import names
from interlock._core.scripts.script import text_of
from interlock.inspection.kinds import KINDS, KeyPattern, Named, Uses, seen

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
LIBRARY = "client|setinfo"
"""What tells the server which library connects; older servers refuse a rule with that name."""
_CARDS = (
    KeyPattern(CARD.format, fixed=CARD.format("\n").partition("{")[0] + "*"),
    KeyPattern(INDEX.format, fixed=INDEX),
    KeyPattern(partial(names.forced_note, holder=""), fixed="interlock_forced:*"),
)


def commands_of(uses: Uses, *, queue: bool = False) -> frozenset[str]:
    """Return the commands that its scripts call, with those for the *queue* or without them.

    PUBLISH, which has two names, is not among them.
    """
    spared = {} if queue else FOR_QUEUE
    called = (_called(script) - spared.get(script, frozenset()) for script in uses.scripts)
    return frozenset[str]().union(*called)


@cache
def _called(script: str) -> frozenset[str]:
    own = _INSPECTION.joinpath(f"{script}.lua")
    text = own.read_text(encoding="utf-8") if own.is_file() else text_of(script)
    return frozenset(_CALL.findall(_COMMENT.sub("", text))) - OPTIONAL


def objects() -> dict[str, Uses]:
    """Return what each kind uses that needs rights of its own."""
    return {name: kind.uses for name, kind in KINDS.items() if kind.uses is not None}


def operations() -> dict[str, Uses]:
    """Return what goes beyond the objects.

    Clients do without cards, applications without operators.
    """
    # Beside the key that is called like the object.
    sights = seen().values()
    apart = [sight for sight in sights if sight.apart]
    read: tuple[Named, ...] = (
        *(names.fair_queue, names.fair_timeouts, names.fence_token),
        *(sight.key for sight in apart),
        *(sight.token for sight in apart if sight.token is not None),
        *(sight.total for sight in sights if sight.total is not None),
    )
    return {
        # To write cards, and to ask why a lock was released by force.
        "cards": Uses(
            ("card_write", "forced_note_read"), _CARDS, others=("client|setname", LIBRARY)
        ),
        # To list, show and break holds; to break one takes the rights of the lock, too.
        "operator": Uses(
            ("card_read", "lock_info", "forced_note_write", "forced_note_read"),
            (
                *(KeyPattern(of) for of in read),
                *(KeyPattern(names.read_entries, varied=True), *_CARDS),
            ),
            others=("scan", "zscan", "pubsub|numsub", "pubsub|channels", "client|list", "info"),
        ),
    }
