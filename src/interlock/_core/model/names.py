"""Keys, channels and holder ids in one file: those of Redisson, and ours (``interlock_...``).

Derived keys carry the name in braces, so that a cluster keeps an object's keys in one slot.
Redisson only tests whether the name contains an opening brace. This library must test the same, or
the two would not share a lock.

A holder is the hash field ``<client id>:<number>``.

A key or channel that needs only the *name* of its object is a `partial`.

Source: Redisson 4.7.0, as docs/reference/wire.md has it. Redisson has nothing with our names.
"""

from __future__ import annotations

import itertools
from functools import partial

from interlock.errors import ConfigError


def hash_tag(key: str) -> str:
    """Return the part of *key* that determines its hash slot in a cluster."""
    _, opened, rest = key.partition("{")
    tag, closed, _ = rest.partition("}")
    return tag if opened and closed and tag else key


def check_channel(name: str, channel: str) -> None:
    """Check that a cluster has the sharded *channel* in the same slot as the keys of *name*.

    Raises:
        ConfigError: the channel is in another slot.
    """
    if hash_tag(name) != hash_tag(channel):
        raise ConfigError(
            f"the key {name!r} cannot be used with sharded channels: {channel!r}, "
            "which Redisson prescribes, is in another hash slot; "
            'use a name without braces, or pubsub="plain" in all clients'
        )


def check_one_slot(name: str) -> None:
    """Check that a cluster has the keys derived from *name* in the same slot as *name* itself.

    Raises:
        ConfigError: it has a closing brace but no opening one; or its first opening brace is not
            closed, or is closed at once.
    """
    if hash_tag(name) != hash_tag(prefix_name("", name)):
        raise ConfigError(
            f"the name {name!r} cannot be used in a cluster: "
            "its braces would put the keys of one object into several hash slots; "
            "leave them out, or put a part of the name between one pair: {orders}:42"
        )


def prefix_name(prefix: str, name: str) -> str:
    """Return the key or channel of *name* that begins with *prefix*."""
    return f"{prefix}:{name}" if "{" in name else f"{prefix}:{{{name}}}"


def suffix_name(name: str, suffix: str) -> str:
    """Return the key of *name* that ends with *suffix*."""
    return f"{name}:{suffix}" if "{" in name else f"{{{name}}}:{suffix}"


def shares_channels(name: str) -> bool:
    """Return whether another name has the same channels, and would have the same queue.

    `{a}` has those of `a`: Redisson's rule for braces makes them equal.
    """
    return name.startswith("{") and name.endswith("}") and "{" not in name[1:]


lock_channel = partial(prefix_name, "redisson_lock__channel")
"""The channel on which a release of the lock *name* is announced."""

fair_queue = partial(prefix_name, "redisson_lock_queue")
fair_timeouts = partial(prefix_name, "redisson_lock_timeout")
fence_token = partial(prefix_name, "redisson_lock_token")
asking_channel = partial(prefix_name, "interlock_asking")
"""A channel that nobody hears: a client asks by a message there whether scripts may send any."""
read_write_channel = partial(prefix_name, "redisson_rwlock")
read_entries = partial(suffix_name, suffix="")
"""The prefix of the keys of all entries into the read lock *name*."""


def read_entry(entries: str, holder: str, depth: int) -> str:
    """Return the key whose TTL is the lease of *holder*'s entry to *depth*.

    *entries* is the prefix of all such keys.
    """
    return f"{entries}{holder}:rwlock_timeout:{depth}"


semaphore_channel = partial(prefix_name, "redisson_sc")
semaphore_total = partial(prefix_name, "interlock_semaphore_total")
"""The key that tells how many permits the semaphore has, taken and free."""
permit_leases = partial(suffix_name, suffix="timeout")
"""The key that tells when the permits of the leased semaphore *name* end."""


def latch_channel(name: str) -> str:
    """Return the channel of the count-down latch *name*.

    Redisson adds braces even if the name has some.
    """
    return f"redisson_countdownlatch__channel__{{{name}}}"


