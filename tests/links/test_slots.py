"""Which slot a key is in."""

from __future__ import annotations

import binascii

import pytest
from redis.exceptions import RedisClusterException

from interlock._links import slots
from interlock._links.slots import SLOTS, slot_of


@pytest.mark.parametrize(
    ("key", "hashed"),
    [("", b""), ("123456789", b"123456789"), ("a{bc}d{e}", b"bc"), ("{}a", b"{}a")],
)
def test_the_slot_of_a_key(key: str, hashed: bytes) -> None:
    """A slot is CRC16 of the key, or of its first part in braces if that has any text."""
    assert slot_of(key) == binascii.crc_hqx(hashed, 0) % SLOTS


def test_an_error_is_told_in_the_nodes_own_words() -> None:
    """The cause that redis-py hides is raised, and its text where there is none."""
    reason, told = OSError("refused"), RedisClusterException("no node")
    told.__cause__ = reason
    assert slots._root(told, RedisClusterException) is reason
    bare = slots._root(RedisClusterException("no node"), RedisClusterException)
    assert isinstance(bare, ConnectionError)
    assert str(bare) == "no node"
