"""Keys, channels and holder ids: the wire contract with Redisson on one screen.

Derived keys carry the name in braces, so that a cluster keeps an object's keys in one slot.
Redisson's test is literally "does the name contain an opening brace"; ours must be the same or
the two would not share a lock.

A holder is the hash field ``<client id>:<number>`` (`Session.holder`).

Source: Redisson 4.7.0, as docs/reference/wire.md has it.
"""

from __future__ import annotations

from interlock.errors import ConfigError

_SEMAPHORE = "redisson_sc"


def hash_tag(key: str) -> str:
    """Return the part of *key* that decides on its slot in a cluster."""
    _, opened, rest = key.partition("{")
    tag, closed, _ = rest.partition("}")
    return tag if opened and closed and tag else key


def check_channel(name: str, channel: str) -> None:
    """Refuse a name whose sharded channel a cluster would keep in another slot than its keys.

    Raises:
        ConfigError: it is in another slot.
    """
    if hash_tag(name) != hash_tag(channel):
        raise ConfigError(
            f"the name {name!r} cannot be used with sharded channels: {channel!r}, which Redisson prescribes, is in another hash slot; "
            'use a name without braces, or pubsub="plain" in all clients'
        )


def check_one_slot(name: str) -> None:
    """Refuse a name whose derived keys a cluster would keep in another slot than the name itself.

    Raises:
        ConfigError: it has a closing brace and no opening one before it, or an opening one that
            is not closed or has nothing in it.
    """
    if hash_tag(name) != hash_tag(prefix_name("", name)):
        raise ConfigError(
            f"the name {name!r} cannot be used in a cluster: its braces would put the keys of one object into several hash slots; "
            "leave them out, or put a part of the name between one pair: {orders}:42"
        )


def prefix_name(prefix: str, name: str) -> str:
    """Return the key or channel *prefix* of *name*."""
    return f"{prefix}:{name}" if "{" in name else f"{prefix}:{{{name}}}"


def suffix_name(name: str, suffix: str) -> str:
    """Return the key *suffix* of *name*."""
    return f"{name}:{suffix}" if "{" in name else f"{{{name}}}:{suffix}"


def lock_channel(name: str) -> str:
    """Return the channel on which a release of the lock *name* is announced."""
    return prefix_name("redisson_lock__channel", name)


def of_channel(prefix: str, channel: str) -> str:
    """Return the key or channel *prefix* of the object whose channel is *channel*."""
    return prefix + channel[channel.index(":") :]


def _ours(what: str, channel: str) -> str:
    """Return what *channel* has for clients of ours.

    The members of a semaphore's queue are of another form than a lock's. A queue may outlast its
    object for a while, and the name may be used again.
    """
    kind = "semaphore_" if channel.startswith(f"{_SEMAPHORE}:") else ""
    return of_channel(f"interlock_{kind}{what}", channel)


def waiting_queue(channel: str) -> str:
    """Return the key of the queue of the clients that wait for what *channel* announces."""
    return _ours("queue", channel)


def waiting_channel(channel: str) -> str:
    """Return the channel that all clients of ours hear besides *channel*: to count them."""
    return _ours("waiting", channel)


def wake_channel(channel: str, client: str) -> str:
    """Return the channel on which *client* hears that it is the next in the queue of *channel*."""
    return f"{_ours('wake', channel)}:{client}"


def fair_queue(name: str) -> str:
    """Return the key of the list in which the waiters of the fair lock *name* stand."""
    return prefix_name("redisson_lock_queue", name)


def fair_timeouts(name: str) -> str:
    """Return the key that tells when the places in that list end."""
    return prefix_name("redisson_lock_timeout", name)


def waiter_channel(channel: str, holder: str) -> str:
    """Return the channel on which waiter *holder* of a fair lock, whose lock channel is *channel*, is told that it is next."""
    return f"{channel}:{holder}"


def fence_token(name: str) -> str:
    """Return the key of the counter that the fenced lock *name* draws its tokens from."""
    return prefix_name("redisson_lock_token", name)


def read_write_channel(name: str) -> str:
    """Return the channel on which releases of the read/write lock *name*, of either side, are announced."""
    return prefix_name("redisson_rwlock", name)


