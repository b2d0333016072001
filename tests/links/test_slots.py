"""Which slot a key is in."""

from __future__ import annotations

import binascii

import pytest

from interlock._links.topology import SLOTS, slot_of


@pytest.mark.parametrize(
    ("key", "hashed"),
    [("", b""), ("123456789", b"123456789"), ("a{bc}d{e}", b"bc"), ("{}a", b"{}a")],
)
def test_the_slot_of_a_key(key: str, hashed: bytes) -> None:
    """A slot is CRC16 of the key, or of its first part in braces if that has any text."""
    assert slot_of(key) == binascii.crc_hqx(hashed, 0) % SLOTS
