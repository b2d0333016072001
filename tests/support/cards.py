"""What the library keeps on a server for operators, which tests of locks leave out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import redis


def is_card(key: str | bytes) -> bool:
    """Return whether *key* belongs to the cards of living clients, or answers copies of a call.

    Answers to copies expire soon, by themselves.
    """
    text = key.decode() if isinstance(key, bytes) else key
    return text.startswith(("interlock_client", "interlock_request:"))


def own_keys(server: redis.Redis) -> set[str]:
    untyped: Any = server  # redis-py types what it returns here only in part
    keys: list[bytes] = list(untyped.scan_iter())
    return {key.decode() for key in keys if not is_card(key)}


def waited_channels(server: redis.Redis) -> list[str]:
    untyped: Any = server
    return [channel.decode() for channel in untyped.pubsub_channels()]
