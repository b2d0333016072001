"""The rights that docs/reference/acl.md names for each object are what its scripts call, no more.

That they are enough, `tests/check/test_rights.py` shows.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.support.cards import FOR_OPERATORS
from tests.support.scripts import SENT

from interlock._core.scripts.source import around
from interlock.check.requirements import OPTIONAL

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "acl.md"
RIGHTS = {
    name: words.split()
    for name, words in re.findall(r"^user (\S+) (.*)$", DOCUMENT.read_text(), re.MULTILINE)
}
PLAIN = (
    "lock_acquire",
    "lock_release",
    "lock_pass_locally",
    "lock_renew",
    "lock_force_release",
    "lock_query",
    "lock_set_lease",
    "lock_give",
    "locks_",
)
SCRIPTS = {
    "app": PLAIN,
    "fair": ("fair_lock_", "lock_renew", "lock_query"),
    "fenced": ("fenced_lock_", *PLAIN[1:]),
    "spin": PLAIN,
    "read-write": ("read_", "write_", "lock_renew"),
    "group": ("group_lock_",),
    "semaphore": ("semaphore_",),
    "leased-semaphore": ("leased_semaphore_",),
    "latch": ("latch_", "semaphore_expire"),
    "event": ("event_",),
    "barrier": ("barrier_", "waiting_renew"),
    "condition": ("condition_", "waiting_renew", *PLAIN),
    "election": (
        *("election_", "fenced_lock_", "lock_renew", "lock_query"),
        "lock_force_release",
    ),
}
"""What the names of an object's scripts begin with."""
HEARING = {"subscribe", "unsubscribe", "ping", "pubsub|numsub"}


@pytest.mark.parametrize("thing", SCRIPTS)
def test_commands_are_those_of_the_scripts(thing: str) -> None:
    """A line permits what the object's scripts call and what hearing takes, no command more."""
    called: set[str] = set()
    silent = thing == "spin"
    for stem, texts in SENT.items():
        if stem.startswith(SCRIPTS[thing]) and stem not in FOR_OPERATORS:
            text = (
                texts["" if silent else "PUBLISH"]
                .replace(around("clock")[0], "redis.call('time')")
                .lower()
            )
            called |= set(re.findall(r"redis\.p?call\('([a-z]+)'", text))
    called -= OPTIONAL
    expected = called | {"evalsha", "eval"} | (set() if silent else HEARING)
    assert {word[1:] for word in RIGHTS[thing] if word[0] == "+"} == expected