def read_entries(name: str) -> str:
    """Return what the keys of all entries into the read lock *name* begin with."""
    return suffix_name(name, "")


def read_entry(entries: str, holder: str, depth: int) -> str:
    """Return the key whose TTL is the lease of *holder*'s entry to *depth*.

    *entries* is what all of them begin with.
    """
    return f"{entries}{holder}:rwlock_timeout:{depth}"


def writer(holder: str) -> str:
    """Return as whom *holder* holds the write lock."""
    return f"{holder}:write"


def semaphore_channel(name: str) -> str:
    """Return the channel on which permits of the semaphore *name*, of either kind, are announced."""
    return prefix_name(_SEMAPHORE, name)


def permit_leases(name: str) -> str:
    """Return the key that tells when the permits of the leased semaphore *name* end."""
    return suffix_name(name, "timeout")


def latch_channel(name: str) -> str:
    """Return the channel of the count-down latch *name*.

    Redisson adds braces whatever is in the name.
    """
    return f"redisson_countdownlatch__channel__{{{name}}}"


def latch_ending(name: str) -> str:
    """Return the key that tells how the count-down latch *name* ended last.

    Java does not look at it.
    """
    return prefix_name("interlock_latch_ending", name)


NOTE_KEPT = 600.0
"""Seconds for which a holder may ask why its lock was released by force."""


def forced_note(name: str, holder: str) -> str:
    """Return the key that tells *holder* why the lock *name* was released by force."""
    return f"{prefix_name('interlock_forced', name)}:{holder}"


def event_key(name: str) -> str:
    """Return the key of the event *name*."""
    return prefix_name("interlock_event", name)


def event_channel(name: str) -> str:
    """Return the channel on which the event *name* is announced."""
    return prefix_name("interlock_event__channel", name)


def election_key(name: str) -> str:
    """Return the key of the lock that the leader of the election *name* holds."""
    return prefix_name("interlock_election", name)


def election_token(name: str) -> str:
    """Return the key of the counter that the terms of the election *name* draw tokens from."""
    return prefix_name("interlock_election_token", name)


def election_leader(name: str) -> str:
    """Return the key that tells who leads the election *name*."""
    return prefix_name("interlock_election_leader", name)


def election_candidates(name: str) -> str:
    """Return the key that tells which clients want to lead the election *name*."""
    return prefix_name("interlock_election_candidates", name)


def election_channel(name: str) -> str:
    """Return the channel on which the end of a term of the election *name* is announced."""
    return prefix_name("interlock_election__channel", name)


def election_news(name: str) -> str:
    """Return the channel on which every change of the leader of *name* is announced."""
    return prefix_name("interlock_election__news", name)


def barrier_key(name: str) -> str:
    """Return the key that tells the generation of the barrier *name*, and whether it is broken."""
    return prefix_name("interlock_barrier", name)


def barrier_parties(name: str) -> str:
    """Return the key of the parties of the barrier *name*, with the ends of their leases."""
    return prefix_name("interlock_barrier_parties", name)


def barrier_passed(name: str) -> str:
    """Return the key that tells which generations of the barrier *name* have passed."""
    return prefix_name("interlock_barrier_passed", name)


def barrier_channel(name: str) -> str:
    """Return the channel on which the end of a generation of the barrier *name* is announced."""
    return prefix_name("interlock_barrier__channel", name)


def condition_waiting(name: str) -> str:
    """Return the key of those who wait for the condition *name* and were not notified."""
    return prefix_name("interlock_condition", name)


def condition_leases(name: str) -> str:
    """Return the key that tells when the leases of all waiters of the condition *name* end."""
    return prefix_name("interlock_condition_leases", name)


def condition_channel(name: str) -> str:
    """Return what the channel of each waiter of the condition *name* begins with."""
    return prefix_name("interlock_condition__channel", name)


def own_request(name: str, request: str) -> str:
    """Return what `request_latch` is for objects that Redisson does not have."""
    return f"{prefix_name('interlock_request', name)}:{request}"


def request_latch(name: str, request: str) -> str:
    """Return the short-lived key that keeps the answer to *request*.

    Redisson has the same for its own.
    """
    return f"{prefix_name('redisson_unlock_latch', name)}:{request}"
