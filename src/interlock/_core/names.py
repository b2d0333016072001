"""Keys, channels and holder ids: the wire contract with Redisson on one screen.

Derived keys carry the name in braces, so that a cluster keeps an object's keys in one slot. Redisson's test is literally
"does the name contain an opening brace"; ours must be the same or the two would not share a lock.

Source: redisson-wire 0.1 and 0.3.
"""

from __future__ import annotations


def prefix_name(prefix: str, name: str) -> str:
    """Return the key or channel *prefix* of *name*."""
    return f"{prefix}:{name}" if "{" in name else f"{prefix}:{{{name}}}"


def suffix_name(name: str, suffix: str) -> str:
    """Return the key *suffix* of *name*."""
    return f"{name}:{suffix}" if "{" in name else f"{{{name}}}:{suffix}"


def holder_id(client_id: str, number: int) -> str:
    """Return the hash field under which owner *number* of a client holds."""
    return f"{client_id}:{number}"


def lock_channel(name: str) -> str:
    """Return the channel on which a release of the lock *name* is announced."""
    return prefix_name("redisson_lock__channel", name)


def fence_token(name: str) -> str:
    """Return the key of the counter that the fenced lock *name* draws its tokens from."""
    return prefix_name("redisson_lock_token", name)