latch_ending = partial(prefix_name, "interlock_latch_ending")
"""The key that tells how the latch ended last."""
latch_total = partial(prefix_name, "interlock_latch_total")
"""The key of the count that the latch was set up with."""


NOTE_KEPT = 600.0
"""Seconds for which a holder may ask why its lock was released by force."""


def forced_note(name: str, holder: str) -> str:
    """Return the key that tells *holder* why the lock *name* was released by force."""
    return f"{prefix_name('interlock_forced', name)}:{holder}"


event_key = partial(prefix_name, "interlock_event")
event_channel = partial(prefix_name, "interlock_event__channel")
election_key = partial(prefix_name, "interlock_election")
"""The key of the fenced lock that the leader of the election *name* holds."""
election_leader = partial(prefix_name, "interlock_election_leader")
election_news = partial(prefix_name, "interlock_election__news")


GRANT = 3.0
"""Seconds that a grant lasts, as in parts/queue.lua, or the waiter's lease if that is shorter."""
KEEP = 10.0
"""Seconds for which a queue is kept after somebody has asked, as in parts/queue.lua."""

WRITES = ":write"
"""What the id of a writer ends with."""

reader_coming = partial(prefix_name, "interlock_coming")
"""The key that is there while readers may still come who were let in at the read/write lock *name*."""

barrier_key = partial(prefix_name, "interlock_barrier")
"""The key of those who wait at the barrier *name*."""
barrier_ended = partial(prefix_name, "interlock_barrier_ended")
"""The key that tells how the last parties of the barrier *name* have ended."""

limited_permits = partial(prefix_name, "interlock_limited")
"""The key of the permits that are held of the limit *name*."""
limited_queue = partial(prefix_name, "interlock_limited_queue")
limited_channel = partial(prefix_name, "interlock_limited_waiting")
"""The channel on which all who wait for a permit of the limit *name* listen, and nobody else."""
leased_queue = partial(prefix_name, "interlock_leased_queue")
_ESCAPED = str.maketrans({":": "%3A", "%": "%25"})


def condition_key(lock: str, name: str) -> str:
    """Return the key of the condition *name* of the lock with the key *lock*.

    Colons of *name* are escaped: else a lock whose name has some could have the same condition.
    """
    return f"{prefix_name('interlock_condition', lock)}:{name.translate(_ESCAPED)}"


draw = itertools.count(100_000_000_000).__next__
"""Return the number of a new hold, which no other hold of this process ever has."""


def new_request(name: str, client: str) -> str:
    """Return a new short-lived key, which keeps the answer to a call of *client* about *name*."""
    return f"{prefix_name('interlock_request', name)}:{client}:{draw()}"


def packed_text(text: str) -> str:
    """Return *text* as an argument of a command, before it is encoded."""
    size = len(text) if text.isascii() else len(text.encode())
    return f"${size}\r\n{text}\r\n"


_SIDES = read_write_channel("").partition(":")[0]
"""What the channel of a read/write lock begins with."""


def _of_queue(what: str, channel: str) -> str:
    """Return the key or channel *what* of the queue of the lock with *channel*.

    A read/write lock has a queue of its own. A lock of another kind with its name would give it to
    a waiter without a mode; and what it gave a plain lock, readers would share.
    """
    kind = "interlock_rw" if channel.partition(":")[0] == _SIDES else "interlock"
    return f"{kind}_{what}{channel[channel.index(':') :]}"


waiting_queue = partial(_of_queue, "queue")
"""The key of the queue of the lock with a channel."""
waiting_channel = partial(_of_queue, "waiting")
"""The channel that all who stand in that queue subscribe to besides the lock's own.

Scripts count the subscribers of both. So they see whether others listen too, such as Java.
"""


def barrier_wakes(name: str) -> str:
    """Return what begins the channel that tells a client of its parties at the barrier *name*."""
    return f"{prefix_name('interlock_barrier_wake', name)}:"


def wake_channel(channel: str, client: str) -> str:
    """Return the channel that tells *client* of its places in the queue of *channel*."""
    return f"{_of_queue('wake', channel)}:{client}"
